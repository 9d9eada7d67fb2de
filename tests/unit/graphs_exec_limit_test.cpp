// Execs under a limit of memory: which are given back to the runtime, and how they come again.
#include "shim/base/units.h"
#include "shim/graphs/exec_limit.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class ExecLimitTest : public GraphsTest {
 protected:
  ExecLimitTest() {
    graphs.settings.exec_memory = 2 * kMiB;  // of two execs
    graphs.settings.looks_at_launches = true;
    recording_of(1);
    EXPECT_EQ(kMiB, find(1, 0)->exec_bytes);
  }
  bool given_back(hipGraphExec_t exec) { return exec_behind(exec).given_back(); }
  std::size_t execs() const { return runtime.state.execs.size(); }
};

TEST_F(ExecLimitTest, the_one_that_was_not_used_for_longest_is_given_back_and_made_again) {
  const hipGraphExec_t first = exec_of({1}), second = exec_of({2});
  filled_by(second);
  filled_by(first);
  const hipGraphExec_t third = exec_of({3});
  EXPECT_TRUE(given_back(second));
  EXPECT_FALSE(given_back(first) || given_back(third));
  EXPECT_EQ(2u, execs());
  EXPECT_EQ(Addresses{2}, filled_by(second)) << "a launch makes it again";
  EXPECT_FALSE(given_back(second));
  EXPECT_TRUE(given_back(first));
  EXPECT_EQ(2u, execs());
  EXPECT_EQ(2u, graphs.exec_limit.counts().given_back);
  EXPECT_EQ(1u, graphs.exec_limit.counts().made_again);
  filled_by(first);
  filled_by(third);
  EXPECT_TRUE(given_back(second)) << "it may go again";
}

TEST_F(ExecLimitTest, execs_that_nobody_holds_go_by_their_last_use_too) {
  const hipGraphExec_t held = exec_of({1}), gone = exec_of({2});
  filled_by(gone);
  filled_by(held);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(gone));
  exec_of({3});
  EXPECT_FALSE(given_back(held)) << "the free one was used before it";
  EXPECT_EQ(2u, execs());
  EXPECT_EQ(0u, free_variants_of(*find(1, 0)));
  const hipGraphExec_t later = exec_of({4});
  EXPECT_TRUE(given_back(held));
  filled_by(later);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(later));
  exec_of({5});
  EXPECT_EQ(1u, free_variants_of(*find(1, 0))) << "one that is held was used before it";
}

TEST_F(ExecLimitTest, rule_20_one_that_runs_stays_and_goes_later_without_a_wait) {
  const hipGraphExec_t running = exec_of({1}), other = exec_of({2});
  const hipStream_t here = stream();
  EXPECT_EQ(hipSuccess, launch(running, here));
  filled_by(other);
  exec_of({3});
  EXPECT_FALSE(given_back(running)) << "although it was used before the other";
  EXPECT_TRUE(given_back(other));
  const hipStream_t there = stream();
  EXPECT_EQ(hipSuccess, launch(other, there));
  const hipGraphExec_t third = exec_of({4});
  EXPECT_EQ(hipSuccess, launch(third, there));
  exec_of({5});
  EXPECT_GT(execs(), 2u) << "what runs is not waited for";
  EXPECT_EQ(0, fake.hip->waits);
  fake::finish(here);
  fake::finish(there);
  EXPECT_EQ(ExecRoom::Left::kNothing, graphs.exec_limit.trim());
  EXPECT_EQ(2u, execs());
  EXPECT_EQ(0, fake.hip->waits);
}

