// recordings.h: all recordings: which there are, and which of them go.
//
// There are at most `graph.recordings`, of so many bytes. What goes is the least recently used one that nobody refers
// to. Where recordings come back after a longer time than that one has been away (costs/returns.h), as those of a
// program that goes through more graphs than are kept, it is the newest: so most of the others are there when their
// captures come. Those with a function of a module that was unloaded are outdated: they go with their last user.
//
// Threads: any. Not here: the variants that a recording keeps (exec_store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "shim/costs/returns.h"
#include "shim/execs/exec_store.h"
#include "shim/execs/recording.h"
#include "shim/execs/recording_report.h"
#include "shim/execs/recording_tree.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {

class Recordings {
 public:
  Recordings(ExecStore& store, const GraphSettings& settings) noexcept : store_(store), settings_(settings) {}

  // --- walks ---

  /// A capture or a graph that is built begins so.
  TreeWalk walk_begins(const Signature& begin) EXCLUDES(g_recordings_lock);
  void walk_ended() noexcept EXCLUDES(g_recordings_lock);
  /// Holds the recording that ends at this place of the tree, in which the caller walks. Empty: it is not kept any
  /// more.
  HeldRecording hold(const TreeNode& end) noexcept EXCLUDES(g_recordings_lock);
  /// Whether walks keep so much of the tree that they are to be ended.
  bool tree_over_limit() const noexcept EXCLUDES(g_recordings_lock);

  // --- captures. `left_alone`: captures that were not followed, so far (costs/returns.h) ---

  /// A capture, or what was built node by node, was recorded: its recording, the one there is or a new one, which it
  /// refers to from now on. `children`: the recordings of its child graphs.
  struct Recorded {
    Recording& recording;
    std::uint64_t away;  ///< captures since it was used last; 0: it is new
    bool is_first;       ///< there was no such capture before
    bool has_room;       ///< there are not too many recordings
  };
  Recorded recorded(std::vector<Operation> operations, const Binding& binding, std::vector<Recording*> children,
                    std::uint64_t left_alone) REQUIRES(g_recordings_lock);
  /// A graph that is not real refers to the recording. Returns how many captures ago that was used.
  std::uint64_t withheld(Recording& recording, std::uint64_t left_alone) noexcept REQUIRES(g_recordings_lock);
  void note_used(Recording& recording) noexcept REQUIRES(g_recordings_lock);

  // --- what goes ---

  /// Recordings beyond the limits go, and outdated ones that nobody refers to.
  void trim(RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// Recordings with an operation for which the test is true are of no use any more.
  void outdate(OperationTest test, RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// Captures that the program begins at this place are left alone from now on: free variants of recordings that were
  /// captured there last are kept no longer.
  void keep_no_variants_of(const void* place) REQUIRES(g_recordings_lock);

  // --- for the report ---

  const std::vector<std::unique_ptr<Recording>>& all() const noexcept REQUIRES(g_recordings_lock) {
    return recordings_;
  }
  struct Counts {
    std::uint64_t captures = 0, withheld_captures = 0, dropped = 0;
    double dropped_saved_ns = 0;  ///< by those that were dropped
  };
  const Counts& counts() const noexcept REQUIRES(g_recordings_lock) { return counts_; }
  /// Of those that were dropped the newest, at most kMostDroppedInReport; none where there is no report.
  const std::deque<RecordingReport>& dropped() const noexcept REQUIRES(g_recordings_lock) { return dropped_; }

 private:
  static constexpr std::size_t kMostDroppedInReport = 64;

  bool wants_verification(TreeNode& begin) REQUIRES(g_recordings_lock);
  Recording& make(std::vector<Operation> operations, const Binding& binding, std::vector<Recording*> children)
      REQUIRES(g_recordings_lock);
  std::uint64_t note_captured(Recording& recording, std::uint64_t left_alone) noexcept REQUIRES(g_recordings_lock);
  bool over_limit() const noexcept REQUIRES(g_recordings_lock);
  std::size_t place_to_drop() const noexcept REQUIRES(g_recordings_lock);
  void drop_outdated(RetiredVariants* retired) REQUIRES(g_recordings_lock);
  void drop(std::size_t place, const char* reason, RetiredVariants* retired) REQUIRES(g_recordings_lock);

  ExecStore& store_;
  const GraphSettings& settings_;
  RecordingTree tree_ GUARDED_BY(g_recordings_lock);
  std::vector<std::unique_ptr<Recording>> recordings_ GUARDED_BY(g_recordings_lock);
  std::size_t host_bytes_ GUARDED_BY(g_recordings_lock) = 0;  ///< of all recordings
  /// Recordings that are only kept because the program's graphs and execs refer to them.
  std::size_t outdated_ GUARDED_BY(g_recordings_lock) = 0;
  std::uint64_t clock_ GUARDED_BY(g_recordings_lock) = 0;  ///< orders uses of recordings
  std::uint64_t last_number_ GUARDED_BY(g_recordings_lock) = 0;
  Returns returns_ GUARDED_BY(g_recordings_lock);
  Counts counts_ GUARDED_BY(g_recordings_lock);
  std::deque<RecordingReport> dropped_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
