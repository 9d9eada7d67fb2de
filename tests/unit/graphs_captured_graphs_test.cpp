// What becomes of a capture that has ended: a recording, and a graph that the program holds.
#include "shim/graphs/captured_graphs.h"
#include "shim/hip/private_handles.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class CapturedGraphsTest : public GraphsTest {
 protected:
  static bool has_first(const Recording& recording) {
    const LockGuard guard(g_recordings_lock);
    return recording.first != nullptr;
  }
  bool with_first_graph(Recording& recording, const Addresses& addresses, GraphUse use) {
    hipError_t result = hipErrorUnknown;
    const bool used = graphs.captured.with_first_graph(recording, fill_binding(addresses), use, &result);
    EXPECT_EQ(used ? hipSuccess : hipErrorUnknown, result);
    return used;
  }
};

TEST_F(CapturedGraphsTest, the_first_capture_proves_that_its_graph_can_be_made) {
  hipGraph_t graph = nullptr;
  RecordedCapture recorded = record({1, 2}, 0, &graph);
  const RecordedGraph made = graphs.captured.real_graph_captured(ended(graph), std::move(recorded));
  EXPECT_EQ(graph, made.handle) << "the program's own graph stays what it is";
  EXPECT_TRUE(made.learned);
  Recording& recording = *find(2, 0);
  EXPECT_TRUE(recording.rebuildable.load());
  EXPECT_TRUE(has_first(recording));
  EXPECT_EQ(2u, runtime.state.graphs.size()) << "the program's, and one of the library's own";
  EXPECT_EQ(1u, users_of(recording));
  recorded = record({3, 4}, 0, &graph);
  EXPECT_FALSE(graphs.captured.real_graph_captured(ended(graph), std::move(recorded)).learned);
  EXPECT_EQ(2u, users_of(recording));
  EXPECT_EQ(3u, runtime.state.graphs.size()) << "it was proved";
}

TEST_F(CapturedGraphsTest, a_recording_whose_graph_cannot_be_made_is_not_withheld) {
  hipGraph_t graph = nullptr;
  RecordedCapture recorded = record({1, 2}, 0, &graph);
  fake.hip->fail["hipGraphAddMemsetNode"] = hipErrorInvalidValue;
  graphs.captured.real_graph_captured(ended(graph), std::move(recorded));
  EXPECT_FALSE(find(2, 0)->rebuildable.load());
  EXPECT_FALSE(has_first(*find(2, 0)));
  EXPECT_EQ(1u, runtime.state.graphs.size()) << "nothing is left of it";
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
}

TEST_F(CapturedGraphsTest, of_a_withheld_capture_the_runtime_has_no_graph) {
  const Recording& recording = recording_of(2);
  const std::size_t before = runtime.state.graphs.size();
  const hipGraph_t handle = defer({1, 2});
  EXPECT_TRUE(graphs.tracked.gave_out(handle));
  EXPECT_EQ(before, runtime.state.graphs.size()) << "the empty one is gone";
  EXPECT_EQ(1u, users_of(recording));
  EXPECT_EQ(hipSuccess, graphs.tracked.destroy(handle));
  EXPECT_EQ(0u, users_of(recording));
}

TEST_F(CapturedGraphsTest, rule_11_the_graph_that_holds_user_objects_stays_and_is_hidden) {
  recording_of(1);
  const std::size_t before = runtime.state.graphs.size();
  const hipGraph_t handle = defer({1}, 0, true);
  EXPECT_EQ(before + 1, runtime.state.graphs.size());
  const hipGraph_t holder = runtime.state.graphs.rbegin()->first;
  EXPECT_TRUE(g_private_handles.has(holder)) << "the program does not know it";
  EXPECT_EQ(hipSuccess, graphs.tracked.destroy(handle));
  EXPECT_EQ(before, runtime.state.graphs.size());
}

