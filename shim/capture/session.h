// session.h: one open capture. See capture.h for its life; this is the state behind it. Guarded by its own lock.
//
// Objects are used again for later captures and never freed: a thread may look at a session it fed before, under its
// lock, and sees by the serial whether it is still that capture. In a shell an operation costs a compare and a copy of
// its payload: no allocation, and no call of the runtime but after one that may have invalidated the capture.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shim/base/owner_lock.h"
#include "shim/capture/capture.h"
#include "shim/costs/keyed_row.h"
#include "shim/hip/hip_version.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/prefix_tree.h"

namespace graphpool {

class HeldTemplate;
struct KnownGraph;

/// The first version that captures kernels by whatever function they are launched: before, hipLaunchKernel only (probe
/// module_launch_is_captured).
inline constexpr int kCapturesAllLaunches = hip_version(5, 3);

/// Gives the calling thread a number, which no other thread ever gets, and returns it.
std::uintptr_t name_thread() noexcept;
/// The calling thread's number; 0 until name_thread() has given it one.
extern constinit thread_local std::uintptr_t t_thread __attribute__((tls_model("initial-exec")));
inline std::uintptr_t calling_thread() noexcept { return t_thread != 0 ? t_thread : name_thread(); }

class CaptureSession {
 public:
  struct Stream {
    StreamKey key;
    hipStream_t handle;
    int device;
    std::vector<std::uint32_t> tail;  ///< what the next operation depends on: operation indices, in the runtime's order
    bool left = false;                ///< the runtime captures it no more, or in another capture
    bool issued_elsewhere = false;    ///< what was withheld of it reached the runtime by another stream
    bool destroyed = false;           ///< by the program, and another may take its place
    StreamKey joined_from = 0;        ///< the stream of the event that made it take part; 0: the origin
    std::vector<hipGraphNode_t> told{};  ///< the handles that the program was told for `tail`

    /// Whether the calling thread can name it to the runtime.
    bool nameable() const noexcept { return !is_other_threads_own(key); }
  };
  struct Event {
    hipEvent_t handle;
    StreamKey stream;  ///< it was recorded on
    std::vector<std::uint32_t> tail;
    bool recorded_in_shell;  ///< the runtime knows it without nodes
  };

  /// How a capture that has begun is followed.
  enum class Mode : std::uint8_t {
    kRecord,   ///< it is recorded
    kCompare,  ///< it is a shell: compared with the tree
    kVerify,   ///< it is recorded, and the tree walked beside it
  };
  /// Sets up for a capture that has begun. `begin`: where such captures start in the tree; null: nowhere. `place`:
  /// whose call began it.
  void start(StreamArgument origin, const Signature& begin_signature, TreeNode* begin, Mode mode, const void* place);
  /// The mode it was begun in, and the token of the thread that did.
  void begun_in(hipStreamCaptureMode mode) noexcept { capture_mode_ = mode; }
  hipStreamCaptureMode capture_mode() const noexcept { return capture_mode_; }
  const void* begun_by() const noexcept { return thread_; }
  /// When it began, for the trace; 0: it is not traced.
  std::uint64_t began() const noexcept { return began_; }
  /// The device that was current when the capture began, asked for when g_device_changes was this.
  void know_device(int device, std::uint64_t changes) noexcept {
    device_ = device;
    device_changes_seen_ = changes;
  }
  /// The capture is over: nobody finds it any more. Takes kTemplates where it held the tree.
  void close() noexcept;
  /// Lets go of the tree before the capture is over. Takes kTemplates where it held that.
  void leave_tree(const char* why);
  /// Nobody refers to the capture: lets go of what it held.
  void reset() noexcept;
  /// Which capture this is; 0: none that is open.
  std::uint64_t serial() const noexcept { return serial_; }

  hipError_t operation(StreamKey key, StreamArgument stream, Describe describe, Forward forward);
  /// The same for a launch that is what the tree says came last time; else false, and nothing was done.
  bool take_launch(const KernelLaunch& launch);
  /// `of_another`: it has been recorded in another capture, which is open.
  hipError_t record(StreamKey key, hipEvent_t event, bool of_another, Forward forward);
  hipError_t wait(StreamKey key, StreamArgument stream, hipEvent_t event, Forward forward);

  // What the program asks of the graph of the open capture (told_graph.cpp).

