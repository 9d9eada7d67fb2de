// What the next operation of a capturing stream comes behind: asked of the runtime, and set there.
#include "shim/capture/stream_tail.h"
#include "tests/unit/captures_fixture.h"

namespace graphpool {
namespace {

class StreamTailTest : public CapturesTest {};

TEST_F(StreamTailTest, the_last_node_is_known_where_there_is_one) {
  EXPECT_EQ(node(1), last_node(capturing({node(1)})));
  EXPECT_EQ(nullptr, last_node(capturing({node(1), node(2)})));
  EXPECT_EQ(nullptr, last_node(capturing()));
  const hipStream_t over = capturing({node(1)});
  end_capture(over);
  EXPECT_EQ(nullptr, last_node(over));
}

TEST_F(StreamTailTest, a_question_that_fails_leaves_no_error) {
  const hipStream_t stream = capturing({node(1)});
  captures.question_result = hipErrorUnknown;
  Tail copied{node(7)};
  EXPECT_EQ(nullptr, last_node(stream));
  EXPECT_FALSE(copy_tail(stream, &copied));
  EXPECT_EQ(Tail{node(7)}, copied);
  EXPECT_FALSE(extend_tail(stream, {node(2)}));
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
}

TEST_F(StreamTailTest, what_is_there_already_is_not_touched) {
  const hipStream_t stream = capturing({node(1), node(2)});
  EXPECT_TRUE(replace_tail(stream, {node(1), node(2)}));
  EXPECT_TRUE(extend_tail(stream, {node(2)}));
  EXPECT_TRUE(extend_tail(stream, {}));
  EXPECT_EQ(0, captures.additions + captures.replacements);
}

TEST_F(StreamTailTest, rule_44_nodes_that_stay_are_not_replaced) {
  const hipStream_t stream = capturing({node(1)});
  EXPECT_TRUE(replace_tail(stream, {node(1), node(2)}));
  EXPECT_EQ((Tail{node(1), node(2)}), tail_of(stream));
  EXPECT_EQ(1, captures.additions);
  EXPECT_EQ(0, captures.replacements) << "the runtime takes what is replaced for joined";
  EXPECT_TRUE(replace_tail(stream, {node(2)}));
  EXPECT_EQ(Tail{node(2)}, tail_of(stream));
  EXPECT_TRUE(replace_tail(stream, {node(3), node(2)}));
  EXPECT_EQ((Tail{node(3), node(2)}), tail_of(stream)) << "the order counts";
  EXPECT_EQ(2, captures.replacements);
}

TEST_F(StreamTailTest, a_tail_is_extended_by_what_it_lacks) {
  const hipStream_t stream = capturing({node(1), node(2)});
  EXPECT_TRUE(extend_tail(stream, {node(2), node(3)}));
  EXPECT_EQ((Tail{node(1), node(2), node(3)}), tail_of(stream));
  EXPECT_EQ(0, captures.replacements);
  fake.hip->fail["hipStreamUpdateCaptureDependencies"] = hipErrorUnknown;
  EXPECT_FALSE(extend_tail(stream, {node(4)}));
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
}

}  // namespace
}  // namespace graphpool
