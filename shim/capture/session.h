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

class HeldRecording;
class TrackedGraph;

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
  void start(StreamArgument origin, const Signature& begin_signature, TreeNode* begin, Mode mode, const void* place)
      REQUIRES(lock_);
  /// The mode it was begun in, and the token of the thread that did.
  void begun_in(hipStreamCaptureMode mode) noexcept REQUIRES(lock_) { capture_mode_ = mode; }
  hipStreamCaptureMode capture_mode() const noexcept REQUIRES(lock_) { return capture_mode_; }
  const void* begun_by() const noexcept REQUIRES(lock_) { return thread_; }
  /// When it began, for the trace; 0: it is not traced.
  std::uint64_t began() const noexcept { return began_; }
  /// The device that was current when the capture began, asked for when g_device_changes was this.
  void know_device(int device, std::uint64_t changes) noexcept REQUIRES(lock_) {
    device_ = device;
    device_changes_seen_ = changes;
  }
  /// The capture is over: nobody finds it any more. Takes kRecordings where it held the tree.
  void close() noexcept REQUIRES(lock_);
  /// Lets go of the tree before the capture is over. Takes kRecordings where it held that.
  void leave_tree(const char* why) REQUIRES(lock_);
  /// Nobody refers to the capture: lets go of what it held.
  void reset() noexcept REQUIRES(lock_);
  /// Which capture this is; 0: none that is open.
  std::uint64_t serial() const noexcept REQUIRES(lock_) { return serial_; }

  hipError_t operation(StreamKey key, StreamArgument stream, Describe describe, Forward forward) REQUIRES(lock_);
  /// The same for a launch that is what the tree says came last time; else false, and nothing was done.
  bool take_launch(const KernelLaunch& launch) REQUIRES(lock_);
  /// `of_another`: it has been recorded in another capture, which is open.
  hipError_t record(StreamKey key, hipEvent_t event, bool of_another, Forward forward) REQUIRES(lock_);
  hipError_t wait(StreamKey key, StreamArgument stream, hipEvent_t event, Forward forward) REQUIRES(lock_);

  // What the program asks of the graph of the open capture (told_graph.cpp).

  /// Tells the capture's graph and the last nodes of a stream. In a shell it tells handles of the library's own, which
  /// stay valid when the capture ends or becomes real.
  hipError_t tell(StreamKey key, const CaptureQuestion& asked, Forward forward) REQUIRES(lock_);
  hipError_t update_dependencies(StreamKey key, hipStream_t stream, const NamedNodes& named, NativeDependencies forward)
      REQUIRES(lock_);
  /// A node added by the graph's handle: it belongs to no stream.
  hipError_t add_node(const AddedNode& added, Describe describe, NativeCapturedAdd forward) REQUIRES(lock_);
  /// A call on the graph that changes neither it nor its nodes, but what it holds on to.
  hipError_t hold_objects(NativeGraphCall forward) REQUIRES(lock_);
  /// Whether the program knows the capture's graph by this handle, or a node of it by that.
  bool told_graph(hipGraph_t graph) const noexcept REQUIRES(lock_);
  bool told_node(hipGraphNode_t node) const noexcept REQUIRES(lock_);
  /// The graph whose handle the program was told while the capture was a shell; null: there is none.
  const std::shared_ptr<TrackedGraph>& told_as() const noexcept REQUIRES(lock_) { return told_as_; }
  std::shared_ptr<TrackedGraph> take_told() noexcept REQUIRES(lock_) { return std::move(told_as_); }
  /// The graph holds on to user objects.
  bool holds_objects() const noexcept REQUIRES(lock_) { return holds_objects_; }

  /// Makes the capture real and keeps it so. The reason goes to the report.
  void expose(const char* why) REQUIRES(lock_);
  /// Before the runtime is given something of the stream, or asked about it.
  void follow_on(StreamKey key) REQUIRES(lock_);
  /// Never a recording from here on, for this reason (the first one stays).
  void spoil(const char* why) REQUIRES(lock_);
  /// The stream has begun another capture: nothing of this one reaches it any more, and no thread that fed this one
  /// through it takes it for that one.
  void stream_left(StreamKey key) REQUIRES(lock_);
  /// The stream is about to be destroyed.
  void stream_destroyed(StreamKey key) REQUIRES(lock_);
  /// The calling thread, whose own stream that is, ends. No call of the runtime is made.
  void thread_ended(StreamKey key) noexcept REQUIRES(lock_);
  void event_destroyed(hipEvent_t event) REQUIRES(lock_);
  /// It stands for nothing of this capture any more, but the runtime has noted it on a stream of it.
  void event_recorded_elsewhere(hipEvent_t event) REQUIRES(lock_);

  bool has_stream(StreamKey key) noexcept REQUIRES(lock_) { return streams_.find(key) != nullptr; }
  bool is_origin(StreamKey key) const noexcept REQUIRES(lock_) { return streams_.front().key == key; }
  bool shell() const noexcept REQUIRES(lock_) { return cursor_ != nullptr; }
  /// Of a shell: whether it has withheld such an operation.
  bool withholds(OperationTest test) const REQUIRES(lock_);
  /// Whether it has such an operation, withheld or not.
  bool has(OperationTest test) const REQUIRES(lock_);
  bool knows_event(hipEvent_t event) noexcept REQUIRES(lock_) { return events_.find(event) != nullptr; }
  /// Whether it has been recorded in this capture, whatever was done with it since.
  bool has_noted(hipEvent_t event) noexcept REQUIRES(lock_) { return knows_event(event) || noted_elsewhere(event); }

  /// At the end, after a forwarded hipStreamEndCapture that gave `graph`. A shell: whether the runtime's graph is
  /// empty, as it must be. A real one: whether every node of it is what was recorded.
  bool shell_is_empty(hipGraph_t graph) const REQUIRES(lock_);
  bool matches(hipGraph_t graph, const char** why, std::uint32_t* which) const REQUIRES(lock_);

  /// A shell at its end: the recording it matched, or null.
  HeldRecording matched_end() REQUIRES(lock_);
  /// A verified capture at its end: the recording a shell would have matched, or null.
  HeldRecording expected_recording() const REQUIRES(lock_);

  /// Adds the end of the recording; then it may be taken.
  void finish_recording() REQUIRES(lock_);
  const std::vector<Operation>& operations() const noexcept REQUIRES(lock_) { return operations_; }
  hipGraphNode_t node(std::uint32_t operation) const noexcept REQUIRES(lock_) { return nodes_[operation]; }
  RecordedCapture take_recorded() REQUIRES(lock_) {
    return {std::move(operations_), std::move(binding_), std::move(nodes_), memory_freed_};
  }
  Binding& binding() noexcept REQUIRES(lock_) { return binding_; }
  const void* place() const noexcept REQUIRES(lock_) { return place_; }
  /// The program's graph that is captured into, by its handle; null: a new one.
  void goes_into(hipGraph_t graph) noexcept { into_ = graph; }
  hipGraph_t into() const noexcept { return into_; }

  void make_real_if_spoilt() REQUIRES(lock_) {
    if (shell() && spoilt_ != nullptr && !invalid_) materialise(spoilt_);
  }
  /// `own`: the program's operation that the recording does not have.
  void materialise(const char* why, const Signature* own = nullptr) REQUIRES(lock_);
  /// Makes the shell real at an operation that differs. The operation's payload begins at `offset` in the binding. It
  /// is not issued, and stays in the binding.
  void materialise_before(std::size_t offset, const char* why, const Signature& own) REQUIRES(lock_);
  /// Makes the program's call for an operation whose payload begins at `offset`. If it fails, the payload is dropped
  /// and the capture is spoilt.
  hipError_t forward_noted(std::size_t offset, Forward forward) REQUIRES(lock_);
  /// The runtime has ended the capture: another thread that still finds it must not make it real any more.
  void leave_shell() noexcept REQUIRES(lock_) { cursor_ = nullptr; }
  /// Why this capture cannot become a recording; null while it can.
  const char* spoilt() const noexcept REQUIRES(lock_) { return spoilt_; }
  /// True once the program may know the graph of this capture.
  bool exposed() const noexcept REQUIRES(lock_) { return exposed_ || told_ || into_ != nullptr; }
  /// Why it was made real; `why` is null when it never was a shell or still is.
  const Materialisation& materialised() const noexcept REQUIRES(lock_) { return materialised_; }
  /// Operations the program was told had succeeded are gone: the capture must end as invalidated.
  bool lost() const noexcept REQUIRES(lock_) { return lost_; }
  /// The runtime ran a kernel that was to be captured: in this capture, or it is known to.
  bool ran_at_once() const noexcept REQUIRES(lock_) { return ran_at_once_; }
  void leave_to_runtime() REQUIRES(lock_) {
    ran_at_once_ = true;
    spoil("the runtime runs a captured kernel at once");
  }

  /// Owned by the thread that feeds the capture now.
  OwnerLock<LockRank::kCapture>& lock() noexcept RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  void note_thread(StreamKey stream) REQUIRES(lock_);
  void note_overlap(StreamKey stream) REQUIRES(lock_);
  Signature signature_on(const Stream& stream) REQUIRES(lock_);
  void forget_stream(StreamKey key) noexcept REQUIRES(lock_);
  bool noted_elsewhere(hipEvent_t event) const noexcept REQUIRES(lock_);
  Stream& add_stream(Stream stream) REQUIRES(lock_);
  bool joined_others(StreamKey key) noexcept REQUIRES(lock_);
  void note_told() REQUIRES(lock_);
  void forget_told() noexcept REQUIRES(lock_);
  bool know_graph_of_runtime() REQUIRES(lock_);
  bool operations_of(const NamedNodes& named, std::vector<std::uint32_t>* operations) REQUIRES(lock_);
  void follow_dependencies(Stream& stream, const std::vector<std::uint32_t>& named, unsigned flags) REQUIRES(lock_);
  hipError_t update_unfollowed(const NamedNodes& named, NativeDependencies forward) REQUIRES(lock_);
  void tell_as_known(Stream& where, const CaptureQuestion& asked) REQUIRES(lock_);
  void check_status() REQUIRES(lock_);
  bool set_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& tail) REQUIRES(lock_);
  bool set_after_wait(hipStream_t stream, const std::vector<hipGraphNode_t>* before,
                      const std::vector<std::uint32_t>& operations) REQUIRES(lock_);
  bool add_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& operations) REQUIRES(lock_);
  hipGraphNode_t last_node(hipStream_t stream) const REQUIRES(lock_);
  bool comes_behind(hipStream_t stream, const std::vector<std::uint32_t>& tail) const REQUIRES(lock_);
  bool made_no_node(hipGraphNode_t last, hipStream_t stream, const std::vector<std::uint32_t>& tail) const
      REQUIRES(lock_);
  hipError_t forward_watched(hipStream_t stream, Forward forward) REQUIRES(lock_);
  void add_operation(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                     std::vector<std::uint32_t> after, hipGraphNode_t node) REQUIRES(lock_);
  /// Takes one step in the tree. Null: no such child; the caller makes the capture real.
  TreeNode* step(const Signature& signature) REQUIRES(lock_);
  TreeNode* child_of(const TreeNode& at, const Signature& signature) const REQUIRES(lock_);
  /// The same beside a real capture that is to be verified.
  void expect(const Signature& signature, const std::vector<std::uint32_t>* after = nullptr) REQUIRES(lock_);
  int device() noexcept REQUIRES(lock_);

  OwnerLock<LockRank::kCapture> lock_;
  std::uint64_t serial_ GUARDED_BY(lock_) = 0;
  std::uint64_t began_ = 0;                         ///< set before anybody else knows the capture
  const void* thread_ GUARDED_BY(lock_) = nullptr;  ///< the token of the thread that began it
  hipStreamCaptureMode capture_mode_ GUARDED_BY(lock_) = hipStreamCaptureModeGlobal;
  KeyedRow<Stream, &Stream::key> streams_ GUARDED_BY(lock_);  ///< the first one is the origin
  KeyedRow<Event, &Event::handle> events_ GUARDED_BY(lock_);
  std::vector<hipEvent_t> elsewhere_ GUARDED_BY(lock_);  ///< noted here once, then recorded elsewhere
  Binding binding_ GUARDED_BY(lock_);

  /// Shell: the last node matched; what was matched before are its parents.
  TreeNode* cursor_ GUARDED_BY(lock_) = nullptr;
  TreeNode* begin_ GUARDED_BY(lock_) = nullptr;     ///< where the shell began
  TreeNode* expected_ GUARDED_BY(lock_) = nullptr;  ///< verified: where a shell would be

  std::vector<Operation> operations_ GUARDED_BY(lock_);  ///< real: what was recorded, beginning included
  std::vector<hipGraphNode_t> nodes_ GUARDED_BY(lock_);  ///< real: the node of each operation, null for those without
  bool walks_ GUARDED_BY(lock_) = false;                 ///< it holds the tree
  const void* place_ GUARDED_BY(lock_) = nullptr;
  hipGraph_t into_ = nullptr;                     ///< set before anybody else can find the capture
  hipGraph_t graph_ GUARDED_BY(lock_) = nullptr;  ///< the runtime's, once it was asked for
  std::shared_ptr<TrackedGraph> told_as_ GUARDED_BY(lock_);
  bool told_ GUARDED_BY(lock_) = false;  ///< the program knows the graph, or nodes of it
  bool holds_objects_ GUARDED_BY(lock_) = false;
  const char* spoilt_ GUARDED_BY(lock_) = nullptr;
  Materialisation materialised_ GUARDED_BY(lock_);
  bool exposed_ GUARDED_BY(lock_) = false;
  bool lost_ GUARDED_BY(lock_) = false;
  bool ran_at_once_ GUARDED_BY(lock_) = false;
  std::uint64_t memory_freed_ GUARDED_BY(lock_) = 0;  ///< memory_freed() when it began
  std::uint64_t doubts_seen_ GUARDED_BY(lock_) = 0;   ///< g_capture_doubts when the runtime was last asked
  bool invalid_ GUARDED_BY(lock_) = false;  ///< the runtime has invalidated the capture: everything is forwarded
  std::vector<std::uintptr_t> threads_ GUARDED_BY(lock_);  ///< those that fed it, by calling_thread()
  std::uint16_t thread_now_ GUARDED_BY(lock_) = 0;         ///< which of them it was last
  StreamKey stream_fed_ GUARDED_BY(lock_) = 0;             ///< by that one, last
  int device_ GUARDED_BY(lock_) = -1;                      ///< that thread's current device; -1: not asked yet
  std::uint64_t device_changes_seen_ GUARDED_BY(lock_) = 0;
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
