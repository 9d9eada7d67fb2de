// What a launch selects, and what it leaves behind.
#include "shim/graphs/launcher.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class LauncherTest : public GraphsTest {};

TEST_F(LauncherTest, rule_15_a_launch_makes_and_sets_nothing) {
  const hipGraphExec_t exec = exec_of({5, 6});
  const hipStream_t here = stream();
  EXPECT_EQ(hipSuccess, launch(exec, here));
  const int calls = fake.hip->calls;
  EXPECT_EQ(hipSuccess, launch(exec, here));
  EXPECT_EQ((Addresses{5, 6}), filled_);
  EXPECT_EQ(calls, fake.hip->calls) << "the program's call is all";
  EXPECT_EQ(2u, graphs.launcher.count());
  EXPECT_EQ(2u, find(2, 0)->launches.sum());
}

TEST_F(LauncherTest, an_unknown_exec_is_launched_as_it_is_and_a_destroyed_one_is_refused) {
  hipGraph_t graph = nullptr;
  hipGraphExec_t own = nullptr;
  record({5}, 0, &graph);
  EXPECT_EQ(hipSuccess, next().hipGraphInstantiate(&own, graph, nullptr, nullptr, 0));
  EXPECT_EQ(hipSuccess, launch(own, stream()));
  EXPECT_EQ(own, launched_);
  const hipGraphExec_t exec = exec_of({5});
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_EQ(hipErrorInvalidValue, launch(exec, stream()));
  EXPECT_EQ(own, launched_);
}

TEST_F(LauncherTest, rule_03_a_launch_by_another_variant_comes_behind_the_one_before) {
  const hipGraphExec_t exec = exec_of({5});
  const hipStream_t here = stream(), there = stream();
  EXPECT_EQ(hipSuccess, launch(exec, here));
  const hipGraphExec_t before = launched_;
  EXPECT_EQ(hipSuccess, update(exec, defer({6})));
  EXPECT_EQ(hipSuccess, launch(exec, there));
  ASSERT_NE(before, launched_);
  EXPECT_EQ(Addresses{6}, filled_);
  EXPECT_EQ(1, count("hipStreamWaitEvent"));
  fake::finish(there);
  EXPECT_TRUE(fake::idle(here)) << "what there has come behind";
  EXPECT_EQ(hipSuccess, launch(exec, there));
  EXPECT_EQ(1, count("hipStreamWaitEvent")) << "once";
}

TEST_F(LauncherTest, rule_20_an_exec_that_is_destroyed_meanwhile_stays_until_its_launch_is_noted) {
  const hipGraphExec_t exec = exec_of({5});
  Recording& recording = *find(1, 0);
  const hipStream_t here = stream();
  in_launch_ = [&] {
    EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
    EXPECT_EQ(0u, free_variants_of(*find(1, 0))) << "it is being launched";
    EXPECT_EQ(1u, runtime.state.execs.size());
  };
  EXPECT_EQ(hipSuccess, launch(exec, here));
  EXPECT_EQ(Addresses{5}, filled_);
  EXPECT_EQ(1u, free_variants_of(recording)) << "it goes with its launch";
  EXPECT_EQ(0u, users_of(recording));
  const hipGraphExec_t running = launched_;
  filled_by(exec_of({5}));
  EXPECT_NE(running, launched_) << "that launch is known of";
}

TEST_F(LauncherTest, rule_20_a_variant_that_its_exec_leaves_meanwhile_is_free_afterwards) {
  const hipGraphExec_t exec = exec_of({5});
  const hipGraph_t graph = defer({6});
  const hipStream_t here = stream();
  in_launch_ = [&] {
    EXPECT_EQ(hipSuccess, update(exec, graph));
    EXPECT_EQ(0u, free_variants_of(*find(1, 0)));
  };
  EXPECT_EQ(hipSuccess, launch(exec, here));
  EXPECT_EQ(Addresses{5}, filled_) << "a launch in flight keeps its binding";
  EXPECT_EQ(1u, free_variants_of(*find(1, 0)));
  EXPECT_EQ(hipSuccess, launch(exec, here));
  EXPECT_EQ(Addresses{6}, filled_);
}

TEST_F(LauncherTest, a_recording_stays_until_the_first_launch_of_its_exec_is_measured) {
  const hipGraphExec_t exec = exec_of({5});
  const Recording& recording = *find(1, 0);
  in_launch_ = [&] {
    hipGraphExec_t real = exec;
    EXPECT_EQ(hipSuccess, graphs.own.expose(&real, nullptr, "a test"));
    EXPECT_EQ(1u, users_of(recording)) << "the launch is one";
  };
  EXPECT_EQ(hipSuccess, launch(exec, stream()));
  EXPECT_EQ(0u, users_of(recording));
}

TEST_F(LauncherTest, a_failed_launch_gives_the_runtimes_error_and_is_no_work_under_way) {
  const hipGraphExec_t exec = exec_of({5});
  launch_result_ = hipErrorInvalidValue;
  EXPECT_EQ(hipErrorInvalidValue, launch(exec, stream()));
  EXPECT_EQ(hipErrorInvalidValue, next().hipPeekAtLastError()) << "the program finds it";
  EXPECT_EQ(0u, exec_behind(exec).variant->under_way.load());
  EXPECT_EQ(Addresses{5}, filled_by(exec));
}

TEST_F(LauncherTest, rule_25_a_launch_without_memory_is_made_once_more) {
  const hipGraphExec_t exec = exec_of({5});
  launch_result_ = hipErrorOutOfMemory;  // of the first try
  EXPECT_EQ(hipSuccess, launch(exec, stream()));
  EXPECT_EQ(Addresses{5}, filled_);
}

}  // namespace
}  // namespace graphpool
