// Which handle stands for which graph that the program holds, and what the runtime gets in its place.
#include "shim/graphs/tracked_graphs.h"
#include "shim/hip/private_handles.h"
#include "shim/recording/settings.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class TrackedGraphsTest : public GraphsTest {
 protected:
  /// The recording of two fills is there already, made in the present epoch of settings.
  TrackedGraphsTest() {
    EXPECT_EQ(hipSuccess, graphs.tracked.destroy(capture({1, 1})));
    made_before_ = runtime.state.graphs.size();
  }

  hipGraph_t capture(const Addresses& addresses) {
    hipGraph_t graph = nullptr;
    RecordedCapture recorded = record(addresses, 0, &graph);
    recorded.operations.front().signature.object = settings_epoch();
    return graphs.captured.real_graph_captured(ended(graph), std::move(recorded)).handle;
  }
  TrackedGraph* tracked(hipGraph_t graph) { return graphs.tracked.find(graph); }
  /// The runtime's graphs of the test's own.
  std::size_t real_graphs() const { return runtime.state.graphs.size() - made_before_; }
  hipError_t read(hipGraph_t* graph) { return graphs.tracked.read(graph, "a test"); }
  hipGraph_t real_of(hipGraph_t graph) {
    EXPECT_EQ(hipSuccess, read(&graph));
    return graph;
  }
  hipError_t expose(hipGraph_t* graph) { return graphs.tracked.expose(graph, "a test"); }
  hipError_t destroy(hipGraph_t graph) { return graphs.tracked.destroy(graph); }
  Addresses addresses_of(hipGraph_t real) {
    Addresses addresses;
    for (const auto& [handle, node] : runtime.state.graphs.at(real))
      addresses.push_back(reinterpret_cast<std::uint64_t>(node.dst));
    return addresses;
  }
  ChildGraph part(hipGraph_t graph, const TrackedGraph* parent = nullptr) {
    ChildGraph child;
    EXPECT_EQ(hipSuccess, graphs.tracked.read_part(&graph, parent, &child));
    part_ = graph;
    return child;
  }
  static hipGraph_t unknown() { return reinterpret_cast<hipGraph_t>(std::uintptr_t{0x7770}); }

  std::size_t made_before_ = 0;
  hipGraph_t part_ = nullptr;  ///< what HIP would be given where a part is not known
};

TEST_F(TrackedGraphsTest, a_deferred_graph_that_is_read_is_made_once_and_stays_tracked) {
  const hipGraph_t graph = defer({5, 6});
  const hipGraph_t real = real_of(graph);
  EXPECT_NE(graph, real);
  EXPECT_EQ((Addresses{5, 6}), addresses_of(real));
  EXPECT_EQ(real, real_of(graph));
  EXPECT_EQ(1u, real_graphs());
  EXPECT_TRUE(tracked(graph)->unmodified());
  const hipGraph_t captured = capture({7, 8});
  EXPECT_EQ(captured, real_of(captured)) << "the runtime's own handle";
  EXPECT_EQ(unknown(), real_of(unknown()));
}

TEST_F(TrackedGraphsTest, where_a_graph_cannot_be_made_the_error_is_the_runtimes_and_it_stays_deferred) {
  const hipGraph_t graph = defer({5, 6});
  fake.hip->fail["hipGraphAddMemsetNode"] = hipErrorOutOfMemory;
  hipGraph_t asked = graph;
  EXPECT_EQ(hipErrorOutOfMemory, read(&asked));
  EXPECT_EQ(hipErrorOutOfMemory, expose(&asked));
  EXPECT_EQ(graph, asked);
  EXPECT_TRUE(tracked(graph)->unmodified());
  EXPECT_EQ(0u, real_graphs());
  fake.hip->fail.clear();
  EXPECT_EQ((Addresses{5, 6}), addresses_of(real_of(graph)));
}

