// Who walks in the tree of recordings, and how long the nodes of dropped recordings stay.
#include <gtest/gtest.h>

#include <memory>

#include "shim/execs/recording_tree.h"
#include "tests/unit/fills.h"

namespace graphpool {
namespace {

class RecordingTreeTest : public testing::Test {
 protected:
  RecordingTreeTest() { settings_.most_recordings = 1; }
  ~RecordingTreeTest() override {
    const LockGuard guard(g_recordings_lock);
    for (const auto& recording : recordings_)
      if (recording->end != nullptr) tree_.drop(*recording);
  }
  /// A recording of so many fills. Captures do not find it yet.
  Recording& insert(std::size_t count) REQUIRES(g_recordings_lock) {
    recordings_.push_back(std::make_unique<Recording>());
    Recording& recording = *recordings_.back();
    recording.operations = fills(count);
    recording.host_bytes = 1000;
    recording.number = recordings_.size();
    tree_.insert(recording, binding_of(count));
    return recording;
  }
  Recording& publish(std::size_t count) REQUIRES(g_recordings_lock) {
    Recording& recording = insert(count);
    RecordingTree::publish(recording);
    return recording;
  }
  void drop(Recording& recording) REQUIRES(g_recordings_lock) {
    tree_.drop(recording);
    recording.end = nullptr;
  }
  Recording* find(std::size_t count) REQUIRES(g_recordings_lock) { return tree_.find(fills(count), binding_of(count)); }
  TreeNode* walk() REQUIRES(g_recordings_lock) { return tree_.walk_begins(fills(1).front().signature); }
  static Binding binding_of(std::size_t count) { return fill_binding(std::vector<std::uint64_t>(count, 0x1000)); }

  GraphSettings settings_;
  std::vector<std::unique_ptr<Recording>> recordings_;
  RecordingTree tree_;
};

TEST_F(RecordingTreeTest, captures_find_a_recording_from_its_publication_on) {
  const LockGuard guard(g_recordings_lock);
  Recording& recording = insert(2);
  EXPECT_EQ(nullptr, find(2));
  RecordingTree::publish(recording);
  EXPECT_EQ(&recording, find(2));
  EXPECT_EQ(recording.number, recording.end->number.load());
  EXPECT_EQ(nullptr, find(1)) << "its beginning is no recording";
}

TEST_F(RecordingTreeTest, nobody_walks_where_nothing_begins) {
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(nullptr, walk());
  drop(publish(1));
  publish(1);
  EXPECT_EQ(nullptr, tree_.walk_begins(fills(1, 0, 1).front().signature)) << "of another device";
  // Had one of the two been counted as a walk, what is dropped now would stay.
  drop(*recordings_.back());
  EXPECT_EQ(nullptr, walk());
}

TEST_F(RecordingTreeTest, rule_30_nodes_stay_while_somebody_walks_and_go_with_the_last) {
  const LockGuard guard(g_recordings_lock);
  publish(1);
  Recording& longer = publish(3);
  const TreeNode* const end = longer.end;
  ASSERT_NE(nullptr, walk());
  ASSERT_NE(nullptr, walk());
  drop(longer);
  EXPECT_EQ(nullptr, find(3));
  EXPECT_EQ(kEndSignature, end->operation.signature) << "a capture may stand there";
  tree_.walk_ended();
  EXPECT_EQ(kEndSignature, end->operation.signature);
  EXPECT_EQ(3u, end->parent->index);
  Recording& again = publish(3);
  EXPECT_EQ(end, again.end) << "the nodes were there";
  drop(again);
  tree_.walk_ended();
  EXPECT_NE(nullptr, find(1));
}

TEST_F(RecordingTreeTest, rule_30_what_walks_keep_of_dropped_recordings_is_limited) {
  const LockGuard guard(g_recordings_lock);
  publish(1);
  Recording& second = publish(2);
  Recording& third = publish(3);
  drop(publish(4));
  EXPECT_FALSE(tree_.over_limit(settings_)) << "nobody walks: it went at once";
  ASSERT_NE(nullptr, walk());
  drop(second);
  EXPECT_FALSE(tree_.over_limit(settings_));
  settings_.most_recording_bytes = 999;
  EXPECT_TRUE(tree_.over_limit(settings_));
  settings_ = {};
  settings_.most_recordings = 1;
  drop(third);
  EXPECT_TRUE(tree_.over_limit(settings_));
  tree_.walk_ended();
  EXPECT_FALSE(tree_.over_limit(settings_));
}

}  // namespace
}  // namespace graphpool
