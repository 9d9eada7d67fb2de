// The names by which a program knows the graph of an open capture, and its nodes.
#include "shim/capture/capture_sink.h"
#include "shim/capture/graph_names.h"
#include "tests/unit/captures_fixture.h"

namespace graphpool {
namespace {

class GraphNamesTest : public CapturesTest {
 protected:
  ~GraphNamesTest() override {
    names_.clear();
    other_.clear();
    EXPECT_EQ(0, g_named_captures.load());
  }
  static void track(GraphNames& names) {
    ASSERT_TRUE(names.track());
    names.give();
  }
  static hipGraphNode_t handle(GraphNames& names, std::uint32_t operation) {
    return open_graphs().node_handle(*names.tracked(), operation);
  }
  static NamedNodes named(Tail& nodes) { return {nodes.data(), nodes.size(), 0}; }
  std::optional<OperationTail> operations(Tail nodes) { return names_.operations(named(nodes), nodes_); }
  std::optional<Tail> native(Tail nodes) { return names_.native_nodes(named(nodes), nodes_); }

  GraphNames names_, other_;
  /// Of the operations: the beginning has none, and the runtime gave one handle twice.
  const Tail nodes_{nullptr, node(1), node(2), node(1)};
};

TEST_F(GraphNamesTest, a_program_knows_what_it_was_given) {
  const hipStream_t origin = capturing();
  ASSERT_TRUE(names_.ask_for_graph(origin));
  EXPECT_FALSE(names_.names_graph(captures.graph)) << "nobody told it";
  EXPECT_FALSE(names_.names_node(node(1), nodes_));
  names_.give();
  names_.give();
  EXPECT_EQ(1, g_named_captures.load());
  EXPECT_TRUE(names_.names_graph(captures.graph));
  EXPECT_TRUE(names_.names_node(node(1), nodes_));
  EXPECT_FALSE(names_.names_node(node(9), nodes_));
  names_.clear();
  EXPECT_EQ(0, g_named_captures.load());
  EXPECT_FALSE(names_.names_graph(captures.graph));
}

TEST_F(GraphNamesTest, the_runtime_is_asked_for_the_graph_once) {
  const hipStream_t origin = capturing();
  captures.question_result = hipErrorUnknown;
  EXPECT_FALSE(names_.ask_for_graph(origin));
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
  captures.question_result = hipSuccess;
  EXPECT_TRUE(names_.ask_for_graph(origin));
  const int questions = captures.questions;
  EXPECT_TRUE(names_.ask_for_graph(origin));
  EXPECT_EQ(questions, captures.questions);
  EXPECT_EQ(captures.graph, names_.graph());
  end_capture(origin);
  EXPECT_FALSE(other_.ask_for_graph(origin)) << "it does not capture";
}

TEST_F(GraphNamesTest, a_handle_of_the_librarys_stands_for_the_graph) {
  ASSERT_TRUE(names_.ask_for_graph(capturing()));
  track(names_);
  EXPECT_TRUE(names_.names_graph(open_graphs().handle(*names_.tracked())));
  EXPECT_FALSE(names_.names_graph(captures.graph)) << "that handle the program was never given";
  const hipGraphNode_t known = handle(names_, 1);
  EXPECT_EQ(known, handle(names_, 1)) << "one handle a node";
  EXPECT_TRUE(names_.names_node(known, nodes_));
  track(other_);
  EXPECT_FALSE(names_.names_node(handle(other_, 1), nodes_));
  names_.clear();
  EXPECT_EQ(nullptr, open_graphs().node(known).graph) << "rule 47: it names nothing any more";
  EXPECT_TRUE(open_graphs().gave_out(known));
}

TEST_F(GraphNamesTest, nodes_are_named_by_handles_of_the_librarys_or_the_runtimes) {
  track(names_);
  track(other_);
  EXPECT_EQ((OperationTail{2, 3}), operations({handle(names_, 2), node(1)}))
      << "a handle that the runtime gave twice is the later node's";
  EXPECT_EQ(OperationTail{}, operations({}));
  EXPECT_EQ(std::nullopt, operations({node(9)}));
  EXPECT_EQ(std::nullopt, operations({nullptr})) << "the beginning has no node to be named";
  EXPECT_EQ(std::nullopt, operations({handle(other_, 2)}));
  EXPECT_EQ(std::nullopt, operations({handle(names_, 2), node(2)})) << "one node twice";
  EXPECT_EQ(std::nullopt, names_.operations({nullptr, 1, 0}, nodes_));
}

TEST_F(GraphNamesTest, the_runtime_gets_its_own_nodes) {
  track(names_);
  track(other_);
  EXPECT_EQ((Tail{node(2), node(9)}), native({handle(names_, 2), node(9)})) << "what is not known it judges itself";
  EXPECT_EQ(std::nullopt, native({handle(other_, 2)}));
  EXPECT_EQ(std::nullopt, native({handle(names_, 7)})) << "the runtime has no such node yet";
}

}  // namespace
}  // namespace graphpool
