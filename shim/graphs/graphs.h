// graphs.h: the graphs and execs a program holds, and the recordings behind them.
//
// Words: known and deferred graphs: tracked_graphs.h. A program exec is the handle of an exec that a recording may use
// again once the program has destroyed it.
//
// The life of a step: a capture ends in a tracked graph (capture/capture.h), or one is built (node_graphs.h) ->
// instantiate(): a free variant whose baked-in binding is the graph's serves; else one is patched or made -> update():
// the same for another binding -> launch(): forwards the variant -> destroy: the variant is free again once its
// launches are known to be complete. An exec the program reaches in any other way is *tainted*: it serves its holder
// and goes with it (rule 2). Updates alone do not make it so: where nothing of ours serves a binding exactly without
// another exec, the program's own update is made on the variant that its exec has (update_own()), and what the runtime
// has once updated from one recording to another is served by variants of that from then on (execs/program_exec.h). The
// program may set what a node of its exec does (set_in_exec()): the binding changes, and the variant with it.
//
// Errors are HIP's. Threads: any. Locks: kRecordings for recordings, never held across next; before it an exec's own
// (execs/program_exec.h), held while a launch of staged memory is enqueued.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/capture/capture.h"
#include "shim/capture/capture_sink.h"
#include "shim/costs/returns.h"
#include "shim/execs/recording.h"
#include "shim/execs/variants.h"
#include "shim/graphs/handle_table.h"
#include "shim/graphs/tracked_graphs.h"
#include "shim/graphs/unstaged_execs.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/prefix_tree.h"
#include "shim/verify/both_ways.h"

namespace graphpool {

using NativeInstantiate = FunctionRef<hipError_t(hipGraph_t graph, hipGraphExec_t* exec)>;
using NativeExecCall = FunctionRef<hipError_t(hipGraphExec_t exec)>;
using NativeExecNodeCall = FunctionRef<hipError_t(hipGraphExec_t exec, hipGraphNode_t node)>;

class Graphs {
 public:
  GraphSettings& settings() noexcept { return settings_; }
  const GraphSettings& settings() const noexcept { return settings_; }

  // --- captures ---

  /// Where captures with this beginning start in the tree, or null; not null: the tree is held until walk_ended().
  /// *verify: the capture is to be recorded all the same, and compared with what it is expected to be.
  TreeNode* walk_begins(const Signature& begin, bool* verify);
  void walk_ended() noexcept;
  /// The recording that ends at this place of a tree that is held. None: it is not kept any more.
  HeldRecording hold(const TreeNode& end) noexcept;
  HeldRecording hold(Recording& recording) noexcept;
  void let_go(Recording& recording) noexcept;
  /// A real capture ended and its graph is what was recorded. The handle by which the program knows it. *learned: its
  /// recording is new, and there was room for it.
  hipGraph_t real_graph_captured(CapturedGraph captured, RecordedCapture recording, bool* learned);
  /// A real capture ended of which no recording was made.
  hipGraph_t untracked_graph_captured(CapturedGraph captured);
  /// A shell ended as the recording says. The graph takes the hold over, and `captured` goes where nothing needs it.
  hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured);
  /// A capture that was to be verified is what was expected of it; or it is not: the recording is used no more.
  void capture_verified(Recording& recording) noexcept;
  void capture_differs(Recording& recording, const Operation& operation, const Binding& binding, hipGraphNode_t node,
                       const char* why);
  /// A capture or a graph that is no recording, and why. A literal.
  void note_refused(const char* why) noexcept;
  /// An exec, or an update of one, that is the runtime's, and why. A literal.
  void note_left(const char* why) noexcept;

  // --- graphs ---

  TrackedGraphs& known() noexcept { return known_; }
  /// A deferred graph's copy is virtual too; of any other HIP makes one.
  hipError_t clone(hipGraph_t* out, hipGraph_t original);
  /// The graph was built node by node, or captured at this place, and is what was recorded: it has a recording from now
  /// on. Under its lock. Returns whether the recording is new and there was room for it.
  bool learn(TrackedGraph& known, std::vector<Operation> operations, const void* place = nullptr);
  /// Calls use() with the first graph of ours, set to this binding, where there is one and the runtime is known to set
  /// all its differing nodes exactly; else false, and nothing was done.
  bool with_first_graph(Recording& recording, const Binding& binding, GraphUse use, hipError_t* result);
  /// A graph refers to the recording that is not real.
  void handed_out(Recording& recording) noexcept;

  // --- execs ---

