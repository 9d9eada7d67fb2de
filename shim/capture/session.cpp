#include "shim/capture/session.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/capture/capture_sink.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/recording.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/functions.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/mismatch.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/reissue.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

namespace {

/// Adds the indices of `more` that `tail` lacks, behind its own.
void merge(std::vector<std::uint32_t>& tail, const std::vector<std::uint32_t>& more) {
  for (const std::uint32_t index : more)
    if (std::find(tail.begin(), tail.end(), index) == tail.end()) tail.push_back(index);
}

/// A call of ours that must not fail because one did: made once more.
template <typename Call>
bool made(Call&& call) {
  return call() || call();
}

/// Whether the runtime still captures what the stream is given: each stream has a status of its own (probe
/// capture_can_be_asked_for). Of a thread's own stream only that thread can ask.
bool takes_part(const CaptureSession::Stream& stream) noexcept {
  if (stream.left) return false;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  return PrivateCalls::answered([&] { return next().hipStreamIsCapturing(stream.handle, &status); }) &&
         status == hipStreamCaptureStatusActive;
}

/// What a stream's next operation comes behind in the runtime (probe capture_names_its_last_node). Valid until the
/// stream is given something.
struct Dependencies {
  bool known = false;  ///< false: the stream does not capture, or the runtime does not say
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
};
/// What it leaves in the last error is the caller's.
Dependencies dependencies_of(hipStream_t stream) noexcept {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  Dependencies found;
  found.known =
      next().hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &found.nodes, &found.count) == hipSuccess &&
      status == hipStreamCaptureStatusActive;
  return found;
}

/// Copies the nodes that the stream's next operation depends on. Returns false where the runtime does not tell them.
bool nodes_before(hipStream_t stream, std::vector<hipGraphNode_t>* nodes) {
  const LastErrorScope last_error;
  const Dependencies found = dependencies_of(stream);
  if (found.known) nodes->assign(found.nodes, found.nodes + found.count);
  return found.known;
}

/// Lets the stream come behind these nodes and no others. Nodes that are replaced the runtime takes for joined as long
/// as the stream lives, and every later node at such an address: only what differs is touched.
bool replace_dependencies(hipStream_t stream, std::vector<hipGraphNode_t>& nodes) noexcept {
  const Dependencies present = dependencies_of(stream);
  const bool more = present.known && present.count <= nodes.size() &&
                    std::equal(present.nodes, present.nodes + present.count, nodes.begin());
  const std::size_t there = more ? present.count : 0;
  if (more && there == nodes.size()) return true;
  return next().hipStreamUpdateCaptureDependencies(
             stream, nodes.data() + there, nodes.size() - there,
             more ? hipStreamAddCaptureDependencies : hipStreamSetCaptureDependencies) == hipSuccess;
}

/// Adds a node again that the program had added by the graph's handle.
bool add_again(const Operation& operation, const Binding& binding, hipGraph_t graph,
               const std::vector<hipGraphNode_t>& nodes, hipGraphNode_t* node) {
  std::vector<hipGraphNode_t> after;
  for (const std::uint32_t index : operation.after) after.push_back(nodes[index]);
  return made([&] { return add_to_graph(operation, binding, graph, after, node) == hipSuccess; });
}

/// A stream of our own that takes part in a capture, made when it is first asked for. What is given to it leaves no
/// trace in the stream it was forked from: the runtime takes nodes that the origin has let go of for joined.
class CapturedStream {
 public:
  CapturedStream() = default;
  CapturedStream(const CapturedStream&) = delete;
  CapturedStream& operator=(const CapturedStream&) = delete;
  ~CapturedStream() {
    if (event_ != nullptr)
      static_cast<void>(PrivateCalls::worked([&] { return next().hipEventDestroy(no_longer_private(event_)); }));
    if (stream_ != nullptr)
      static_cast<void>(PrivateCalls::worked([&] { return next().hipStreamDestroy(no_longer_private(stream_)); }));
  }
  /// Forked from one that takes part. Null where the runtime refuses. The device is the current one.
  hipStream_t from(hipStream_t forked_from) {
    if (stream_ != nullptr) return stream_;
    if (!PrivateCalls::worked(
            [&] { return made_private(next().hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking), &stream_); }))
      return stream_ = nullptr;
    if (!PrivateCalls::worked(
            [&] { return made_private(next().hipEventCreateWithFlags(&event_, hipEventDisableTiming), &event_); }))
      return event_ = nullptr, nullptr;
    const bool joined = PrivateCalls::worked([&] { return next().hipEventRecord(event_, forked_from); }) &&
                        PrivateCalls::worked([&] { return next().hipStreamWaitEvent(stream_, event_, 0); });
    return joined ? stream_ : nullptr;
  }

 private:
  hipStream_t stream_ = nullptr;
  hipEvent_t event_ = nullptr;
};

