// recordings.h: keeps all recordings, and decides which of them go.
//
// At most `graph.recordings` of them are kept, of `graph.recording_memory` together; more only while none can go. Only
// recordings that nobody refers to go, first the least recently used one. But if recordings often come back after a
// longer time than that one has been away (costs/returns.h), the newest one that has not come back goes instead, unless
// it is known to come back sooner. So a program that goes through more graphs than are kept finds most of the kept
// ones. Recordings with a function of an unloaded module are outdated: they go with their last user.
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

  /// Begins the walk of a capture, or of a graph that is built node by node.
  TreeWalk walk_begins(const Signature& begin) EXCLUDES(g_recordings_lock);
  void walk_ended() noexcept EXCLUDES(g_recordings_lock);
  /// Holds the recording that ends at this place of the tree, in which the caller walks. Empty: it is kept no more.
  HeldRecording hold(const TreeNode& end) noexcept EXCLUDES(g_recordings_lock);
  /// Whether walks keep the nodes of too many dropped recordings. Then the caller is to end the walks.
  bool tree_over_limit() const noexcept EXCLUDES(g_recordings_lock);

  // --- captures. `left_alone`: how many captures were left alone so far (costs/returns.h) ---

  /// Finds or makes the recording of a capture, or of a graph that was built node by node, and counts the caller as a
  /// user of it. `children`: the recordings of its child graphs.
  struct Recorded {
    Recording& recording;
    std::uint64_t away;  ///< captures since its last use, even if it was made anew; 0: not known
    bool is_first;       ///< the recording was made for this capture
    bool has_room;       ///< recordings are within their limits
  };
  Recorded recorded(std::vector<Operation> operations, const Binding& binding, std::vector<Recording*> children,
                    std::uint64_t left_alone) REQUIRES(g_recordings_lock);
  /// Notes a withheld capture of the recording. Returns how many captures ago the recording was used before.
  std::uint64_t withheld(Recording& recording, std::uint64_t left_alone) noexcept REQUIRES(g_recordings_lock);
  void note_used(Recording& recording) noexcept REQUIRES(g_recordings_lock);

  // --- what goes ---

  /// Drops recordings beyond the limits, and outdated ones that nobody refers to.
  void trim(RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// Marks as outdated the recordings with an operation that passes the test. Drops those that nobody refers to, and
  /// free variants of the rest.
  void outdate(OperationTest test, RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// Stops keeping free variants of recordings whose last withheld capture began at this place: captures that begin
  /// there are left alone from now on.
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
  /// The newest recordings that were dropped, at most kMostDroppedInReport; none if operands are not tracked.
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
  /// Recordings of which a function is gone: they are kept only while somebody refers to them.
  std::size_t outdated_ GUARDED_BY(g_recordings_lock) = 0;
  std::uint64_t clock_ GUARDED_BY(g_recordings_lock) = 0;  ///< orders uses of recordings
  std::uint64_t last_number_ GUARDED_BY(g_recordings_lock) = 0;
  Returns returns_ GUARDED_BY(g_recordings_lock);
  Counts counts_ GUARDED_BY(g_recordings_lock);
  std::deque<RecordingReport> dropped_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
