// What the program has set in nodes of an exec and was only noted reaches the exec before it is needed.
#include "shim/graphs/noted_sets.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class NotedSetsTest : public GraphsTest {
 protected:
  NotedSetsTest() : exec_(exec_of({5, 6, 7})) {}

  /// The operation's node is set, and that is noted only.
  void note(std::uint32_t index, std::uint64_t address) {
    ProgramExec& exec = exec_behind(exec_);
    if (exec.sets == nullptr) exec.sets = std::make_unique<ExecSets>(exec.recording->operations, exec.binding, false);
    const LockGuard guard(exec.lock);
    payload_at<FillPayload>(exec.binding, exec.recording->operations[index].payload_offset).dst = address;
    exec.sets->note(index);
  }
  hipError_t give() { return graphs.noted.give(exec_behind(exec_)); }

  const hipGraphExec_t exec_;
};

TEST_F(NotedSetsTest, nodes_that_were_set_are_given_once) {
  note(1, 15);
  note(3, 17);
  EXPECT_EQ(hipSuccess, give());
  EXPECT_EQ(2, runtime.state.sets) << "the node between keeps what it has";
  EXPECT_EQ((Addresses{15, 6, 17}), filled_by(exec_));
  EXPECT_EQ(2, runtime.state.sets);
  const ProgramExec& exec = exec_behind(exec_);
  EXPECT_TRUE(exec.sets->noted().empty());
  EXPECT_TRUE(exec.set_by_program());
  EXPECT_TRUE(equal(exec.binding, exec.variant->baked)) << "another exec may find it by that once it is free";
}

TEST_F(NotedSetsTest, a_launch_gives_them) {
  note(2, 16);
  EXPECT_EQ((Addresses{5, 16, 7}), filled_by(exec_));
}

TEST_F(NotedSetsTest, where_nothing_was_set_nothing_is_called) {
  const int calls = fake.hip->calls;
  EXPECT_EQ(hipSuccess, give());
  EXPECT_EQ(calls, fake.hip->calls);
}

TEST_F(NotedSetsTest, rule_09_what_is_not_set_exactly_serves_nobody_else) {
  test_set_runtime_version(kPatchesNoFill);
  note(1, 15);
  EXPECT_EQ(hipSuccess, give());
  EXPECT_EQ(Health::kUnsure, health_of(*exec_behind(exec_).variant));
}

TEST_F(NotedSetsTest, an_exec_that_is_half_set_is_replaced_by_one_that_has_all) {
  filled_by(exec_);
  const hipGraphExec_t before = launched_;
  note(1, 15);
  note(2, 16);
  fake.hip->fail_at = fake.hip->calls;
  fake.hip->fail["hipGraphExecMemsetNodeSetParams"] = hipErrorUnknown;
  EXPECT_EQ(hipSuccess, give());
  fake.hip->fail.clear();
  EXPECT_EQ((Addresses{15, 16, 7}), filled_by(exec_));
  EXPECT_NE(before, launched_);
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec_));
  EXPECT_EQ(0u, runtime.state.execs.count(before)) << "the half set one serves nobody";
}

TEST_F(NotedSetsTest, where_no_other_can_be_made_the_error_is_that_of_the_set) {
  note(1, 15);
  fake.hip->fail["hipGraphExecMemsetNodeSetParams"] = hipErrorInvalidValue;
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorInvalidValue, give());
}

}  // namespace
}  // namespace graphpool
