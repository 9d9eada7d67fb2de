// recording_tree.h: keeps the tree of all recordings, and counts the walks in it.
//
// An open capture, or a graph that is built node by node, walks along one path. While there is a walk no node goes: the
// nodes of recordings that were dropped meanwhile are pruned when the last walk ends. Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/execs/graph_settings.h"
#include "shim/execs/recording.h"
#include "shim/recording/prefix_tree.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

/// Where a walk begins.
struct TreeWalk {
  TreeNode* start = nullptr;  ///< null: no recording begins so. Else the tree is held until walk_ended()
  bool verify = false;        ///< record the capture all the same, and compare it with the recording it matches
};

class RecordingTree {
 public:
  /// Begins a walk where recordings with this beginning start. Null: there are none, and no walk begins.
  TreeNode* walk_begins(const Signature& begin) noexcept REQUIRES(g_recordings_lock) {
    TreeNode* const start = tree_.find_begin(begin);
    walks_ += start != nullptr ? 1 : 0;
    return start;
  }
  void walk_ended() noexcept REQUIRES(g_recordings_lock) {
    if (--walks_ == 0) prune();
  }

  /// The recording of these operations, or null.
  Recording* find(const std::vector<Operation>& operations, const Binding& binding) REQUIRES(g_recordings_lock);
  /// Makes room for the recording's operations and sets its end. Captures find the recording from publish() on.
  void insert(Recording& recording, const Binding& binding) REQUIRES(g_recordings_lock);
  static void publish(Recording& recording) noexcept REQUIRES(g_recordings_lock);
  void drop(const Recording& recording) noexcept REQUIRES(g_recordings_lock);

  /// Whether walks keep the nodes of too many dropped recordings: more, in number or bytes, than recordings may be
  /// kept.
  bool over_limit(const GraphSettings& settings) const noexcept REQUIRES(g_recordings_lock) {
    return left_ > settings.most_recordings || left_bytes_ > settings.most_recording_bytes;
  }

 private:
  void prune() noexcept REQUIRES(g_recordings_lock);

  PrefixTree tree_ GUARDED_BY(g_recordings_lock);
  std::size_t walks_ GUARDED_BY(g_recordings_lock) = 0;
  /// Dropped recordings of which the tree still has the nodes.
  std::size_t left_ GUARDED_BY(g_recordings_lock) = 0, left_bytes_ GUARDED_BY(g_recordings_lock) = 0;
};

}  // namespace graphpool