TEST_F(TrackedGraphsTest, a_graph_that_a_call_may_change_is_modified_from_then_on) {
  const hipGraph_t graph = defer({5, 6}), captured = capture({7, 8});
  hipGraph_t real = graph;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_EQ((Addresses{5, 6}), addresses_of(real));
  EXPECT_FALSE(g_private_handles.has(real)) << "the program may be told it by the runtime";
  EXPECT_FALSE(tracked(graph)->unmodified());
  real = captured;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_EQ(captured, real);
  EXPECT_FALSE(tracked(captured)->unmodified());
}

TEST_F(TrackedGraphsTest, a_handle_that_was_destroyed_is_refused) {
  const hipGraph_t graph = defer({5, 6});
  EXPECT_EQ(hipSuccess, destroy(graph));
  EXPECT_EQ(nullptr, tracked(graph));
  EXPECT_TRUE(graphs.tracked.gave_out(graph)) << "it is nobody else's";
  hipGraph_t asked = graph;
  EXPECT_EQ(hipErrorInvalidValue, read(&asked));
  EXPECT_EQ(hipErrorInvalidValue, expose(&asked));
  EXPECT_EQ(hipErrorInvalidValue, destroy(graph));
  std::size_t nodes = 0;
  EXPECT_FALSE(graphs.tracked.count_nodes(graph, &nodes));
}

TEST_F(TrackedGraphsTest, a_deferred_graph_goes_without_the_runtime_and_a_real_one_with_it) {
  const Recording& recording = *find(2, 0);
  const hipGraph_t deferred = defer({5, 6}), made = defer({5, 6}), captured = capture({7, 8});
  const hipGraph_t real = real_of(made);
  const hipGraphNode_t node = runtime.state.graphs.at(captured).front().first;
  EXPECT_EQ(tracked(captured), graphs.node_table.find(node).graph);
  EXPECT_EQ(3u, users_of(recording));
  const int destroys = count("hipGraphDestroy");
  EXPECT_EQ(hipSuccess, destroy(deferred));
  EXPECT_EQ(destroys, count("hipGraphDestroy"));
  EXPECT_EQ(hipSuccess, destroy(made));
  EXPECT_EQ(0u, runtime.state.graphs.count(real));
  EXPECT_EQ(hipSuccess, destroy(captured));
  EXPECT_EQ(0u, real_graphs());
  EXPECT_EQ(0u, users_of(recording));
  EXPECT_EQ(nullptr, tracked(captured));
  EXPECT_EQ(nullptr, graphs.node_table.find(node).graph) << "the runtime may give its handle to another";
}

TEST_F(TrackedGraphsTest, a_handle_that_the_runtime_gives_out_again_stands_for_the_new_graph) {
  const Recording& former = *find(2, 0);
  const hipGraph_t graph = capture({5, 6});
  const hipGraphNode_t node = runtime.state.graphs.at(graph).front().first;
  const std::uint64_t id = tracked(graph)->id;
  hipGraph_t other = nullptr;
  RecordedCapture recorded = record({7}, 0, &other);
  EXPECT_EQ(graph, graphs.captured.real_graph_captured(ended(graph), std::move(recorded)).handle);
  EXPECT_NE(id, tracked(graph)->id);
  EXPECT_EQ(0u, users_of(former)) << "the runtime has destroyed that graph";
  EXPECT_EQ(1u, users_of(*find(1, 0)));
  EXPECT_EQ(nullptr, graphs.node_table.find(node).graph);
}

TEST_F(TrackedGraphsTest, a_part_stays_deferred_until_it_is_given_for_the_second_time) {
  const hipGraph_t graph = defer({5, 6});
  {
    const ChildGraph child = part(graph);
    ASSERT_TRUE(child.recording);
    EXPECT_EQ(find(2, 0), &*child.recording);
    EXPECT_EQ(nullptr, child.real);
    EXPECT_TRUE(equal(fill_binding({5, 6}), child.binding));
    EXPECT_EQ(2u, users_of(*find(2, 0)));
  }
  tracked(graph)->given = 1;
  fake.hip->fail["hipGraphAddMemsetNode"] = hipErrorOutOfMemory;
  EXPECT_EQ(nullptr, part(graph).real) << "it is given as it was the first time";
  fake.hip->fail.clear();
  const ChildGraph again = part(graph);
  ASSERT_TRUE(again.recording);
  EXPECT_EQ(real_of(graph), again.real);
  EXPECT_EQ(4u, again.nodes.size()) << "one an operation";
}