/// So many streams and threads of a capture have a number in signatures, which have 16 bits for each.
constexpr std::size_t kMostStreams = kNoStream, kMostThreads = std::size_t{1} << 16;

std::uint64_t next_serial() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

int device_of(StreamArgument stream) noexcept {
  const hipStream_t handle = plain_handle(stream);
  if (handle == nullptr || handle == kStreamLegacy || handle == hipStreamPerThread) return calling_device();
  hipDevice_t device = -1;
  if (PrivateCalls::answered([&] { return next().hipStreamGetDevice(handle, &device); })) return device;
  // Not in the first releases. Where there is one device it is that.
  int devices = 0;
  return PrivateCalls::answered([&] { return next().hipGetDeviceCount(&devices); }) && devices == 1 ? 0 : -1;
}

void CaptureSession::start(StreamArgument origin, const Signature& begin_signature, TreeNode* begin, Mode mode,
                           const void* place) {
  thread_ = &t_thread_token;
  began_ = trace_begins();
  lock_.hand_over();
  threads_.assign(1, calling_thread());
  thread_now_ = 0;
  begin_ = begin;
  cursor_ = mode == Mode::kCompare ? begin : nullptr;
  expected_ = mode == Mode::kVerify ? begin : nullptr;
  walks_ = begin != nullptr;
  place_ = place;
  memory_freed_ = memory_freed();
  doubts_seen_ = g_capture_doubts.load(std::memory_order_acquire);
  serial_ = next_serial();
  streams_.add({stream_key(origin), plain_handle(origin), node_device_of(begin_signature), {}});
  if (shell()) {
    binding_.reserve(begin->expected_bytes.load(std::memory_order_relaxed));
  } else {
    operations_.push_back({begin_signature, 0, {nullptr}, {}});
    nodes_.push_back(nullptr);
  }
}

void CaptureSession::close() noexcept {
  serial_ = 0;
  cursor_ = begin_ = expected_ = nullptr;
  if (std::exchange(walks_, false)) capture_sink().walk_ended();
}

void CaptureSession::leave_tree(const char* why) {
  if (shell()) materialise(why);
  begin_ = expected_ = nullptr;
  if (std::exchange(walks_, false)) capture_sink().walk_ended();
}

void CaptureSession::reset() noexcept {
  serial_ = 0;
  streams_.clear();
  events_.clear();
  elsewhere_.clear();
  binding_ = {};
  operations_ = {};
  nodes_ = {};
  cursor_ = begin_ = expected_ = nullptr;
  place_ = nullptr;
  into_ = nullptr;
  forget_told();
  walks_ = exposed_ = lost_ = ran_at_once_ = invalid_ = false;
  spoilt_ = nullptr;
  materialised_ = {};
  threads_.clear();
  stream_fed_ = 0;
  device_ = -1;
}

/// The calling thread's current device (rule 14). Every call that could change it while a capture is open is counted,
/// so the runtime is asked once for as long as one thread feeds the capture.
int CaptureSession::device() noexcept {
  const std::uint64_t changes = g_device_changes.load(std::memory_order_acquire);
  if (device_ < 0 || changes != device_changes_seen_) {
    device_ = calling_device();
    device_changes_seen_ = changes;
  }
  return device_;
}

void CaptureSession::spoil(const char* why) {
  if (spoilt_ == nullptr) spoilt_ = why;
}

void CaptureSession::expose(const char* why) {
  if (shell()) materialise(why);
  exposed_ = true;
  spoil(why);
}

/// Makes the capture no recording if another thread fed this stream while the caller waited to feed it: which of the
/// two operations came first was chance.
void CaptureSession::note_overlap(StreamKey stream) {
  if (stream_fed_ != stream || threads_[thread_now_] == calling_thread()) return;
  spoil("two threads feed one stream of the capture at the same time");
}

