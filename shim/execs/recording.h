// recording.h: a recording that may be used again, and the execs made of it.
//
// Threads: guarded by the lock of Graphs (kRecordings) unless said otherwise; the recording is immutable.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shim/costs/binding_history.h"
#include "shim/costs/cost_model.h"
#include "shim/costs/stage_choice.h"
#include "shim/costs/way_counts.h"
#include "shim/recording/moved_operands.h"
#include "shim/recording/prefix_tree.h"
#include "shim/staging/slot_ring.h"
#include "shim/staging/staging.h"
#include "shim/streams/completion.h"

namespace graphpool {

class Recording;
class ProgramExec;

/// One exec and the binding baked into it. Owned by the recording, or, tainted, by the program exec that holds it.
struct Variant {
  // What each launch reads comes first.
  hipGraphExec_t exec = nullptr;            ///< null: staged
  std::atomic<std::uint32_t> under_way{0};  ///< launches that `launches` does not have yet; set under the exec's lock
  bool launched = false;                    ///< the first launch costs more
  LaunchMarks launches;
  std::shared_ptr<const StagePlan> plan;  ///< staged: by this one of the recording's
  std::unique_ptr<SlotRing> ring;         ///< staged: has the execs; `baked` is canonical (StagePlan::canonical)
  hipGraph_t graph = nullptr;             ///< of our own, when the exec was made from one; else null
  std::vector<hipGraphNode_t> nodes;      ///< of that graph, one an operation
  std::uint64_t source = 0;  ///< id of the program's graph it was made from otherwise, which names its nodes
  Binding baked;
  int device = 0;                      ///< current when it was instantiated (rule 14)
  const ProgramExec* owner = nullptr;  ///< the live program exec that uses it; set by Variants::give()
  std::uint32_t patches = 0;
  std::size_t patched_bytes = 0;       ///< of argument memory that updates have taken (exec_size.h)
  std::vector<std::uint64_t> reached;  ///< verify: addresses it had before it was patched (add_addresses)
  std::uint64_t memory_freed = 0;      ///< memory_freed() before its graph was made
  bool keep = true;                    ///< false: for one use, or worn out by patches; goes when it is free
  std::size_t device_bytes = 0;        ///< device memory it is taken to hold
  Recording* recording = nullptr;      ///< kept by this recording
  std::uint64_t made_for = 0;          ///< number of the recording it was made for; its nodes are that one's
  std::size_t place = 0;               ///< among that one's variants
  std::size_t kept_place = 0;          ///< among those of all recordings
  bool unsure = false;      ///< updated in a way the runtime is not known to do correctly: it serves its holder only
  bool broken = false;      ///< half updated, or distrusted: it serves nobody
  bool distrusted = false;  ///< verify: it does something else than its binding says
  std::uint64_t last_used = 0;

  Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;
  ~Variant();  ///< destroys exec and graph: never under a lock

  /// Whether all its launches are known to be complete (rule 20).
  bool idle() noexcept { return under_way.load(std::memory_order_acquire) == 0 && launches.complete(); }
};

/// How a recording is staged over buffers of certain rules.
struct StagePlans {
  std::vector<std::uint32_t> rules;         ///< staging_rules()
  std::unique_ptr<const StagePlan> always;  ///< what is always staged; null: nothing
  std::unique_ptr<const StagePlan> open;    ///< that and what is staged where it pays; null: nothing is open
  std::uint64_t last_used = 0;
};

class Recording {
 public:
  static constexpr std::size_t kMostStagePlans = 4;

