// recording.h: a recording that may be used again, and the execs made of it.
//
// Threads: a member without GUARDED_BY is immutable once captures can find the recording, or is safe by itself.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shim/costs/binding_history.h"
#include "shim/costs/cost_model.h"
#include "shim/costs/stage_choice.h"
#include "shim/costs/way_counts.h"
#include "shim/execs/variant.h"
#include "shim/recording/moved_operands.h"
#include "shim/recording/prefix_tree.h"
#include "shim/recording/recordings_lock.h"
#include "shim/staging/slot_ring.h"
#include "shim/staging/staging.h"

namespace graphpool {

/// How a recording is staged over buffers of certain rules.
struct StagePlans {
  std::vector<std::uint32_t> rules;         ///< staging_rules()
  std::unique_ptr<const StagePlan> always;  ///< what is always staged; null: nothing
  std::unique_ptr<const StagePlan> open;    ///< `always`, and what is staged where it pays; null: none of the latter
  std::uint64_t last_used = 0;
};

class Recording {
 public:
  static constexpr std::size_t kMostStagePlans = 4;

  std::vector<Operation> operations;  ///< beginning and end included
  std::vector<Recording*> children;   ///< of its child graphs; it is a user of each
  std::size_t node_count = 0;
  bool fills_rows = false;         ///< it or a child has a fill of several rows (graphs/exec_updates.cpp)
  int home = -1;                   ///< the one device of its nodes, current when they were made; -1: there were several
  std::size_t exec_bytes = 0;      ///< device memory that an exec of it is estimated to hold
  std::size_t argument_bytes = 0;  ///< of that, its kernels' arguments
  std::size_t host_bytes = 0;      ///< host memory the recording holds
  std::uint64_t number = 0;        ///< names it in messages and the report, from 1
  TreeNode* end = nullptr;         ///< its place in the tree
  std::vector<const char*> kernels;  ///< names by operation, kept for good; empty: operands are not tracked

  // These may change at any time.

  std::atomic<int> way_in_log{-1};             ///< what the log last said serves it; -1: it has said nothing
  std::atomic<std::uint32_t> way_messages{0};  ///< how often that has changed, the first time included

  /// Whether a graph of our own can be made of it, and verification has found no difference in one: only then may
  /// captures of it be withheld, and execs staged.
  std::atomic<bool> rebuildable{false};
  std::atomic<bool> may_stage{true};      ///< false once verification has found a difference
  std::atomic<bool> may_be_direct{true};  ///< the same for launches without copies (staging/slot_ring.h)
  WayCounts launches;
  ExecCosts exec_costs;

  /// Our own graph that proved `rebuildable`, with its binding. The first exec is made of it if it fits; null from then
  /// on.
  std::unique_ptr<Variant> first GUARDED_BY(g_recordings_lock);
  /// Where the program began the last withheld capture that came to it; null: not known.
  const void* place GUARDED_BY(g_recordings_lock) = nullptr;
  /// Number of the call site (callsite/) of its first capture; 0: not known.
  std::uint32_t captured_by GUARDED_BY(g_recordings_lock) = 0;
  /// Code address of the call that began it; null: the graph was built node by node.
  const void* captured_at GUARDED_BY(g_recordings_lock) = nullptr;
  std::size_t users GUARDED_BY(g_recordings_lock) = 0;  ///< the program's graphs and execs, and others, that refer to
                                                        ///< it: it stays while there are any
  bool outdated GUARDED_BY(g_recordings_lock) = false;  ///< a function of it is gone: it goes with its last user
  std::uint64_t last_used GUARDED_BY(g_recordings_lock) = 0;
  std::uint64_t used_at GUARDED_BY(g_recordings_lock) = 0;  ///< the number of the last capture (costs/returns.h)
  /// It was kept before: how many captures lay between its last use then and this recording. 0: new, or forgotten.
  std::uint64_t away GUARDED_BY(g_recordings_lock) = 0;

  /// The first `free_variants` have no owner.
  std::vector<std::unique_ptr<Variant>> variants GUARDED_BY(g_recordings_lock);
  std::size_t free_variants GUARDED_BY(g_recordings_lock) = 0;