/// Notes that the calling thread feeds the stream now. Call it before each operation.
void CaptureSession::note_thread(StreamKey stream) {
  if (lock_.waited()) note_overlap(stream);
  make_real_if_spoilt();
  stream_fed_ = stream;
  if (threads_[thread_now_] == t_thread) [[likely]]
    return;
  const auto found = std::find(threads_.begin(), threads_.end(), calling_thread());
  thread_now_ = static_cast<std::uint16_t>(found - threads_.begin());
  if (found == threads_.end()) threads_.push_back(calling_thread());
  if (threads_.size() > kMostThreads) spoil("more threads feed the capture than have a number");
  device_ = -1;
  lock_.hand_over();
}

/// Returns a signature with the two fields that do not depend on the operation: the stream's number, and the number of
/// the thread that feeds the capture now.
Signature CaptureSession::signature_on(const Stream& stream) {
  Signature signature;
  const auto index = static_cast<std::size_t>(&stream - streams_.data());
  if (index >= kMostStreams) spoil("a capture of more streams than have a number");
  signature.stream = static_cast<std::uint16_t>(index);
  signature.thread = thread_now_;
  return signature;
}

/// Somebody may have made a call that invalidates captures: a withheld operation would hide it.
void CaptureSession::check_status() {
  const std::uint64_t doubts = g_capture_doubts.load(std::memory_order_acquire);
  if (doubts == doubts_seen_) return;
  doubts_seen_ = doubts;
  const auto may_take_part = [](const Stream& stream) {
    return stream.destroyed || (stream.nameable() ? takes_part(stream) : !stream.left);
  };
  const bool invalid = !may_take_part(streams_.front());
  const auto forks_taking_part = std::count_if(streams_.begin() + 1, streams_.end(), may_take_part);
  if (!invalid && static_cast<std::size_t>(forks_taking_part) + 1 == streams_.size()) return;
  // What the runtime refuses now is for it to say. Streams forked from an invalid origin capture on.
  const char* const why =
      invalid ? "the runtime invalidated the capture" : "the runtime invalidated a stream of the capture";
  if (!invalid || forks_taking_part > 0) expose(why);
  spoil(why);
  for (Stream& stream : streams_) stream.left = stream.left || !may_take_part(stream);
  invalid_ = invalid_ || invalid;
}

TreeNode* CaptureSession::child_of(const TreeNode& at, const Signature& signature) const {
  TreeNode* const child = at.find(signature);
  if (child == nullptr || !child->accepts_payload(binding_, child->operation.payload_offset)) return nullptr;
  return child;
}

void CaptureSession::expect(const Signature& signature, const std::vector<std::uint32_t>* after) {
  if (expected_ == nullptr) return;
  expected_ = after == nullptr ? child_of(*expected_, signature) : expected_->find(signature, *after);
}

HeldRecording CaptureSession::expected_recording() const {
  if (expected_ == nullptr || spoilt_ != nullptr) return HeldRecording();
  const TreeNode* const found = expected_->find(kEndSignature);
  return found == nullptr ? HeldRecording() : capture_sink().hold(*found);
}

TreeNode* CaptureSession::step(const Signature& signature) {
  TreeNode* const child = child_of(*cursor_, signature);
  if (child == nullptr) {
    g_mismatches.add(mismatch_behind(*cursor_));
    return nullptr;
  }
  cursor_ = child;
  child->prefetch_child();
  return child;
}

bool CaptureSession::withholds(OperationTest test) const {
  for (const TreeNode* at = cursor_; at != nullptr; at = at->parent)
    if (holds(at->operation, test)) return true;
  return false;
}

bool CaptureSession::has(OperationTest test) const {
  return shell() ? withholds(test)
                 : std::any_of(operations_.begin(), operations_.end(),
                               [test](const Operation& operation) { return holds(operation, test); });
}

hipGraphNode_t CaptureSession::last_node(hipStream_t stream) const {
  Dependencies found;
  if (!PrivateCalls::worked([&] { return (found = dependencies_of(stream)).known ? hipSuccess : hipErrorUnknown; }) ||
      found.count != 1)
    return nullptr;
  return found.nodes[0];
}