  /// A graph of our own can be made of the recording: only then may captures of it be virtual, and execs staged.
  std::atomic<bool> rebuildable{false};
  std::unique_ptr<Variant> first;     ///< that graph, until the first exec is made of it; baked: its binding
  std::vector<Operation> operations;  ///< beginning and end included
  std::vector<Recording*> children;   ///< of its child graphs; it is a user of each
  std::size_t node_count = 0;
  bool fills_rows = false;         ///< it or a child has a fill of several rows; see Graphs::update
  std::size_t exec_bytes = 0;      ///< device memory an exec of it is taken to hold
  std::size_t argument_bytes = 0;  ///< of that, its kernels' arguments
  std::size_t host_bytes = 0;      ///< host memory the recording holds
  std::uint64_t number = 0;        ///< names it in messages and the report, from 1
  TreeNode* end = nullptr;
  const void* place = nullptr;  ///< where the program began its last capture that came to this; null: not known
  std::vector<std::shared_ptr<StagePlans>> stage_plans;  ///< by the rules of the bindings there were
  StageChoice stage_choice;                              ///< of all open plans
  double ring_ns = 0;                                    ///< what a ring of an open plan took to make; 0: not measured
  std::vector<std::unique_ptr<Variant>> variants;        ///< those that nobody owns first
  std::size_t free_variants = 0;                         ///< how many those are
  std::uint64_t last_used = 0;
  std::uint64_t used_at = 0;  ///< the number of the last capture before that (costs/returns.h)
  std::uint64_t away = 0;     ///< captures that it was away for when it was recorded anew; 0: it was not known before
  bool outdated = false;      ///< a function of it is gone: it goes with its last user
  std::size_t users = 0;      ///< graphs and execs of the program that refer to it: it stays while there are any

  BindingHistory history;
  MovedOperands moved;               ///< noted for a report only
  std::vector<const char*> kernels;  ///< the same: their names, by operation; their modules may be unloaded since
  ExecCosts exec_costs;
  double spent_ns = 0;  ///< on patches for bindings seen before, since the last exec was made
  Way last_way = Way::kNewExec;
  const char* not_staged = nullptr;         ///< why its last binding was not, where rules stage it; a literal
  std::uint32_t passed_over = 0;            ///< bindings in a row that could have been patched and were not
  bool may_patch = true, may_stage = true;  ///< false once verification has found a difference
  std::atomic<bool> may_be_at_home{true};   ///< the same of launches without copies (staging/slot_ring.h), without lock
  WayCounts launches;                       ///< without lock

  struct Statistics {
    std::uint64_t captures = 0, captures_avoided = 0, materialised = 0;
    std::uint64_t instantiates = 0, instantiates_avoided = 0, updates_avoided = 0;
    std::uint64_t native_updates = 0;     ///< by the program's own call, of an exec or of one of its nodes
    std::uint64_t built_for_update = 0;   ///< of those: with a graph made for it
    std::uint64_t instead_of_update = 0;  ///< execs made where the program asked for an update
    std::uint64_t patched_nodes = 0;
    RingCounts staged;
    std::uint64_t ring_waits = 0, ring_timeouts = 0;  ///< launches that waited for a slot set on the CPU; in vain
    std::uint64_t bindings = 0, replaced = 0, evicted = 0;
    std::uint64_t longest_return = 0;  ///< bindings noted until one came back, it among them; the most of all
    std::uint64_t verified = 0, launches_verified = 0, differences = 0;
  } statistics;

  /// Whether it has come back since it was recorded. Under the lock of the recordings.
  bool came_back() const noexcept { return statistics.captures + statistics.captures_avoided > 1; }

  /// Whether it has kernels of a communication library. Under no lock.
  bool communicates() const;

  /// Whether some binding had buffers whose staging is open.
  bool staging_open() const noexcept {
    return std::any_of(stage_plans.begin(), stage_plans.end(),
                       [](const auto& plans) { return plans->open != nullptr; });
  }

  /// The place of an operation in the tree. Cost: a step for every operation behind it.
  TreeNode* tree_node(std::uint32_t index) const noexcept {
    TreeNode* at = end;
    while (at->index != index) at = at->parent;
    return at;
  }

  /// The bytes a binding has here.
  std::size_t binding_bytes() const noexcept { return operations.back().payload_offset; }

 private:
  mutable std::atomic<std::int8_t> communicates_{-1};  ///< not asked yet
};

/// A recording that stays while this does (Graphs::hold); or none.
class HeldRecording {
 public:
  HeldRecording() = default;
  explicit HeldRecording(Recording* recording) noexcept : recording_(recording) {}
  HeldRecording(HeldRecording&& other) noexcept : recording_(std::exchange(other.recording_, nullptr)) {}
  HeldRecording& operator=(HeldRecording&& other) noexcept {
    std::swap(recording_, other.recording_);
    return *this;
  }
  ~HeldRecording();  ///< takes kRecordings

  /// The caller lets go of it instead.
  Recording* release() noexcept { return std::exchange(recording_, nullptr); }

  explicit operator bool() const noexcept { return recording_ != nullptr; }
  Recording& operator*() const noexcept { return *recording_; }

 private:
  Recording* recording_ = nullptr;
};

}  // namespace graphpool