TEST_F(TrackedGraphsTest, a_part_that_may_not_be_what_its_recording_says_is_the_runtimes) {
  const hipGraph_t changed = capture({5, 6}), outlived = capture({5, 6}), plain = defer({5, 6});
  hipGraph_t asked = changed;
  EXPECT_EQ(hipSuccess, expose(&asked));
  EXPECT_FALSE(part(changed).recording);
  EXPECT_EQ(changed, part_);
  EXPECT_TRUE(part(outlived).recording);
  note_memory_freed();
  EXPECT_FALSE(part(outlived).recording) << "its nodes may hold on to what was freed";
  EXPECT_FALSE(part(plain, tracked(plain)).recording) << "a part of itself";
  EXPECT_EQ(real_of(plain), part_);
  const hipGraph_t before = defer({5, 6});
  next_settings_epoch();
  EXPECT_FALSE(part(before).recording) << "settings have changed since it was captured";
  EXPECT_EQ(real_of(before), part_);
}

TEST_F(TrackedGraphsTest, the_child_that_a_nodes_parameters_name_is_replaced_in_a_copy_of_them) {
  const hipGraph_t graph = defer({5, 6});
  AnyNodeParams params{}, storage{};
  params.type = AnyNodeParams::kChild;
  params.child = graph;
  const void* given = &params;
  EXPECT_EQ(hipSuccess, graphs.tracked.read_child(&given, &storage));
  EXPECT_EQ(&storage, given);
  EXPECT_EQ(real_of(graph), storage.child);
  EXPECT_EQ(graph, params.child) << "the program's own are not touched";
  params.child = unknown();
  given = &params;
  EXPECT_EQ(hipSuccess, graphs.tracked.read_child(&given, &storage));
  EXPECT_EQ(&params, given);
  params.child = graph;
  params.type = AnyNodeParams::kFill;
  EXPECT_EQ(hipSuccess, graphs.tracked.read_child(&given, &storage));
  EXPECT_EQ(&params, given) << "no child is named there";
}

TEST_F(TrackedGraphsTest, nodes_of_a_deferred_graph_are_counted_without_it) {
  const hipGraph_t graph = defer({5, 6});
  std::size_t nodes = 0;
  EXPECT_TRUE(graphs.tracked.count_nodes(graph, &nodes));
  EXPECT_EQ(2u, nodes);
  EXPECT_EQ(0u, real_graphs());
  real_of(graph);
  EXPECT_FALSE(graphs.tracked.count_nodes(graph, &nodes)) << "HIP knows";
}

TEST_F(TrackedGraphsTest, the_graph_of_an_open_capture_is_no_graph_to_destroy_until_that_has_ended) {
  const std::shared_ptr<TrackedGraph> open = graphs.tracked.add_open();
  ASSERT_NE(nullptr, open);
  const hipGraph_t graph = open->handle;
  EXPECT_EQ(open.get(), tracked(graph));
  EXPECT_EQ(hipErrorInvalidValue, destroy(graph)) << "the runtime's answer";
  EXPECT_EQ(open.get(), tracked(graph));
  graphs.tracked.capture_ended(open);
  EXPECT_EQ(hipSuccess, destroy(graph));
  EXPECT_EQ(nullptr, tracked(graph));
  const std::shared_ptr<TrackedGraph> broken_off = graphs.tracked.add_open();
  graphs.tracked.drop_open(*broken_off);
  EXPECT_EQ(nullptr, tracked(broken_off->handle));
  EXPECT_EQ(hipErrorInvalidValue, destroy(broken_off->handle));
}

}  // namespace
}  // namespace graphpool
