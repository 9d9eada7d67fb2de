// Calls on nodes of graphs that the program holds.
#include "shim/graphs/tracked_nodes.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class TrackedNodesTest : public GraphsTest {
 protected:
  NodeRef find(hipGraphNode_t node) { return graphs.nodes.find(node); }
  hipGraphNode_t first_node(hipGraph_t graph) { return runtime.state.graphs.at(graph).front().first; }
};

TEST_F(TrackedNodesTest, a_node_that_is_destroyed_is_forgotten_and_its_graph_is_modified) {
  const hipGraph_t graph = capture({5, 6});
  TrackedGraph& tracked = *graphs.tracked.find(graph);
  const hipGraphNode_t node = first_node(graph);
  const auto destroy = [&](hipError_t result) {
    return graphs.nodes.destroy(node, [&](hipGraphNode_t real) {
      EXPECT_EQ(node, real);
      return result;
    });
  };
  EXPECT_EQ(hipErrorInvalidValue, destroy(hipErrorInvalidValue));
  EXPECT_EQ(&tracked, find(node).graph) << "the runtime has refused it";
  EXPECT_EQ(hipSuccess, destroy(hipSuccess));
  EXPECT_EQ(nullptr, find(node).graph);
  EXPECT_FALSE(tracked.unmodified());
}

TEST_F(TrackedNodesTest, a_handle_that_another_threads_node_gets_while_its_node_is_destroyed_stands_for_the_new_one) {
  const hipGraph_t graph = capture({5, 6}), other = capture({7, 8});
  TrackedGraph& by_other = *graphs.tracked.find(other);
  const hipGraphNode_t node = first_node(graph);
  const auto destroy = [&](hipGraphNode_t) {
    const LockGuard guard(by_other.lock);
    graphs.node_table.add(by_other, node, 4);
    return hipSuccess;
  };
  EXPECT_EQ(hipSuccess, graphs.nodes.destroy(node, destroy));
  EXPECT_EQ(&by_other, find(node).graph);
  EXPECT_EQ(4u, find(node).index);
}

}  // namespace
}  // namespace graphpool