/// Forwards what is not described, where it may run at once: then it is work of the stream.
hipError_t CaptureSession::forward_watched(hipStream_t stream, Forward forward) {
  std::vector<hipGraphNode_t> before, after;
  const bool known = nodes_before(stream, &before);
  const hipError_t result = forward();
  if (known && result == hipSuccess && nodes_before(stream, &after) && before == after) work_counts().note_work(stream);
  return result;
}

/// Whether the stream, whose last node is this one, or of which several or none are, still comes behind what it did
/// before: these operations.
bool CaptureSession::made_no_node(hipGraphNode_t last, hipStream_t stream,
                                  const std::vector<std::uint32_t>& tail) const {
  return last != nullptr ? tail.size() == 1 && nodes_[tail.front()] == last : comes_behind(stream, tail);
}

/// Whether the stream's next operation comes behind these, in this order.
bool CaptureSession::comes_behind(hipStream_t stream, const std::vector<std::uint32_t>& tail) const {
  const LastErrorScope last_error;
  const Dependencies present = dependencies_of(stream);
  return present.known && present.count == tail.size() &&
         std::equal(tail.begin(), tail.end(), present.nodes, [&](std::uint32_t index, hipGraphNode_t node) {
           assume_held(lock_);
           return nodes_[index] == node;
         });
}

void CaptureSession::add_operation(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                                   std::vector<std::uint32_t> after, hipGraphNode_t node) {
  operations_.push_back({signature, offset, {layout}, std::move(after)});
  nodes_.push_back(node);
}

void CaptureSession::finish_recording() {
  add_operation(kEndSignature, static_cast<std::uint32_t>(binding_.size()), nullptr, {}, nullptr);
}

/// In a real capture: what was withheld of the stream reached the runtime by another one, and what it is given now
/// comes behind that.
void CaptureSession::follow_on(StreamKey key) {
  if (shell()) return;
  Stream* const stream = streams_.find(key);
  if (stream == nullptr || !stream->issued_elsewhere || stream->left) return;
  stream->issued_elsewhere = !made([&] {
    assume_held(lock_);
    return add_dependencies(stream->handle, stream->tail);
  });
  if (stream->issued_elsewhere) spoil("the runtime did not take a dependency");
}

hipError_t CaptureSession::operation(StreamKey key, StreamArgument stream, Describe describe, Forward forward_only) {
  note_thread(key);
  if (invalid_) return forward_only();
  if (shell()) check_status();
  if (invalid_) return forward_only();
  const auto forward = [&] {
    const NodeCreation making;
    return forward_only();
  };
  follow_on(key);

  Stream& where = *streams_.find(key);
  Signature signature = signature_on(where);
  const auto offset = static_cast<std::uint32_t>(binding_.size());
  OperationWriter writer(signature, binding_, shell() ? cursor_->first_child.load(std::memory_order_acquire) : nullptr);
  // Beyond 4 GiB an operation's place has no number.
  const bool described = spoilt_ == nullptr && describe(writer) == Status::kOk && binding_.size() <= UINT32_MAX;
  if (!described) {
    binding_.resize(offset);
    if (shell()) materialise("an operation that cannot be compared");
    spoil("an operation that cannot be compared");
    return runtime_version() < kCapturesAllLaunches ? forward_watched(plain_handle(stream), forward) : forward();
  }
  signature.device = packed_devices(device(), where.device);
  signature.payload_bytes = static_cast<std::uint32_t>(binding_.size() - offset);

  if (shell()) {
    if (const TreeNode* matched = step(signature)) {
      if (where.tail.size() == 1)
        where.tail.front() = matched->index;
      else
        where.tail.assign(1, matched->index);
      succeeded_unseen();
      return hipSuccess;
    }
    materialise_before(offset, "an operation differs from every recording", signature);
  }

  const hipError_t result = forward_noted(offset, forward);
  if (result != hipSuccess) return result;
  const hipGraphNode_t node = last_node(plain_handle(stream));
  if (signature.kind == OperationKind::kKernel && made_no_node(node, plain_handle(stream), streams_.find(key)->tail))
    leave_to_runtime();
  if (node == nullptr) spoil("an operation whose node the runtime does not tell");
  // Some runtimes take the code of the current device, which no node that is added can have on another one.
  if (signature.form == KernelForm::kStub && current_device_of(signature) != node_device_of(signature))
    spoil("a host stub launched on a stream of another device than the current one");
  note_judged_operands(signature, binding_, offset);
  const auto index = static_cast<std::uint32_t>(operations_.size());
  Stream& fed = *streams_.find(key);
  add_operation(signature, offset, writer.layout(), fed.tail, node);
  fed.tail.assign(1, index);
  expect(signature);
  return result;
}

