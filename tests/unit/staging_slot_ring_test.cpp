// Tests of shim/staging/slot_ring.h.
#include <utility>

#include "shim/costs/copy_timer.h"
#include "shim/memory/freed_memory.h"
#include "shim/staging/rings.h"
#include "shim/staging/slot_ring.h"
#include "tests/support/counting_new.h"
#include "tests/unit/rings_fixture.h"

namespace graphpool {
namespace {

class SlotRingTest : public RingsTest {
 protected:
  using Reached = RingLaunch::Reached;
  static constexpr std::uint32_t kBudget = 100;

  void make(std::uint32_t rule) {
    plan_by(rule);
    ASSERT_EQ(hipSuccess, SlotRing::make(graph(), {first_}, kBudget, may_be_direct_, &ring_));
  }
  hipError_t bind(char* memory) { return ring_->bind({memory}, &counts_); }
  RingLaunch launch(hipStream_t stream, LastLaunch::IfRunning if_running = LastLaunch::IfRunning::kAsPlanned) {
    return ring_->launch(
        key(stream), stream, [&](hipGraphExec_t exec) { return run(exec, stream); }, if_running, &counts_);
  }
  void launch_all(hipStream_t stream, int launches) {
    for (int i = 0; i < launches; ++i) ASSERT_EQ(Reached::kGraph, launch(stream).reached);
  }

  std::atomic<bool> may_be_direct_{true};
  std::unique_ptr<SlotRing> ring_;
  RingCounts counts_;
};

TEST_F(SlotRingTest, its_sets_serve_in_turn) {
  make(kTwoSets);
  EXPECT_EQ(2u, ring_->sets());
  EXPECT_EQ(2u, ring_->execs());
  const hipStream_t here = stream();
  launch_all(here, 4);
  EXPECT_NE(launched_[0], launched_[1]);
  EXPECT_EQ(launched_[0], launched_[2]);
  EXPECT_EQ(launched_[1], launched_[3]);
  const auto slots_of = [&](std::size_t launch) { return fake::written_by(launched_[launch]).front(); };
  EXPECT_NE(slots_of(0), slots_of(1)) << "each set has slots of its own";
  EXPECT_EQ(4u, counts_.launches);
  EXPECT_EQ(4 * plan_->copied_bytes(), counts_.bytes);
  EXPECT_TRUE(copies.empty()) << "all of a launch is in its exec";
}

TEST_F(SlotRingTest, rule_03_a_launch_comes_behind_the_one_before_in_another_stream) {
  make(kTwoSets);
  const hipStream_t here = stream(), there = stream();
  launch_all(here, 1);
  launch_all(here, 1);
  EXPECT_EQ(0, count("hipStreamWaitEvent")) << "the stream orders them";
  launch_all(there, 1);
  EXPECT_EQ(1, count("hipStreamWaitEvent"));
  EXPECT_FALSE(fake::idle(there));
  fake::finish(there);
  EXPECT_TRUE(fake::idle(here)) << "what there has come behind";
}

TEST_F(SlotRingTest, independent_launches_do_not_wait_for_each_other) {
  make(kApart);
  const hipStream_t first = stream(), second = stream(), third = stream();
  launch_all(first, 1);
  launch_all(second, 1);
  EXPECT_EQ(0, count("hipStreamWaitEvent"));
  EXPECT_EQ(Reached::kBusy, launch(third).reached) << "both sets work";
  EXPECT_EQ(2u, launched_.size());
  fake::finish(first);
  EXPECT_EQ(Reached::kGraph, launch(third).reached);
  EXPECT_EQ(launched_[0], launched_[2]);
  const RingLaunch forced = launch(first, LastLaunch::IfRunning::kOnDevice);
  EXPECT_EQ(Reached::kGraph, forced.reached) << "the device waits where it is told to";
  EXPECT_EQ(1, count("hipStreamWaitEvent"));
}

TEST_F(SlotRingTest, buffers_that_moved_are_followed_by_every_set) {
  make(kTwoSets);
  char* const moved = memory_by(kTwoSets);
  ASSERT_EQ(hipSuccess, bind(moved));
  EXPECT_EQ(std::vector{moved}, ring_->bases());
  launch_all(stream(), 2);
  for (const hipGraphExec_t exec : launched_) EXPECT_EQ((ProgramEnds{moved, moved}), copies_of(exec));
  EXPECT_EQ(4u, counts_.patched);
}

TEST_F(SlotRingTest, rule_03_a_launch_in_flight_keeps_the_buffers_it_had) {
  make(kFirstRule);
  const hipStream_t here = stream();
  launch_all(here, 1);
  char* const moved = memory_by(kFirstRule);
  ASSERT_EQ(hipSuccess, bind(moved));
  EXPECT_EQ((ProgramEnds{first_, first_}), copies_of(launched_[0]));
  EXPECT_EQ(2u, ring_->execs()) << "rule 15: what serves the next launch is there";
  launch_all(here, 1);
  EXPECT_NE(launched_[0], launched_[1]);
  ASSERT_EQ(2u, copies.size()) << "around an exec that copies nothing";
  EXPECT_EQ(moved, copies[0].src);
  EXPECT_EQ(moved, copies[1].dst);
  fake::finish(here);
  ASSERT_EQ(hipSuccess, bind(first_));
  launch_all(here, 1);
  EXPECT_EQ(launched_[0], launched_[2]);
  EXPECT_EQ(2u, copies.size());
}

TEST_F(SlotRingTest, after_a_failed_bind_launches_work_on_the_buffers_they_had) {
  make(kFirstRule);
  launch_all(stream(), 1);
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, bind(memory_by(kFirstRule)));
  EXPECT_EQ(std::vector{first_}, ring_->bases());
  launch_all(stream(), 1);
  EXPECT_EQ((ProgramEnds{first_, first_}), copies_of(launched_[1]));
}

TEST_F(SlotRingTest, a_set_that_had_followed_before_another_failed_refuses) {
  make(kTwoSets);
  // The first set's copies are patched; those of the second are not, and no other exec is to be had for it.
  static int patched;
  patched = 0;
  test_next().hipGraphExecMemcpyNodeSetParams1D = [](hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                     const void* src, std::size_t, hipMemcpyKind) {
    if (++patched > 2) return hipErrorUnknown;
    return fake::set_node(exec, node, [&](fake::Node& own) {
      own.dst = dst;
      own.src = src;
    });
  };
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, bind(memory_by(kTwoSets)));
  EXPECT_EQ(std::vector{first_}, ring_->bases());
  const RingLaunch refused = launch(stream());
  EXPECT_EQ(hipErrorOutOfMemory, refused.result);
  EXPECT_EQ(Reached::kNothing, refused.reached);
  EXPECT_TRUE(launched_.empty()) << "it would have copied the buffers that it was not given";
}