TEST_F(CapturedGraphsTest, a_copy_of_a_deferred_graph_is_deferred) {
  const hipGraph_t original = defer({5});
  hipGraph_t copy = nullptr;
  EXPECT_EQ(hipSuccess, graphs.captured.clone(&copy, original));
  EXPECT_NE(original, copy);
  EXPECT_EQ(2u, users_of(*find(1, 0)));
  EXPECT_EQ(hipSuccess, graphs.tracked.destroy(original));
  EXPECT_EQ(Addresses{5}, filled_by(instantiate(copy)));
}

TEST_F(CapturedGraphsTest, a_copy_of_a_real_graph_is_the_runtimes) {
  static hipGraph_t cloned;
  test_next().hipGraphClone = [](hipGraph_t* copy, hipGraph_t original) {
    cloned = original;
    *copy = reinterpret_cast<hipGraph_t>(std::uintptr_t{0xc0});
    return hipSuccess;
  };
  const hipGraph_t real = capture({5});
  hipGraph_t copy = nullptr;
  EXPECT_EQ(hipSuccess, graphs.captured.clone(&copy, real));
  EXPECT_EQ(real, cloned);
  EXPECT_FALSE(graphs.tracked.gave_out(copy));
  const hipGraph_t with_objects = defer({5}, 0, true);
  EXPECT_EQ(hipSuccess, graphs.captured.clone(&copy, with_objects)) << "the runtime's copy holds them, too";
  EXPECT_EQ(1u, runtime.state.graphs.count(cloned));
}

TEST_F(CapturedGraphsTest, a_capture_without_a_recording_keeps_the_handle_that_the_program_was_told) {
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipSuccess, next().hipGraphCreate(&graph, 0));
  EXPECT_EQ(graph, graphs.captured.untracked_graph_captured(ended(graph)));
  const auto tracked = graphs.tracked.add_open();
  CapturedGraph told = ended(graph);
  told.tracked = tracked;
  const hipGraph_t handle = graphs.captured.untracked_graph_captured(std::move(told));
  EXPECT_EQ(tracked->handle, handle);
  EXPECT_FALSE(tracked->unmodified());
  EXPECT_FALSE(tracked->is_open());
  hipGraph_t real = handle;
  EXPECT_EQ(hipSuccess, graphs.tracked.read(&real, "a test"));
  EXPECT_EQ(graph, real);
}

TEST_F(CapturedGraphsTest, the_graph_that_proved_a_recording_stands_for_one_with_its_binding) {
  Recording& recording = recording_of(1);
  hipGraph_t given = nullptr;
  const auto nobody = [](hipGraph_t, const auto&) { return hipErrorUnknown; };
  EXPECT_FALSE(with_first_graph(recording, {9}, nobody)) << "a fill is not set in a graph";
  EXPECT_TRUE(with_first_graph(recording, {1}, [&](hipGraph_t graph, const auto&) {
    given = graph;
    EXPECT_FALSE(with_first_graph(recording, {1}, nobody)) << "nobody else has it meanwhile";
    return hipSuccess;
  }));
  EXPECT_EQ(1u, runtime.state.graphs.count(given));
  EXPECT_TRUE(has_first(recording)) << "it is given back";
  note_memory_freed();
  EXPECT_FALSE(with_first_graph(recording, {1}, nobody));
}

TEST_F(CapturedGraphsTest, what_differs_from_its_capture_is_left_to_the_runtime) {
  Recording& recording = recording_of(1);
  const Binding binding = fill_binding({1});
  const CaptureDifference difference{recording.operations[1], binding, nullptr, "a test"};
  testing::internal::CaptureStderr();
  graphs.captured.differs(recording, difference);
  graphs.captured.differs(recording, difference);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(recording.rebuildable.load());
  EXPECT_NE(std::string::npos, said.find("captures of it are left to the runtime from now on"));
  EXPECT_EQ(said.find("verify:"), said.rfind("verify:")) << "said once";
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(1u, recording.statistics.differences);
}

}  // namespace
}  // namespace graphpool