  /// Tells the capture's graph and the last nodes of a stream. In a shell it tells handles of the library's own, which
  /// stay valid when the capture ends or becomes real.
  hipError_t tell(StreamKey key, const CaptureQuestion& asked, Forward forward);
  hipError_t update_dependencies(StreamKey key, hipStream_t stream, const NamedNodes& named,
                                 NativeDependencies forward);
  /// A node added by the graph's handle: it belongs to no stream.
  hipError_t add_node(const AddedNode& added, Describe describe, NativeCapturedAdd forward);
  /// A call on the graph that changes neither it nor its nodes, but what it holds on to.
  hipError_t hold_objects(NativeGraphCall forward);
  /// Whether the program knows the capture's graph by this handle, or a node of it by that.
  bool told_graph(hipGraph_t graph) const noexcept;
  bool told_node(hipGraphNode_t node) const noexcept;
  /// The graph whose handle the program was told while the capture was a shell; null: there is none.
  const std::shared_ptr<KnownGraph>& told_as() const noexcept { return told_as_; }
  std::shared_ptr<KnownGraph> take_told() noexcept { return std::move(told_as_); }
  /// The graph holds on to user objects.
  bool holds_objects() const noexcept { return holds_objects_; }

  /// Makes the capture real and keeps it so. The reason goes to the report.
  void expose(const char* why);
  /// Before the runtime is given something of the stream, or asked about it.
  void follow_on(StreamKey key);
  /// Never a template from here on, for this reason (the first one stays).
  void spoil(const char* why);
  /// The stream has begun another capture: nothing of this one reaches it any more, and no thread that fed this one
  /// through it takes it for that one.
  void stream_left(StreamKey key);
  /// The stream is about to be destroyed.
  void stream_destroyed(StreamKey key);
  /// The calling thread, whose own stream that is, ends. No call of the runtime is made.
  void thread_ended(StreamKey key) noexcept;
  void event_destroyed(hipEvent_t event);
  /// It stands for nothing of this capture any more, but the runtime has noted it on a stream of it.
  void event_recorded_elsewhere(hipEvent_t event);

  bool has_stream(StreamKey key) noexcept { return streams_.find(key) != nullptr; }
  bool is_origin(StreamKey key) const noexcept { return streams_.front().key == key; }
  bool shell() const noexcept { return cursor_ != nullptr; }
  /// Of a shell: whether it has withheld such an operation.
  bool withholds(OperationTest test) const;
  /// Whether it has such an operation, withheld or not.
  bool has(OperationTest test) const;
  bool knows_event(hipEvent_t event) noexcept { return events_.find(event) != nullptr; }
  /// Whether it has been recorded in this capture, whatever was done with it since.
  bool has_noted(hipEvent_t event) noexcept { return knows_event(event) || noted_elsewhere(event); }

  /// At the end, after a forwarded hipStreamEndCapture that gave `graph`. A shell: whether the runtime's graph is
  /// empty, as it must be. A real one: whether every node of it is what was recorded.
  bool shell_is_empty(hipGraph_t graph) const;
  bool matches(hipGraph_t graph, const char** why, std::uint32_t* which) const;

  /// A shell at its end: the recording it matched, or null.
  HeldTemplate matched_end();
  /// A verified capture at its end: the recording a shell would have matched, or null.
  HeldTemplate expected_template() const;

  /// Adds the end of the recording; then it may be taken.
  void finish_recording();
  const std::vector<Operation>& operations() const noexcept { return operations_; }
  hipGraphNode_t node(std::uint32_t operation) const noexcept { return nodes_[operation]; }
  Recording take_recording() { return {std::move(operations_), std::move(binding_), std::move(nodes_), memory_freed_}; }
  Binding& binding() noexcept { return binding_; }
  const void* place() const noexcept { return place_; }
  /// The program's graph that is captured into, by its handle; null: a new one.
  void goes_into(hipGraph_t graph) noexcept { into_ = graph; }
  hipGraph_t into() const noexcept { return into_; }

  void make_real_if_spoilt() {
    if (shell() && spoilt_ != nullptr && !invalid_) materialise(spoilt_);
  }
  /// `own`: the program's operation that the recording does not have.
  void materialise(const char* why, const Signature* own = nullptr);
  /// Makes the shell real at an operation that differs. The operation's payload begins at `offset` in the binding. It
  /// is not issued, and stays in the binding.
  void materialise_before(std::size_t offset, const char* why, const Signature& own);
  /// Makes the program's call for an operation whose payload begins at `offset`. If it fails, the payload is dropped
  /// and the capture is spoilt.
  hipError_t forward_noted(std::size_t offset, Forward forward);
  /// The runtime has ended the capture: another thread that still finds it must not make it real any more.
  void leave_shell() noexcept { cursor_ = nullptr; }
  /// Why this capture cannot become a template; null while it can.
  const char* spoilt() const noexcept { return spoilt_; }
  /// True once the program may know the graph of this capture.
  bool exposed() const noexcept { return exposed_ || told_ || into_ != nullptr; }
  /// Why it was made real; `why` is null when it never was a shell or still is.
  const Materialisation& materialised() const noexcept { return materialised_; }
  /// Operations the program was told had succeeded are gone: the capture must end as invalidated.
  bool lost() const noexcept { return lost_; }
  /// The runtime ran a kernel that was to be captured: in this capture, or it is known to.
  bool ran_at_once() const noexcept { return ran_at_once_; }
  void leave_to_runtime() {
    ran_at_once_ = true;
    spoil("the runtime runs a captured kernel at once");
  }