TEST_F(SlotRingTest, rule_15_after_a_failed_bind_the_old_buffers_are_not_bound_unless_every_set_serves_them) {
  make(kTwoSets);
  static int patched;
  patched = 0;
  test_next().hipGraphExecMemcpyNodeSetParams1D = [](hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                     const void* src, std::size_t, hipMemcpyKind) {
    if (++patched == 3) return hipErrorUnknown;
    return fake::set_node(exec, node, [&](fake::Node& own) {
      own.dst = dst;
      own.src = src;
    });
  };
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  ASSERT_EQ(hipErrorOutOfMemory, bind(memory_by(kTwoSets)));
  EXPECT_EQ(hipErrorOutOfMemory, bind(first_)) << "the second set has no exec";
  fake.hip->fail.erase("hipGraphInstantiate");
  ASSERT_EQ(hipSuccess, bind(first_));
  launch_all(stream(), 2);
  EXPECT_EQ((ProgramEnds{first_, first_}), copies_of(launched_[0]));
  EXPECT_EQ(2u, copies.size()) << "around the second launch, which has a plain exec";
}

TEST_F(SlotRingTest, a_set_that_did_not_follow_serves_after_a_failed_bind_even_if_memory_was_freed) {
  make(kTwoSets);
  const hipStream_t here = stream();
  launch_all(here, 1);
  fake::finish(here);
  char* const moved = memory_by(kTwoSets);
  note_memory_freed();  // other memory
  test_next().hipGraphExecMemcpyNodeSetParams1D = [](hipGraphExec_t, hipGraphNode_t, void*, const void*, std::size_t,
                                                     hipMemcpyKind) { return hipErrorUnknown; };
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  ASSERT_EQ(hipErrorOutOfMemory, bind(moved));
  launch_all(here, 1);
  EXPECT_EQ((ProgramEnds{first_, first_}), copies_of(launched_[1])) << "the second set has the exec that it had";
  EXPECT_EQ(hipErrorOutOfMemory, launch(here).result) << "that of the first one is gone";
}

TEST_F(SlotRingTest, where_memory_runs_out_a_bind_fails_and_a_set_whose_exec_is_gone_refuses) {
  make(kTwoSets);
  // The first set's copies are not patched. Memory runs out when its exec is gone, before another one is made.
  static bool fused_goes;
  fused_goes = false;
  test_next().hipGraphExecMemcpyNodeSetParams1D = [](hipGraphExec_t, hipGraphNode_t, void*, const void*, std::size_t,
                                                     hipMemcpyKind) {
    fused_goes = true;
    return hipErrorUnknown;
  };
  test_next().hipGraphDestroy = [](hipGraph_t graph) {
    fake::g_graphs->graphs.erase(graph);
    if (std::exchange(fused_goes, false)) let_allocations_work(0);
    return hipSuccess;
  };
  hipError_t result = hipSuccess;
  char* const moved = memory_by(kTwoSets);
  EXPECT_NO_THROW(result = bind(moved));
  let_allocations_work(-1);
  EXPECT_EQ(hipErrorOutOfMemory, result);
  EXPECT_EQ(std::vector{first_}, ring_->bases());
  EXPECT_EQ(hipErrorOutOfMemory, launch(stream()).result);
  EXPECT_TRUE(launched_.empty());
}