[[gnu::always_inline]] inline bool CaptureSession::take_launch(const KernelLaunch& launch) {
  if (lock_.waited()) note_overlap(reinterpret_cast<StreamKey>(launch.stream));
  if (cursor_ == nullptr || invalid_ || spoilt_ != nullptr || threads_[thread_now_] != t_thread ||
      g_capture_doubts.load(std::memory_order_acquire) != doubts_seen_)
    return false;
  TreeNode* const child = cursor_->first_child.load(std::memory_order_acquire);
  if (child == nullptr) return false;
  const Signature& known = child->operation.signature;
  Stream* const streams = streams_.data();
  Stream& where = streams[known.stream];
  if (&where >= streams + streams_.size()) return false;
  if (where.key != reinterpret_cast<StreamKey>(launch.stream) || device_ < 0 ||
      g_device_changes.load(std::memory_order_acquire) != device_changes_seen_)
    return false;
  // Where no function has come or gone since it was looked up, its layout and its generation are what they were.
  const std::uint64_t version = functions().version();
  if (version == Functions::kChanging || child->functions_version.load(std::memory_order_relaxed) != version)
    return false;
  const LaunchFields fields(launch.form, launch.function, launch.validity, launch.shape);
  const bool as_known = fields.same(known, packed_devices(device_, where.device), known.stream, thread_now_);
  if (!as_known || !child->accepts(launch.shape.grid)) return false;

  const ArgumentLayout& layout = *child->operation.layout;
  const std::size_t offset = binding_.size();
  KernelPayload shape = launch.shape;
  shape.argument_bytes = static_cast<std::uint32_t>(layout.bytes());
  std::byte* const segment = add_kernel_payload(binding_, shape);
  const Status packed =
      launch.extra == nullptr ? layout.pack(launch.params, segment) : layout.pack_extra(launch.extra, segment);
  if (packed != Status::kOk) {
    binding_.resize(offset);
    return false;
  }
  cursor_ = child;
  stream_fed_ = where.key;
  child->prefetch_child();
  if (where.tail.size() == 1)
    where.tail.front() = child->index;
  else
    where.tail.assign(1, child->index);
  succeeded_unseen();
  return true;
}

constinit thread_local Fed t_fed __attribute__((tls_model("initial-exec"))){};

bool matched_launch(const KernelLaunch& launch) {
  const auto key = reinterpret_cast<StreamKey>(launch.stream);
  if (key <= reinterpret_cast<StreamKey>(hipStreamPerThread) || t_fed.stream != key) return false;
  const TimedCall timed;
  CaptureSession& fed = *t_fed.session;
  const LockGuard guard(fed.lock());
  return fed.serial() == t_fed.serial && fed.take_launch(launch);
}

hipError_t CaptureSession::record(StreamKey key, hipEvent_t event, bool of_another, Forward forward) {
  note_thread(key);
  if (!invalid_) check_status();
  // Once that stream of the other capture is invalidated and the event recorded on it again, the runtime takes it for
  // one of that capture, and refuses what comes behind the nodes that it has from this one: they must be there.
  if (of_another && shell() && !invalid_) materialise("an event of another open capture is recorded");
  follow_on(key);
  const hipError_t result = forward();
  if (result != hipSuccess) {
    // A shell is made real by the next call: one of ours would replace the error before HIP 7.
    spoil("an event record failed");
    return result;
  }
  Stream& where = *streams_.find(key);
  Event* known = events_.find(event);
  if (where.left) {
    // Recorded outside of the capture. What the runtime has noted on this stream it finds there still.
    if (known != nullptr && known->stream != key) event_recorded_elsewhere(event);
    return result;
  }
  if (known == nullptr) known = &events_.add({event, key, {}, false});
  known->stream = key;
  known->tail = where.tail;
  known->recorded_in_shell = shell();
  Signature signature = signature_on(where);
  signature.kind = OperationKind::kRecord;
  signature.object = static_cast<std::uint64_t>(known - events_.data());
  if (shell()) {
    if (step(signature) != nullptr) return result;
    materialise("an event record differs from every recording", &signature);
  }
  expect(signature);
  add_operation(signature, static_cast<std::uint32_t>(binding_.size()), nullptr, {}, nullptr);
  return result;
}