TEST_F(ExecLimitTest, only_what_can_be_made_again_goes) {
  const hipGraph_t graph = capture({1});
  find(1, 0)->rebuildable = false;
  const hipGraphExec_t native = instantiate(graph);  // of the program's own graph
  find(1, 0)->rebuildable = true;
  const hipGraphExec_t with_objects = instantiate(defer({2}, 0, true));
  hipGraphExec_t exposed = exec_of({3});
  const hipGraphExec_t own = exposed;
  EXPECT_EQ(hipSuccess, graphs.own.expose(&exposed, nullptr, "a test"));
  const hipGraphExec_t updated = exec_of({4});
  {
    const LockGuard guard(g_recordings_lock);
    exec_behind(updated).variant->worsen(Health::kUnsure);
  }
  EXPECT_FALSE(graphs.exec_limit.reclaim(-1));
  for (const hipGraphExec_t exec : {native, with_objects, own, updated}) EXPECT_FALSE(given_back(exec));
  const hipGraphExec_t plain = exec_of({5});
  find(1, 0)->rebuildable = false;
  EXPECT_FALSE(graphs.exec_limit.reclaim(-1)) << "nothing is made of such a recording";
  find(1, 0)->rebuildable = true;
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  EXPECT_TRUE(given_back(plain));
}

TEST_F(ExecLimitTest, one_that_a_call_uses_stays) {
  const hipGraphExec_t used = exec_of({1}), other = exec_of({2});
  {
    const ExecUse use(graphs.exec_limit, &exec_behind(used));
    EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
    EXPECT_FALSE(given_back(used));
    EXPECT_TRUE(given_back(other));
  }
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  EXPECT_TRUE(given_back(used));
}

TEST_F(ExecLimitTest, an_update_of_one_that_was_given_back_makes_it_for_the_new_binding) {
  const hipGraphExec_t exec = exec_of({1});
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  EXPECT_EQ(hipSuccess, update(exec, defer({6})));
  EXPECT_FALSE(given_back(exec));
  EXPECT_EQ(0, runtime.state.updates);
  EXPECT_EQ(Addresses{6}, filled_by(exec));
  EXPECT_EQ(1u, graphs.exec_limit.counts().made_again);
}

TEST_F(ExecLimitTest, memory_that_it_names_is_freed_while_it_is_given_back) {
  const hipGraphExec_t exec = exec_of({0x5000});
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  const int before = runtime.state.instantiates;
  graphs.unstaged.before_memory_is_freed(reinterpret_cast<void*>(0x9000), 0x1000);
  EXPECT_EQ(before, runtime.state.instantiates) << "it does not name that";
  graphs.unstaged.before_memory_is_freed(reinterpret_cast<void*>(0x5000), 0x1000);
  EXPECT_EQ(before + 1, runtime.state.instantiates) << "natively it was made before";
  fake.hip->fail["hipGraphAddMemsetNode"] = hipErrorInvalidValue;  // over freed memory
  EXPECT_EQ(Addresses{0x5000}, filled_by(exec));
}

TEST_F(ExecLimitTest, rule_15_a_launch_answers_that_there_is_no_memory) {
  const hipGraphExec_t exec = exec_of({1});
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, launch(exec, stream()));
  EXPECT_TRUE(given_back(exec));
  fake.hip->fail.clear();
  EXPECT_EQ(Addresses{1}, filled_by(exec));
}

TEST_F(ExecLimitTest, one_that_was_given_back_can_be_destroyed) {
  const hipGraphExec_t exec = exec_of({1});
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_EQ(0u, users_of(*find(1, 0)));
  EXPECT_EQ(0u, execs());
}

TEST_F(ExecLimitTest, without_a_limit_nothing_is_given_back) {
  graphs.settings.exec_memory = 0;
  const hipGraphExec_t exec = exec_of({1});
  EXPECT_FALSE(graphs.exec_limit.reclaim(-1));
  EXPECT_EQ(ExecRoom::Left::kNothing, graphs.exec_limit.make_room(0, kGiB));
  EXPECT_FALSE(given_back(exec));
  EXPECT_EQ(nullptr, exec_behind(exec).limited);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_FALSE(graphs.exec_limit.reclaim(-1)) << "what is free is the store's";
}

}  // namespace
}  // namespace graphpool