  /// `native` makes it by the program's own call. Flags: memory nodes apart, which no recording has, 0 and
  /// kInstantiateAutoFree mean the same; with any other it is always made natively.
  hipError_t instantiate(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags, NativeInstantiate native);
  hipError_t launch(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  hipError_t update(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                    hipGraphExecUpdateResult* result);
  /// The program's exec behind a handle of the library's that no recording serves; null: it is another.
  ProgramExec* find_unserved(hipGraphExec_t handle) const noexcept {
    ProgramExec* const exec = execs_.find(handle);
    return exec != nullptr && exec->recording == nullptr ? exec : nullptr;
  }
  /// The runtime has updated such an exec by a graph of a capture that nobody followed.
  void updated_unfollowed(ProgramExec& exec, hipGraphNode_t* error_node, const hipGraphExecUpdateResult* result,
                          hipError_t failed);
  hipError_t destroy_exec(hipGraphExec_t exec);
  /// The program sets what a node of the exec does. Bytes that do not change do not reach HIP; those that do go to the
  /// variant by the program's own call, unless a free one has them. `forward` gets the real exec and its node.
  hipError_t set_in_exec(hipGraphExec_t exec, hipGraphNode_t node, Describe describe, NativeExecNodeCall forward);
  /// The program makes, updates or waits for something itself: execs past the limits go (rule 15). Without a lock held.
  void make_room_for_execs() {
    if (variants_.eviction_due()) [[unlikely]]
      evict_due();
  }
  /// Captures that the program begins at this place are left alone from now on: execs of recordings that were captured
  /// there last go, as far as nobody uses them. Without a lock held.
  void drop_free_execs_of(const void* place);
  /// The real exec for any other call: tainted from now on. `node` becomes the exec's own node where the program names
  /// one of the graph that the exec was made from.
  hipError_t expose_exec(hipGraphExec_t* exec, hipGraphNode_t* node, const char* why);
  /// Whether the library made this handle. The exec may have been destroyed since.
  bool gave_out(hipGraphExec_t exec) const noexcept { return execs_.owns(exec); }
  /// What it was instantiated with; false: it is not one of ours.
  bool flags_of(hipGraphExec_t exec, unsigned long long* flags) const noexcept;
  /// The real exec for a call that only reads it; null where there is none, because it has nothing to do or is staged.
  /// HIP's error: the program has destroyed it.
  hipError_t read_exec(hipGraphExec_t* exec) const noexcept;

  /// Memory has run out on the device (all: -1): execs that nobody uses go. Returns whether there were any.
  bool reclaim(int device) noexcept;

  /// Memory is about to go back to the runtime (no bytes: as much as nobody knows; null: all there is):
  /// what can be made over it only while it is there is made.
  void memory_leaves(const void* address, std::size_t bytes, const char* why);

  /// A module is about to go: graphs and execs with such an operation are made while they can be. Recordings with a
  /// kernel for which `gone` holds are of no use any more.
  void module_leaves(OperationTest names, OperationTest gone, const char* why);

  /// The device is being reset: everything made for it is gone with it.
  void device_reset(int device) noexcept;

  struct Totals {
    std::uint64_t templates = 0, recordings_dropped = 0, variants = 0;
    double saved_ns = 0;  ///< estimated from the costs
    std::uint64_t captures = 0, withheld_captures = 0, refused = 0;
    std::uint64_t instantiates = 0, instantiates_avoided = 0, updates = 0, updates_avoided = 0, launches = 0;
  };
  Totals totals() const noexcept;

  /// What a report says of one recording.
  struct MovedReport {
    MovedOperand operand;
    const char* kind;
    const char* kernel;  ///< null: none, or not known
  };
  struct RecordingReport {
    std::uint64_t number;
    const char* dropped;       ///< why it is not kept any more; null: it is
    const char* first_kernel;  ///< names it, with the last one; null: it has none, or its name is not known
    const char* last_kernel;
    std::size_t operations;
    std::size_t variants;
    std::size_t device_bytes, host_bytes, volatile_words;
    Recording::Statistics statistics;
    std::size_t slot_sets, slots, slot_bytes;
    std::array<std::uint64_t, kWays> launches;
    std::vector<MovedReport> moved;
    std::uint64_t other_moves;
    double saved_ns;         ///< estimated from the costs
    const char* not_staged;  ///< why; null: it is, or no rule says so
    bool staging_open, staging_chosen;
    std::uint64_t staging_changes;
  };
  /// The newest of those that were dropped come last.
  std::vector<RecordingReport> templates() const;
  static constexpr std::size_t kMostDroppedTold = 64;
  /// Execs kept, by device.
  struct ExecMemory {
    int device;
    std::size_t bytes, peak_bytes;
  };
  std::vector<ExecMemory> exec_memory_held() const;
  Reasons refusals() const;
  Reasons left_to_runtime() const;

 private:
  bool wants_verification(TreeNode& begin);
  void note_used(Recording& recording) noexcept;
  std::uint64_t note_captured(Recording& recording) noexcept;
  std::uint64_t note_handed_out(Recording& recording) noexcept;
  Recording* recording_for(std::vector<Operation> operations, const TrackedGraph& known);
  Recording* recording_of(TrackedGraph& known, Binding* binding, bool* real, bool* outlived,
                          Objects* objects = nullptr);
  bool instantiate_known(hipGraphExec_t* out, TrackedGraph& known, hipGraph_t graph, unsigned long long flags,
                         NativeInstantiate native, hipError_t* answer);

  hipError_t launch_now(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_traced(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_program_exec(ProgramExec& exec, StreamArgument stream, NativeExecCall native);
  hipError_t leave_shared_memory(ProgramExec& exec, StreamArgument stream);
  /// The launch of an exec on the program's own memory.
  struct UnstagedLaunch {
    Variant* variant = nullptr;
    Recording* first = nullptr;  ///< not null: it is the variant's first, which costs more than others
    std::shared_ptr<const OutstandingUses::Bases> written;  ///< null: nobody asks
  };
  void begin_unstaged(ProgramExec& exec, StreamArgument stream, UnstagedLaunch* launch);
  hipError_t launch_unstaged(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                             const UnstagedLaunch& launch);
  bool choose_launch(ProgramExec& exec, StreamArgument stream, NativeExecCall native, UnstagedLaunch* launch,
                     hipError_t* answer);
  /// hipErrorNotReady: on shadows, and no slot set serves it; nothing was enqueued.
  hipError_t launch_selected(ProgramExec& exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_verified(ProgramExec& exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_both_ways(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                              std::unique_ptr<Variant> real);
  void staging_differs(ProgramExec& exec, std::unique_ptr<Variant> real, const Shadows::Difference& difference,
                       const std::vector<char*>& bases);
  hipError_t launch_and_repeat(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                               std::unique_ptr<Variant> real_path);
  void rebuilt_differs(ProgramExec& exec, std::unique_ptr<Variant> real_path, const Shadows::Difference& difference);
  /// verify: the exec has been given what was made of the recording; for its next launch one of the program's own graph
  /// is kept beside.
  void keep_real_path(ProgramExec& exec, hipGraph_t graph);
  void repeated_differs(ProgramExec& exec, const Shadows::Difference& difference);
  void replace_distrusted(ProgramExec& exec);
  void serve_by(ProgramExec& exec, std::unique_ptr<Variant> made);
  static void say_not_compared(const Recording& recording, const char* why);
  bool tree_over_limit() const noexcept;
  bool launch_staged(ProgramExec& exec, StreamKey key, hipStream_t stream, NativeExecCall native, bool on_device,
                     bool waited, bool* replayed, hipError_t* result);
  static void count_launch(ProgramExec& exec) noexcept;
  static std::shared_ptr<const OutstandingUses::Bases> what_is_written(ProgramExec& exec);
  void note_launched(ProgramExec& exec, Variant& launched, StreamKey key, hipStream_t stream, hipError_t result);
  void disown(Variant& variant) noexcept;
  void release(std::unique_ptr<ProgramExec> exec, Variants::Retired* retired);
  static void let_go_of_objects(ProgramExec& exec);
  void note_binding(ProgramExec& exec);
  static void look_for_stale(ProgramExec& exec) noexcept;
  static void note_allocations(ProgramExec& exec) noexcept;
  hipError_t leave_ring(ProgramExec& exec, StreamKey key, hipStream_t stream, bool* ordered);
  bool stop_waiting(ProgramExec& exec, StreamKey key, hipStream_t stream, bool* ordered);
  bool over_limit() const noexcept;
  std::size_t recording_to_drop() const noexcept;
  void trim_recordings(Variants::Retired* retired);
  void drop_outdated(Variants::Retired* retired);
  void drop_recording(std::size_t which, const char* why, Variants::Retired* retired);
  static RecordingReport report_of(const Recording& recording);
  void prune_tree() noexcept;
  /// The exec has been given a binding as a whole: what was set in it before tells nothing.
  static void forget_sets(ProgramExec& exec) noexcept { exec.sets.reset(); }
  static bool must_stay(ProgramExec& exec);
  void evict_due();
  /// A graph of an exec's own recording that the program updates it by.
  struct UpdateBy {
    hipGraph_t graph = nullptr;
    bool real = false;    ///< the runtime has it
    bool native = false;  ///< *out: the program's own call was made
  };
  hipError_t rebind(ProgramExec& exec, const Binding& binding, UpdateBy* by);
  hipError_t update_own(ProgramExec& exec, const Binding& binding, UpdateBy* by);
  hipError_t switch_to(ProgramExec& exec, const Variants::Served& served, const Binding& binding);
  /// A node that the program sets in an exec, and what it sets there.
  struct NodeSet {
    hipGraphNode_t node;
    std::uint32_t index;  ///< of its operation
    const Operation& operation;
    const Binding& payload;
    ExecSets::Print change;  ///< of the binding's fingerprint
  };
  bool set_known(ProgramExec& exec, hipGraphNode_t node, std::uint32_t index, Describe describe,
                 NativeExecNodeCall forward, hipError_t* result);
  bool keeps_sets(ProgramExec& exec) const;
  bool serve_set(ProgramExec& exec, const NodeSet& set);
  bool note_set(ProgramExec& exec, const NodeSet& set);
  bool set_natively(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward, hipError_t* result);
  hipError_t give_noted(ProgramExec& exec);
  hipError_t give_noted_to(ProgramExec& exec);
  hipError_t move_to(ProgramExec& exec, Recording& recording, const Binding& binding);
  /// A real graph by which the program updates an exec that no recording serves.
  struct NativeUpdate {
    hipGraph_t graph = nullptr;
    HeldRecording recording;  ///< what it is; none: not known
    const Binding* binding;   ///< of that; null: not known, or its memory is not what it was made over
    bool plain = false;       ///< not known, but a capture that nobody has looked into, or changed since
  };
  hipError_t update_natively(ProgramExec& exec, NativeUpdate by, hipGraphNode_t* error_node,
                             hipGraphExecUpdateResult* result);
  hipError_t update_found(hipGraphExec_t handle, ProgramExec* exec, hipGraph_t graph, TrackedGraph* known,
                          hipGraphNode_t* error_node, hipGraphExecUpdateResult* result);
  hipError_t update_unfollowed(ProgramExec& exec, hipGraph_t graph, hipGraphNode_t* error_node,
                               hipGraphExecUpdateResult* result);
  bool may_serve_again(const ProgramExec& exec, const NativeUpdate& by) noexcept;
  void serve_again(ProgramExec& exec, NativeUpdate by, std::uint64_t memory_freed_before);
  bool is_outdated(const Recording& recording) noexcept;
  hipError_t taint(ProgramExec& exec);
  hipError_t bring_up_to_date(ProgramExec& exec, Variant& own);

  GraphSettings settings_;
  mutable Variants::Lock lock_;
  Variants variants_{lock_, settings_};
  PrefixTree tree_;
  std::size_t walks_ = 0;
  std::size_t left_ = 0, left_bytes_ = 0;  ///< recordings gone of which the tree still has the nodes
  std::uint64_t clock_ = 0;
  std::uint64_t last_number_ = 0;
  std::size_t recording_bytes_ = 0;
  std::size_t outdated_ = 0;  ///< recordings that are only kept because the program's graphs and execs refer to them
  std::vector<std::unique_ptr<Recording>> recordings_;
  Returns returns_;
  TrackedGraphs known_{lock_};
  HandleTable<ProgramExec> execs_;
  UnstagedExecs unstaged_;
  Totals totals_;
  std::deque<RecordingReport> dropped_;  ///< where there is a report
  ReasonCounts refusals_, left_to_runtime_;
  OwnedCount instantiates_, updates_, launches_;
};

/// What HIP says of the stream where there is nothing to be put into it. The streams without a handle of their own are
/// always good; hipStreamGetFlags does not take all of them.
hipError_t judge_stream(hipStream_t stream) noexcept;

/// Whether the program has destroyed the stream, so that the runtime must be left to refuse the launch before anything
/// is made for it: the runtime's execs have streams of their own, and one of those may get the handle.
bool stream_is_gone(hipStream_t stream) noexcept;

/// Instantiates, and updates of execs that are not known, by graphs of captures that were left alone: they went
/// straight to the runtime.
inline constinit OwnedCount g_passed_instantiates, g_passed_updates;

/// The process's. Never destroyed.
Graphs& graphs() noexcept;

}  // namespace graphpool