hipError_t CaptureSession::wait(StreamKey key, StreamArgument stream, hipEvent_t event, Forward forward) {
  note_thread(key);
  if (!invalid_) check_status();
  Event* known = events_.find(event);
  Stream* where = streams_.find(key);
  // The runtime knows such an event from the time the capture was a shell: it stands for no node there, or, before HIP
  // 7, for those of an earlier capture (probe event_forgets_nodes).
  const bool replace = !shell() && known != nullptr && known->recorded_in_shell;
  std::vector<hipGraphNode_t> before_wait;
  const bool told = replace && (where == nullptr || nodes_before(where->handle, &before_wait));
  const hipError_t result = forward();
  if (known == nullptr) work_counts().note_work(plain_handle(stream));
  if (result != hipSuccess) {
    spoil("a stream wait failed");  // as above
    return result;
  }
  std::uint64_t object = kExternalEvent;  // performed at once by the runtime (rule 6); no edge
  if (known == nullptr) {
    if (where == nullptr) return result;
  } else {
    object = static_cast<std::uint64_t>(known - events_.data());
    if (where == nullptr) {
      Stream joined{key, plain_handle(stream), std::max(device_of(stream), 0), {}};
      joined.joined_from = known->stream;
      where = &add_stream(std::move(joined));
    }
    // An invalidated stream takes part again, behind what it did before.
    where->left = false;
    const auto set = [&] {
      assume_held(lock_);
      return set_after_wait(where->handle, told ? &before_wait : nullptr, known->tail);
    };
    if (replace && !made(set)) spoil("the runtime did not take a dependency");
    follow_on(key);
    merge(where->tail, known->tail);
  }
  Signature signature = signature_on(*where);
  signature.kind = OperationKind::kWait;
  signature.object = object;
  if (shell()) {
    // A stream that joins an invalidated capture captures: what it does comes behind what was withheld.
    if (!invalid_ && step(signature) != nullptr) return result;
    materialise(invalid_ ? "a stream joined the invalidated capture" : "a stream wait differs from every recording",
                &signature);
  }
  expect(signature);
  add_operation(signature, static_cast<std::uint32_t>(binding_.size()), nullptr, {}, nullptr);
  return result;
}

bool CaptureSession::set_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& tail) {
  if (seeded_defect(Seeded::kForkLost)) return true;
  std::vector<hipGraphNode_t> nodes;
  for (const std::uint32_t index : tail) nodes.push_back(nodes_[index]);
  return replace_dependencies(stream, nodes);
}

/// Sets what the stream comes behind, after a forwarded wait for an event that stands for other nodes in the runtime:
/// the nodes of `before` and these operations. `before` is null where the runtime did not tell its nodes.
bool CaptureSession::set_after_wait(hipStream_t stream, const std::vector<hipGraphNode_t>* before,
                                    const std::vector<std::uint32_t>& operations) {
  if (before == nullptr) return add_dependencies(stream, operations);
  const LastErrorScope last_error;
  std::vector<hipGraphNode_t> nodes = *before;
  for (const std::uint32_t index : operations)
    if (std::find(nodes.begin(), nodes.end(), nodes_[index]) == nodes.end()) nodes.push_back(nodes_[index]);
  return replace_dependencies(stream, nodes);
}

/// Adds those of these operations that the stream does not come behind yet.
bool CaptureSession::add_dependencies(hipStream_t stream, const std::vector<std::uint32_t>& operations) {
  if (operations.empty()) return true;
  const LastErrorScope last_error;
  const Dependencies present = dependencies_of(stream);
  if (!present.known) return false;
  const auto* const end = present.nodes + present.count;
  std::vector<hipGraphNode_t> nodes;
  for (const std::uint32_t index : operations)
    if (std::find(present.nodes, end, nodes_[index]) == end) nodes.push_back(nodes_[index]);
  return nodes.empty() || next().hipStreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(),
                                                                    hipStreamAddCaptureDependencies) == hipSuccess;
}

