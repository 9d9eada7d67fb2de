// Tests of shim/staging/ring_set.h.
#include "shim/staging/ring_set.h"
#include "tests/unit/rings_fixture.h"

namespace graphpool {
namespace {

class RingSetTest : public RingsTest {
 protected:
  static constexpr std::uint32_t kBudget = 100;

  RingSetTest() {
    plan_by(kFirstRule);
    EXPECT_EQ(hipSuccess, set_.make(graph(), {first_}));
  }
  bool can_follow(char* memory) { return set_.can_follow({memory}, 0); }
  hipError_t follow(char* memory, std::uint32_t budget = kBudget) {
    return set_.follow(graph(), {memory}, budget, &counts_);
  }

  RingSet set_;
  RingCounts counts_;
};

TEST_F(RingSetTest, one_exec_copies_in_works_on_the_slot_copies_out_and_records) {
  EXPECT_TRUE(set_.serves);
  EXPECT_FALSE(set_.plain);
  const fake::NodeRow& nodes = graphs.state.execs.at(set_.fused.exec());
  ASSERT_EQ(4u, nodes.size());
  char* const slot = static_cast<char*>(set_.slots->address(0));
  EXPECT_EQ(slot, nodes[0].second.dst);
  EXPECT_EQ(first_, nodes[0].second.src);
  EXPECT_EQ(slot, nodes[1].second.dst) << "the graph's fill";
  EXPECT_EQ(first_, nodes[2].second.dst);
  EXPECT_EQ(slot, nodes[2].second.src);
  EXPECT_EQ(set_.last.event(), nodes[3].second.event);
  for (std::size_t i = 1; i < nodes.size(); ++i)
    EXPECT_EQ(std::vector{nodes[i - 1].first}, nodes[i].second.after) << "each comes behind the one before: " << i;
}

TEST_F(RingSetTest, buffers_that_moved_are_followed_by_patching_the_copies) {
  char* const moved = memory_by(kFirstRule);
  ASSERT_TRUE(can_follow(moved));
  ASSERT_EQ(hipSuccess, follow(moved));
  EXPECT_EQ((ProgramEnds{moved, moved}), copies_of(set_.fused.exec()));
  EXPECT_EQ(2u, counts_.patched);
  EXPECT_EQ(1, graphs.state.instantiates) << "nothing else was made";
  EXPECT_FALSE(set_.fused.current_for({first_}, 0));
  EXPECT_TRUE(set_.fused.current_for({moved}, 0));
}

TEST_F(RingSetTest, rule_09_an_exec_that_runs_or_whose_copies_are_not_patched_exactly_does_not_follow) {
  char* const moved = memory_by(kFirstRule);
  const hipStream_t here = stream();
  ASSERT_EQ(hipSuccess, run(set_.fused.exec(), here));
  set_.last.launched(key(here), here, set_.fused.records_event());
  EXPECT_FALSE(can_follow(moved)) << "its launch may still run";
  EXPECT_TRUE(can_follow(first_)) << "it has these";
  fake::finish(here);
  EXPECT_TRUE(can_follow(moved));
  test_set_runtime_version(kPatchesNoFill);
  EXPECT_FALSE(can_follow(moved));
}

TEST_F(RingSetTest, a_worn_exec_is_replaced) {
  char* const moved = memory_by(kFirstRule);
  const hipGraphExec_t before = set_.fused.exec();
  ASSERT_EQ(hipSuccess, follow(moved, 1)) << "its two copies are more than that";
  EXPECT_EQ(0u, counts_.patched);
  EXPECT_EQ(0u, graphs.state.execs.count(before));
  EXPECT_EQ((ProgramEnds{moved, moved}), copies_of(set_.fused.exec()));
  EXPECT_FALSE(set_.plain);
}

TEST_F(RingSetTest, an_exec_that_is_half_patched_goes_and_a_plain_one_serves) {
  char* const moved = memory_by(kFirstRule);
  fake.hip->fail["hipGraphExecMemcpyNodeSetParams1D"] = hipErrorUnknown;
  EXPECT_EQ(hipSuccess, follow(moved));
  EXPECT_FALSE(set_.fused);
  ASSERT_TRUE(set_.plain);
  EXPECT_EQ(std::vector<void*>{set_.slots->address(0)}, fake::written_by(set_.plain.exec()));
}

TEST_F(RingSetTest, where_neither_can_be_made_the_error_is_the_runtimes) {
  fake.hip->fail["hipGraphExecMemcpyNodeSetParams1D"] = hipErrorUnknown;
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, follow(memory_by(kFirstRule)));
  EXPECT_FALSE(set_.plain);
}

TEST_F(RingSetTest, copies_around_a_plain_exec_lead_to_the_slot_and_back) {
  const hipStream_t here = stream();
  char* const slot = static_cast<char*>(set_.slots->address(0));
  EXPECT_EQ(hipSuccess, set_.copy(plan_->copies_in(), true, {first_}, here, &counts_));
  EXPECT_EQ(hipSuccess, set_.copy(plan_->copies_out(), false, {first_}, here, &counts_));
  EXPECT_EQ((std::vector<Copy>{{slot, first_, here}, {first_, slot, here}}), copies);
  EXPECT_EQ(2u, counts_.submissions);
  EXPECT_EQ(plan_->copied_bytes(), counts_.bytes);
  fake.hip->fail["hipMemcpyAsync"] = hipErrorUnknown;
  EXPECT_EQ(hipErrorUnknown, set_.copy(plan_->copies_in(), true, {first_}, here, &counts_));
  EXPECT_EQ(2u, counts_.submissions);
}

}  // namespace
}  // namespace graphpool