  BindingHistory history GUARDED_BY(g_recordings_lock);
  MovedOperands moved GUARDED_BY(g_recordings_lock);  ///< noted if operands are tracked (GraphSettings)
  /// Estimated ns spent since the last new exec: patches, updates and slots, for bindings seen before.
  double spent_ns GUARDED_BY(g_recordings_lock) = 0;
  Way last_way GUARDED_BY(g_recordings_lock) = Way::kNewExec;
  /// Bindings in a row that could have been patched and were not.
  std::uint32_t passed_over GUARDED_BY(g_recordings_lock) = 0;
  bool may_patch GUARDED_BY(g_recordings_lock) = true;  ///< false once verification has found a difference

  /// One entry for each set of rules that its bindings had, at most kMostStagePlans.
  std::vector<std::shared_ptr<StagePlans>> stage_plans GUARDED_BY(g_recordings_lock);
  StageChoice stage_choice GUARDED_BY(g_recordings_lock);  ///< of all open plans
  /// What a ring of an open plan took to make; 0: not measured.
  double ring_ns GUARDED_BY(g_recordings_lock) = 0;
  /// Why its last binding was not staged, where rules stage it; a literal; null: it was.
  const char* not_staged GUARDED_BY(g_recordings_lock) = nullptr;

  struct Statistics {
    std::uint64_t captures = 0, captures_avoided = 0, materialised = 0;
    std::uint64_t instantiates = 0, instantiates_avoided = 0, updates_avoided = 0;
    std::uint64_t native_updates = 0;     ///< by the program's own call, of an exec or of one of its nodes
    std::uint64_t built_for_update = 0;   ///< of those: with a graph made for it
    std::uint64_t instead_of_update = 0;  ///< execs made where the program asked for an update
    std::uint64_t patched_nodes = 0;
    RingCounts staged;
    std::uint64_t ring_waits = 0, ring_timeouts = 0;  ///< launches that waited on the CPU for a slot set; those in vain
    std::uint64_t bindings = 0, replaced = 0, evicted = 0;
    std::uint64_t longest_return = 0;  ///< the most bindings that came until one was back, that one counted
    std::uint64_t verified = 0, launches_verified = 0, differences = 0;
  };
  Statistics statistics GUARDED_BY(g_recordings_lock);

  /// Whether it has come back since it was recorded.
  bool came_back() const noexcept REQUIRES(g_recordings_lock) {
    return statistics.captures + statistics.captures_avoided > 1;
  }

  /// Its first and last kernel, "embed .. adamw", for messages; "no named kernel" where no name is known.
  std::string name() const;

  /// Whether it or a child graph has kernels of a communication library.
  bool communicates() const EXCLUDES(g_recordings_lock);

  /// Whether one of its plans leaves staging open.
  bool staging_open() const noexcept REQUIRES(g_recordings_lock) {
    return std::any_of(stage_plans.begin(), stage_plans.end(),
                       [](const auto& plans) { return plans->open != nullptr; });
  }

  /// Whether it may be staged at all, whatever rules say.
  bool may_be_staged() const noexcept {
    return may_stage.load(std::memory_order_relaxed) && rebuildable.load(std::memory_order_acquire);
  }

  /// The place of an operation in the tree. Cost: a step for every operation behind it.
  TreeNode* tree_node(std::uint32_t index) const noexcept {
    TreeNode* node = end;
    while (node->index != index) node = node->parent;
    return node;
  }

 private:
  mutable std::atomic<std::int8_t> communicates_{-1};  ///< not asked yet
};

/// A recording that stays while this does; or none.
class HeldRecording {
 public:
  HeldRecording() = default;
  /// Takes over a hold: the recording's `users` counts it already. Null: holds nothing.
  explicit HeldRecording(Recording* recording) noexcept : recording_(recording) {}
  HeldRecording(HeldRecording&& other) noexcept : recording_(std::exchange(other.recording_, nullptr)) {}
  HeldRecording& operator=(HeldRecording&& other) noexcept {
    std::swap(recording_, other.recording_);
    return *this;
  }
  ~HeldRecording() EXCLUDES(g_recordings_lock) {
    if (recording_ != nullptr) [[unlikely]]
      let_go();
  }

  /// Leaves the hold to the caller.
  Recording* release() noexcept { return std::exchange(recording_, nullptr); }

  explicit operator bool() const noexcept { return recording_ != nullptr; }
  Recording& operator*() const noexcept { return *recording_; }

 private:
  void let_go() noexcept;

  Recording* recording_ = nullptr;
};

/// Holds a recording. Pre-condition: somebody holds it already.
HeldRecording hold(Recording& recording) noexcept EXCLUDES(g_recordings_lock);

}  // namespace graphpool