/// Makes a shell real: it is the real capture already, so what was withheld is issued into it, each operation behind
/// the nodes it depends on; then every stream's last nodes are what they would have been.
void CaptureSession::materialise(const char* why, const Signature* own) {
  const TraceSpan traced(TraceKind::kMadeReal);
  materialised_ = describe_materialisation(why, *cursor_, std::size_t{cursor_->index} + 1, own);
  tell_trace(why, materialised_.graph);
  const LastErrorScope last_error;
  const SavedDevice device;
  std::vector<const TreeNode*> path;
  for (const TreeNode* matched = std::exchange(cursor_, nullptr); matched != nullptr; matched = matched->parent)
    path.push_back(matched);
  std::reverse(path.begin(), path.end());
  std::unordered_map<int, CapturedStream> substitutes;  // by device
  // Each stream has a status of its own. One that is alone has none to stand in for it.
  std::vector<bool> taking(streams_.size(), true);
  if (streams_.size() > 1)
    std::transform(streams_.begin(), streams_.end(), taking.begin(),
                   [](const Stream& stream) { return stream.nameable() && takes_part(stream); });
  const auto active = static_cast<std::size_t>(std::find(taking.begin(), taking.end(), true) - taking.begin());
  bool complete = true;
  for (const TreeNode* step : path) {
    const Operation& operation = step->operation;
    const Signature& signature = operation.signature;
    hipGraphNode_t node = nullptr;
    if (makes_node(signature.kind) && signature.stream == kNoStream) {
      device.set(current_device_of(signature));
      complete = add_again(operation, binding_, graph_, nodes_, &node) && complete;
    } else if (makes_node(signature.kind)) {
      // A stream invalidated since then takes nothing more. Its nodes are in the graph all the same.
      const Stream& named = streams_[signature.stream];
      hipStream_t stream = named.handle;
      if (!taking[signature.stream]) {
        device.set(named.device);
        stream = active < streams_.size() ? substitutes[named.device].from(streams_[active].handle) : nullptr;
      }
      device.set(current_device_of(signature));
      const auto depend = [&] {
        assume_held(lock_);
        return set_dependencies(stream, operation.after);
      };
      const auto reissue = [&] {
        assume_held(lock_);
        const NodeCreation making;
        return reissue_into_stream(signature, operation.payload_offset, operation.layout, binding_, stream) ==
               hipSuccess;
      };
      const auto find_node = [&] {
        assume_held(lock_);
        return (node = last_node(stream)) != nullptr;
      };
      complete = stream != nullptr && made(depend) && made(reissue) && made(find_node) && complete;
    }
    add_operation(signature, operation.payload_offset, operation.layout, operation.after, node);
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].issued_elsewhere = !taking[i];
    device.set(streams_[i].device);  // a thread's own stream is that of the current device
    const auto depend = [&] {
      assume_held(lock_);
      return set_dependencies(streams_[i].handle, streams_[i].tail);
    };
    if (taking[i]) complete = made(depend) && complete;
  }
  if (told_as_ != nullptr) told_graphs().made_real(*told_as_, graph_, nodes_);
  if (!complete) {
    // What the program captured cannot be had any more: the runtime must say so at the end of the capture.
    invalid_ = lost_ = true;
    spoil("a withheld operation failed when it was issued");
  }
}

void CaptureSession::materialise_before(std::size_t offset, const char* why, const Signature& own) {
  const Binding payload(binding_.begin() + offset, binding_.end());
  binding_.resize(offset);
  materialise(why, &own);
  binding_.append(payload.begin(), payload.end());
}

hipError_t CaptureSession::forward_noted(std::size_t offset, Forward forward) {
  const hipError_t result = forward();
  if (result != hipSuccess) {
    binding_.resize(offset);
    spoil("an operation failed");
  }
  return result;
}

void CaptureSession::stream_left(StreamKey key) {
  if (is_origin(key)) {
    leave_shell();  // the runtime has dropped the capture: what was withheld must not reach the new one
    invalid_ = true;
    spoil("a stream of the capture began another");
  } else if (Stream* const stream = streams_.find(key)) {
    stream->left = true;
    expose("a stream of the capture began another");
    forget_stream(key);
  }
  if (serial_ != 0) serial_ = next_serial();
}