TEST_F(SlotRingTest, rule_03_a_launch_comes_behind_copies_of_one_that_failed_behind_them) {
  first_ = memory_by(kOpenRule, CopyTimer::kLeastBytes);
  plan_ = StagePlan::make(operations_, binding_over({first_}), true);
  test_next().hipEventCreate = [](hipEvent_t* event) { return next().hipEventCreateWithFlags(event, 0); };
  ASSERT_TRUE(plan_ != nullptr && plan_->open());
  ASSERT_EQ(hipSuccess, SlotRing::make(graph(), {first_}, kBudget, may_be_direct_, &ring_));
  launch_result_ = hipErrorOutOfMemory;
  const hipStream_t here = stream();
  fake::work(here);  // the copies
  EXPECT_EQ(hipErrorOutOfMemory, launch(here).result);
  EXPECT_EQ(1u, copies.size()) << "for the timer";
  launch_result_ = hipSuccess;
  const int waits = count("hipStreamWaitEvent");
  launch_all(stream(), 1);
  EXPECT_EQ(waits + 1, count("hipStreamWaitEvent")) << "the copies write to the slots";
}

TEST_F(SlotRingTest, a_launch_that_failed_may_be_made_again_by_the_same_set) {
  make(kTwoSets);
  const hipStream_t here = stream();
  launch_all(here, 1);
  launch_result_ = hipErrorOutOfMemory;
  const RingLaunch failed = launch(here);
  EXPECT_EQ(hipErrorOutOfMemory, failed.result);
  EXPECT_EQ(Reached::kNothing, failed.reached);
  EXPECT_EQ(1u, counts_.launches);
  launch_result_ = hipSuccess;
  launch_all(here, 1);
  EXPECT_NE(launched_[0], launched_[1]) << "it is the second set's turn still";
}

TEST_F(SlotRingTest, rule_30_buffers_that_take_turns_are_copied) {
  make(kFirstRule);
  char* const other = memory_by(kFirstRule);
  for (std::uint32_t i = 0; i < 2 * DirectExec::kBindings; ++i)
    ASSERT_EQ(hipSuccess, bind(i % 2 == 0 ? other : first_));
  EXPECT_FALSE(ring_->direct());
  EXPECT_EQ(1, graphs.state.instantiates) << "the copies alone are patched";
}

TEST_F(SlotRingTest, launches_copy_nothing_once_buffers_have_stayed_unless_they_must) {
  make(kFirstRule);
  for (std::uint32_t i = 1; i < DirectExec::kBindings; ++i) ASSERT_EQ(hipSuccess, bind(first_));
  EXPECT_TRUE(ring_->direct());
  const hipStream_t here = stream(), there = stream();
  launch_all(here, 1);
  EXPECT_EQ((ProgramEnds{nullptr, nullptr}), copies_of(launched_[0]));
  EXPECT_EQ(1u, counts_.without_copies);
  may_be_direct_ = false;
  EXPECT_FALSE(ring_->direct());
  launch_all(there, 1);
  EXPECT_EQ((ProgramEnds{first_, first_}), copies_of(launched_[1]));
  EXPECT_EQ(1, count("hipStreamWaitEvent")) << "rule 3: it comes behind the one without copies";
  EXPECT_EQ(1u, counts_.without_copies);
}

TEST_F(SlotRingTest, rule_31_after_a_reset_of_the_device_nothing_is_destroyed_and_nothing_launched) {
  make(kTwoSets);
  launch_all(stream(), 1);
  const std::size_t before = slot_totals().sets;
  ring_->forget();
  EXPECT_EQ(before - 2, slot_totals().sets) << "the slots are given back";
  EXPECT_EQ(hipErrorInvalidValue, launch(stream()).result);
  EXPECT_EQ(0u, ring_->execs());
  ring_.reset();
  EXPECT_EQ(0, count("hipGraphExecDestroy"));
}

TEST_F(SlotRingTest, where_execs_end_late_those_of_a_ring_end_on_its_device) {
  make(kFirstRule);
  test_set_runtime_version(70253211);
  fake::t_device = 1;
  ring_.reset();
  fake::t_device = 0;
  EXPECT_TRUE(work_counts().execs_end(0));
  EXPECT_FALSE(work_counts().execs_end(1));
  for (int device = 0; device < fake::kDevices; ++device) WorkCounts::idle(work_counts().before_device_sync(device));
}

TEST_F(SlotRingTest, it_is_told_of_streams_as_long_as_it_is_there) {
  make(kFirstRule);
  const hipStream_t here = stream(), there = stream();
  launch_all(here, 1);
  rings_before_capture(key(here));
  fake.hip->capturing_streams.insert(key(here));
  capture_opened();
  EXPECT_TRUE(ring_->order_behind_last(key(there), there));
  EXPECT_NE(key(here), fake.hip->streams[key(there)].operations.back().after.front().first)
      << "rule 17: what it waits for was passed on to a stream that is not captured";
  capture_closed();
  fake.hip->capturing_streams.clear();
  ring_.reset();
  EXPECT_EQ(0u, g_rings.load());
}

}  // namespace
}  // namespace graphpool
