// The states of a graph that the program holds.
#include <gtest/gtest.h>

#include "shim/graphs/tracked_graph.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {
namespace {

TEST(TrackedGraph, is_unmodified_until_the_program_may_have_changed_it) {
  TrackedGraph graph;
  EXPECT_TRUE(graph.unmodified());
  EXPECT_FALSE(graph.is_open());
  const std::uint64_t refused = g_refusals.sum();
  const LockGuard guard(graph.lock);
  graph.leave("a test");
  EXPECT_FALSE(graph.unmodified());
  EXPECT_EQ(refused + 1, g_refusals.sum());
  graph.leave("another one");
  EXPECT_EQ(refused + 1, g_refusals.sum()) << "it is left once";
}

TEST(TrackedGraph, of_an_open_capture_is_open_until_that_has_ended) {
  TrackedGraph graph(GraphState::kOpen);
  EXPECT_TRUE(graph.is_open());
  EXPECT_TRUE(graph.unmodified());
  graph.capture_ended();
  EXPECT_FALSE(graph.is_open());
  EXPECT_TRUE(graph.unmodified());
}

TEST(TrackedGraph, that_was_modified_while_its_capture_was_open_stays_so) {
  TrackedGraph graph(GraphState::kOpen);
  graph.note_modified();
  EXPECT_TRUE(graph.is_open());
  EXPECT_FALSE(graph.unmodified());
  graph.capture_ended();
  EXPECT_FALSE(graph.is_open());
  EXPECT_FALSE(graph.unmodified());
}

TEST(TrackedGraph, that_is_destroyed_is_nothing_else_any_more) {
  TrackedGraph graph;
  {
    const LockGuard guard(graph.lock);
    graph.note_destroyed();
  }
  graph.capture_ended();
  graph.note_modified();
  EXPECT_TRUE(graph.is_destroyed());
  EXPECT_FALSE(graph.unmodified());
  EXPECT_FALSE(graph.is_open());
}

TEST(TrackedGraph, has_an_id_of_its_own) { EXPECT_NE(TrackedGraph().id, TrackedGraph().id); }

}  // namespace
}  // namespace graphpool