/// One that made no other take part leaves nothing in the runtime but its nodes.
void CaptureSession::stream_destroyed(StreamKey key) {
  note_thread(key);
  if (!invalid_) check_status();
  Stream* const where = streams_.find(key);
  if (invalid_ || where == nullptr || where->left || is_origin(key) || joined_others(key)) {
    expose("a stream of the capture was destroyed");
  } else {
    follow_on(key);
    Signature signature = signature_on(*where);
    signature.kind = OperationKind::kLeave;
    if (shell() && step(signature) == nullptr)
      materialise("the end of a stream differs from every recording", &signature);
    if (!shell()) {
      expect(signature);
      add_operation(signature, static_cast<std::uint32_t>(binding_.size()), nullptr, {}, nullptr);
    }
    where->destroyed = true;
  }
  if (is_origin(key)) return;
  forget_stream(key);
  if (serial_ != 0) serial_ = next_serial();  // another stream may have its handle
}

/// Whether other streams take part by an event that was recorded on it: the runtime ends their part with its own.
bool CaptureSession::joined_others(StreamKey key) noexcept {
  return std::any_of(streams_.begin(), streams_.end(),
                     [key](const Stream& stream) { return stream.joined_from == key && !stream.left; });
}

/// Takes the place of one of its device that was destroyed: there may be many, one after the other.
CaptureSession::Stream& CaptureSession::add_stream(Stream stream) {
  for (std::size_t i = 1; i < streams_.size(); ++i)
    if (streams_[i].destroyed && streams_[i].device == stream.device) return streams_.put(i, std::move(stream));
  return streams_.add(std::move(stream));
}

void CaptureSession::thread_ended(StreamKey key) noexcept {
  spoil("a thread ended whose own stream took part in the capture");
  if (is_origin(key)) {
    leave_shell();
    invalid_ = true;
  } else {
    forget_stream(key);
  }
  if (serial_ != 0) serial_ = next_serial();
}

/// The stream is none of the capture any more, and what was recorded on it stands for nothing here, as in the runtime.
void CaptureSession::forget_stream(StreamKey key) noexcept {
  for (Event& event : events_)
    if (event.stream == key) events_.forget(event);
  if (Stream* const stream = streams_.find(key)) {
    stream->left = true;
    streams_.forget(*stream);
  }
}

void CaptureSession::event_destroyed(hipEvent_t event) {
  // The handle may come back as another event. In a shell nothing the runtime still needs hangs on it.
  if (Event* known = events_.find(event)) events_.forget(*known);
  std::erase(elsewhere_, event);
}

bool CaptureSession::noted_elsewhere(hipEvent_t event) const noexcept {
  return std::find(elsewhere_.begin(), elsewhere_.end(), event) != elsewhere_.end();
}

void CaptureSession::event_recorded_elsewhere(hipEvent_t event) {
  Event* const known = events_.find(event);
  if (known == nullptr) return;
  if (!noted_elsewhere(event)) elsewhere_.push_back(event);
  events_.forget(*known);
}

bool CaptureSession::shell_is_empty(hipGraph_t graph) const {
  std::size_t count = 1;
  const auto call = [&] { return next().hipGraphGetNodes(graph, nullptr, &count); };
  return PrivateCalls::answered(call) && count == 0;
}

bool CaptureSession::matches(hipGraph_t graph, const char** why, std::uint32_t* which) const {
  return nodes_match(graph, operations_, binding_, nodes_, why, which);
}

HeldRecording CaptureSession::matched_end() {
  TreeNode* const found = cursor_->find(kEndSignature);
  if (found == nullptr) {
    g_mismatches.add(Mismatch::kShorter);
    return HeldRecording();
  }
  if (begin_->expected_bytes.load(std::memory_order_relaxed) < binding_.size())
    begin_->expected_bytes.store(static_cast<std::uint32_t>(binding_.size()), std::memory_order_relaxed);
  HeldRecording recording = capture_sink().hold(*found);
  return recording && (*recording).rebuildable.load(std::memory_order_acquire) ? std::move(recording) : HeldRecording();
}

}  // namespace graphpool
