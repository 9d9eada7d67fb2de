// How long what holds user objects stays: as long as the program's graphs, execs and their launches.
#include <gtest/gtest.h>
#include <time.h>

#include <utility>

#include "shim/execs/user_objects.h"
#include "shim/hip/private_handles.h"
#include "tests/support/counting_new.h"
#include "tests/unit/fake_graphs.h"

namespace graphpool {
namespace {

class UserObjectsTest : public testing::Test {
 protected:
  ~UserObjectsTest() override {
    for (auto& [key, stream] : fake.hip->streams) fake::finish(reinterpret_cast<hipStream_t>(key));
    let_go_of_completed();
    while (g_objects_waiting.load() != 0) pause();
  }
  Objects make() {
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipSuccess, next().hipGraphCreate(&graph, 0));
    return std::make_shared<ObjectHolder>(graph);
  }
  hipStream_t stream() {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    return made;
  }
  /// A launch that runs there, its event behind it.
  std::unique_ptr<LaunchMarks> launch_on(hipStream_t stream) {
    fake::work(stream);
    auto marks = std::make_unique<LaunchMarks>();
    marks->add(reinterpret_cast<StreamKey>(stream), stream, next_launch());
    EXPECT_TRUE(marks->seal());
    return marks;
  }
  static Launches launches(std::unique_ptr<LaunchMarks> first, std::unique_ptr<LaunchMarks> second = nullptr) {
    Launches all;
    all.push_back(std::move(first));
    all.push_back(std::move(second));
    return all;
  }
  std::size_t graphs_left() {
    const std::scoped_lock guard(fake.hip->lock);
    return graphs.state.graphs.size();
  }
  static void pause() {
    const timespec moment{0, 1'000'000};
    nanosleep(&moment, nullptr);
  }

  fake::Install fake;
  fake::InstallGraphs graphs;
};

TEST_F(UserObjectsTest, rule_11_they_end_with_the_last_graph_or_exec) {
  Objects of_graph = make();
  Objects of_exec = of_graph;
  const hipGraph_t graph = of_graph->graph();
  let_go_of_objects(std::move(of_graph));
  EXPECT_EQ(1u, graphs_left()) << "an exec has them";
  EXPECT_TRUE(g_private_handles.has(graph)) << "the program has destroyed it: its handle is nobody's";
  let_go_of_objects(std::move(of_exec), {});
  EXPECT_EQ(0u, graphs_left());
  EXPECT_FALSE(g_private_handles.has(graph));
}

TEST_F(UserObjectsTest, the_graph_of_the_last_holder_goes_at_once) {
  Objects objects = make();
  const hipGraph_t graph = objects->graph();
  let_go_of_objects(std::move(objects));
  EXPECT_EQ(0u, graphs_left());
  EXPECT_FALSE(g_private_handles.has(graph));
}

TEST_F(UserObjectsTest, rule_11_an_exec_holds_them_until_its_launches_are_complete) {
  const hipStream_t here = stream(), there = stream();
  let_go_of_objects(make(), launches(launch_on(here), launch_on(there)));
  EXPECT_EQ(1u, g_objects_waiting.load());
  fake::finish(here);
  look_for_completed_objects();
  EXPECT_EQ(1u, graphs_left()) << "the other launch may still run";
  fake::finish(there);
  look_for_completed_objects();
  while (g_objects_waiting.load() != 0) pause();  // the library's thread may have been first
  EXPECT_EQ(0u, graphs_left());
}

TEST_F(UserObjectsTest, what_still_runs_does_not_keep_others) {
  const hipStream_t here = stream(), there = stream();
  let_go_of_objects(make(), launches(launch_on(here)));
  let_go_of_objects(make(), launches(launch_on(there)));
  fake::finish(there);
  look_for_completed_objects();
  while (g_objects_waiting.load() != 1) pause();
  EXPECT_EQ(1u, graphs_left());
}

TEST_F(UserObjectsTest, a_program_that_makes_no_call_sees_their_end) {
  const hipStream_t here = stream();
  let_go_of_objects(make(), launches(launch_on(here)));
  fake::finish(here);
  constexpr int kLongest = 10'000;  // moments
  int moments = 0;
  while (graphs_left() != 0 && ++moments < kLongest) pause();
  EXPECT_EQ(0u, graphs_left()) << "nobody looked";
}

TEST_F(UserObjectsTest, rule_11_without_memory_to_wait_with_they_stay_while_launches_run) {
  const hipStream_t here = stream();
  let_go_of_objects(make(), launches(launch_on(here)));
  static const Objects& objects = *new Objects(make());  // what stays so stays as long as the process
  Objects of_exec = objects;
  Launches running = launches(launch_on(here));
  let_allocations_work(0);
  let_go_of_objects(std::move(of_exec), std::move(running));
  let_allocations_work(-1);
  EXPECT_EQ(2, objects.use_count()) << "the launch needs them";
}

TEST_F(UserObjectsTest, rule_11_a_look_without_memory_ends_nothing_that_runs) {
  const hipStream_t here = stream(), there = stream();
  let_go_of_objects(make(), launches(launch_on(here)));
  let_go_of_objects(make(), launches(launch_on(there)));
  const auto query = test_next().hipEventQuery;
  test_next().hipEventQuery = [](hipEvent_t) { return hipErrorNotReady; };  // without memory
  let_allocations_work(0);
  let_go_of_completed();
  let_allocations_work(-1);
  test_next().hipEventQuery = query;
  EXPECT_EQ(2u, graphs_left());
  EXPECT_EQ(2u, g_objects_waiting.load());
}

TEST_F(UserObjectsTest, an_error_of_the_destruction_is_not_the_programs) {
  fake.hip->fail_at = fake.hip->calls + 2;
  make().reset();
  EXPECT_EQ(0u, graphs_left()) << "it is destroyed at the second try";
  EXPECT_EQ("hipGraphDestroy", fake.hip->failed);
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
}

}  // namespace
}  // namespace graphpool
