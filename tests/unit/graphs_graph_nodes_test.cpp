// Which node, and which handle of the library's, stands for which operation of which graph.
#include <gtest/gtest.h>

#include "shim/graphs/graph_nodes.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

hipGraphNode_t node(std::uintptr_t number) { return reinterpret_cast<hipGraphNode_t>(0x50000 + 16 * number); }
hipGraph_t inside(std::uintptr_t number) { return reinterpret_cast<hipGraph_t>(0x60000 + 16 * number); }

class GraphNodesTest : public testing::Test {
 protected:
  void put_all(TrackedGraph& graph, std::vector<hipGraphNode_t> all) {
    const LockGuard guard(graph.lock);
    graph.nodes = std::move(all);
    const LockGuard tables(g_recordings_lock);
    nodes_.put_all(graph);
  }
  void forget_all(TrackedGraph& graph) {
    const LockGuard guard(graph.lock);
    const LockGuard tables(g_recordings_lock);
    nodes_.forget_all(graph);
  }
  void erase(TrackedGraph& graph, std::uint32_t index) {
    const LockGuard guard(graph.lock);
    nodes_.erase(graph, index);
  }
  hipGraphNode_t add_handle(TrackedGraph& graph, std::uint32_t index) {
    const LockGuard guard(graph.lock);
    return nodes_.add_handle(graph, index);
  }
  void is(const TrackedGraph* graph, std::uint32_t index, const NodeRef& found) {
    EXPECT_EQ(graph, found.graph);
    EXPECT_EQ(index, found.index);
  }

  GraphNodes& nodes_ = never_destroyed<GraphNodes>();
  TrackedGraph graph_, other_;
};

TEST_F(GraphNodesTest, a_real_node_is_found_by_its_graph_and_operation_until_it_is_gone) {
  put_all(graph_, {nullptr, node(1), node(2)});
  put_all(other_, {nullptr, node(3)});
  is(&graph_, 2, nodes_.find(node(2)));
  is(&other_, 1, nodes_.find(node(3)));
  EXPECT_EQ(nullptr, nodes_.find(nullptr).graph);
  erase(graph_, 1);
  EXPECT_EQ(nullptr, nodes_.find(node(1)).graph);
  is(&graph_, 2, nodes_.find(node(2)));
  forget_all(graph_);
  EXPECT_EQ(nullptr, nodes_.find(node(2)).graph) << "the runtime may give its handle to another";
  is(&other_, 1, nodes_.find(node(3)));
}

TEST_F(GraphNodesTest, what_the_runtime_has_given_to_another_graph_stays_that_ones) {
  put_all(graph_, {nullptr, node(1), node(2)});
  {
    const LockGuard guard(graph_.lock);
    graph_.parts.push_back({.index = 1, .original = 1, .inside = inside(1), .nodes = {}});
    graph_.parts.push_back({.index = 2, .original = 1, .inside = inside(2), .nodes = {}});
  }
  put_all(other_, {nullptr, node(1), node(2)});
  nodes_.put_inside(inside(1), {&other_, 1});
  nodes_.put_inside(inside(2), {&other_, 2});
  erase(graph_, 1);
  is(&other_, 1, nodes_.find(node(1)));
  EXPECT_TRUE(nodes_.find_inside(inside(1)).has_value());
  forget_all(graph_);
  is(&other_, 2, nodes_.find(node(2)));
  EXPECT_TRUE(nodes_.find_inside(inside(2)).has_value());
}

TEST_F(GraphNodesTest, a_node_that_was_added_later_is_found) {
  put_all(graph_, {nullptr, node(1)});
  const LockGuard guard(graph_.lock);
  nodes_.add(graph_, node(5), 3);
  is(&graph_, 3, nodes_.find(node(5)));
  EXPECT_EQ((std::vector<hipGraphNode_t>{nullptr, node(1), nullptr, node(5)}), graph_.nodes);
}

TEST_F(GraphNodesTest, rule_47_a_handle_of_the_librarys_names_its_node_until_that_is_removed) {
  const hipGraphNode_t handle = add_handle(graph_, 4), second = add_handle(other_, 4);
  EXPECT_TRUE(nodes_.gave_out(handle));
  is(&graph_, 4, nodes_.find(handle));
  is(&other_, 4, nodes_.find_handle(second));
  EXPECT_EQ(nullptr, nodes_.find_handle(node(1)).graph) << "the runtime's";
  EXPECT_FALSE(nodes_.gave_out(node(1)));
  nodes_.remove_handle(handle);
  EXPECT_EQ(nullptr, nodes_.find(handle).graph);
  EXPECT_TRUE(nodes_.gave_out(handle)) << "it is nobody else's";
  is(&other_, 4, nodes_.find(second));
}

TEST_F(GraphNodesTest, the_program_knows_a_real_node_by_the_handle_that_it_was_given) {
  put_all(graph_, {nullptr, node(1), node(2)});
  EXPECT_EQ(node(1), nodes_.as_program_knows(node(1))) << "there is no handle";
  const hipGraphNode_t handle = add_handle(graph_, 1);
  EXPECT_EQ(handle, nodes_.as_program_knows(node(1)));
  EXPECT_EQ(node(2), nodes_.as_program_knows(node(2)));
  EXPECT_EQ(node(9), nodes_.as_program_knows(node(9)));
}

TEST_F(GraphNodesTest, the_graph_inside_a_child_node_is_found_as_long_as_the_node) {
  put_all(graph_, {nullptr, node(1), node(2)});
  {
    const LockGuard guard(graph_.lock);
    graph_.parts.push_back({.index = 1, .original = 1, .inside = inside(1), .nodes = {}});
    graph_.parts.push_back({.index = 2, .original = 1, .inside = inside(2), .nodes = {}});
  }
  nodes_.put_inside(inside(1), {&graph_, 1});
  nodes_.put_inside(inside(2), {&graph_, 2});
  ASSERT_TRUE(nodes_.find_inside(inside(1)).has_value());
  is(&graph_, 1, *nodes_.find_inside(inside(1)));
  erase(graph_, 1);
  EXPECT_FALSE(nodes_.find_inside(inside(1)).has_value());
  EXPECT_TRUE(nodes_.find_inside(inside(2)).has_value());
  forget_all(graph_);
  EXPECT_FALSE(nodes_.find_inside(inside(2)).has_value());
}

}  // namespace
}  // namespace graphpool