  /// Owned by the thread that feeds the capture now.
  OwnerLock<LockRank::kCapture>& lock() noexcept { return lock_; }

 private:
  void note_thread(StreamKey stream);
  void note_overlap(StreamKey stream);
  Signature signature_on(const Stream& stream);
  void forget_stream(StreamKey key) noexcept;
  bool noted_elsewhere(hipEvent_t event) const noexcept;
  Stream& add_stream(Stream stream);
  bool joined_others(StreamKey key) noexcept;
  void note_told();
  void forget_told() noexcept;
  bool know_graph_of_runtime();
  bool operations_of(const NamedNodes& named, std::vector<std::uint32_t>* operations);
  void follow_dependencies(Stream& stream, const std::vector<std::uint32_t>& named, unsigned flags);
  hipError_t update_unfollowed(const NamedNodes& named, NativeDependencies forward);
  void tell_as_known(Stream& where, const CaptureQuestion& asked);
  void check_status();
  bool set_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& tail);
  bool set_after_wait(hipStream_t stream, const std::vector<hipGraphNode_t>* before,
                      const std::vector<std::uint32_t>& operations);
  bool add_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& operations);
  hipGraphNode_t last_node(hipStream_t stream) const;
  bool comes_behind(hipStream_t stream, const std::vector<std::uint32_t>& tail) const;
  bool made_no_node(hipGraphNode_t last, hipStream_t stream, const std::vector<std::uint32_t>& tail) const;
  hipError_t forward_watched(hipStream_t stream, Forward forward);
  void add_operation(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                     std::vector<std::uint32_t> after, hipGraphNode_t node);
  /// Takes one step in the tree. Null: no such child; the caller makes the capture real.
  TreeNode* step(const Signature& signature);
  TreeNode* child_of(const TreeNode& at, const Signature& signature) const;
  /// The same beside a real capture that is to be verified.
  void expect(const Signature& signature, const std::vector<std::uint32_t>* after = nullptr);
  int device() noexcept;

  OwnerLock<LockRank::kCapture> lock_;
  std::uint64_t serial_ = 0;
  std::uint64_t began_ = 0;
  const void* thread_ = nullptr;  ///< the token of the thread that began it
  hipStreamCaptureMode capture_mode_ = hipStreamCaptureModeGlobal;
  KeyedRow<Stream, &Stream::key> streams_;  ///< the first one is the origin
  KeyedRow<Event, &Event::handle> events_;
  std::vector<hipEvent_t> elsewhere_;  ///< noted here once, then recorded elsewhere
  Binding binding_;

  TreeNode* cursor_ = nullptr;    ///< shell: the last node matched; what was matched before are its parents
  TreeNode* begin_ = nullptr;     ///< where the shell began
  TreeNode* expected_ = nullptr;  ///< verified: where a shell would be

  std::vector<Operation> operations_;  ///< real: what was recorded, beginning included
  std::vector<hipGraphNode_t> nodes_;  ///< real: the node of each operation, null for those without
  bool walks_ = false;                 ///< it holds the tree
  const void* place_ = nullptr;
  hipGraph_t into_ = nullptr;
  hipGraph_t graph_ = nullptr;  ///< the runtime's, once it was asked for
  std::shared_ptr<KnownGraph> told_as_;
  bool told_ = false;  ///< the program knows the graph, or nodes of it
  bool holds_objects_ = false;
  const char* spoilt_ = nullptr;
  Materialisation materialised_;
  bool exposed_ = false;
  bool lost_ = false;
  bool ran_at_once_ = false;
  std::uint64_t memory_freed_ = 0;       ///< memory_freed() when it began
  std::uint64_t doubts_seen_ = 0;        ///< g_capture_doubts when the runtime was last asked
  bool invalid_ = false;                 ///< the runtime has invalidated the capture: everything is forwarded
  std::vector<std::uintptr_t> threads_;  ///< those that fed it, by calling_thread()
  std::uint16_t thread_now_ = 0;         ///< which of them it was last
  StreamKey stream_fed_ = 0;             ///< by that one, last
  int device_ = -1;                      ///< that thread's current device; -1: not asked yet
  std::uint64_t device_changes_seen_ = 0;
};

/// The capture that a stream takes part in, or null; all that are open and followed.
std::shared_ptr<CaptureSession> find_open_capture(StreamKey key);
std::vector<std::shared_ptr<CaptureSession>> all_open_captures();

/// The capture this thread fed last, so that the next operation finds it without the list. Valid while the serial is.
struct Fed {
  StreamKey stream;
  CaptureSession* session;
  std::uint64_t serial;
};
extern constinit thread_local Fed t_fed __attribute__((tls_model("initial-exec")));

}  // namespace graphpool
