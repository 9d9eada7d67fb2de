#include "shim/capture/session.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "shim/base/trace.h"
#include "shim/capture/make_real.h"
#include "shim/capture/put_off_joins.h"
#include "shim/capture/stream_tail.h"
#include "shim/hip/quirks.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

static std::uint64_t next_serial() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// --- its life ---

void CaptureSession::start(StreamArgument origin, const Signature& begin, TreeNode* known, CaptureMode mode,
                           const void* where) {
  thread = &t_thread_token;
  began = trace_begins();
  lock.hand_over();
  feeders.start();
  matcher.start(known, mode);
  place = where;
  recorder.start();
  doubts_ = g_capture_doubts.load(std::memory_order_acquire);
  serial = next_serial();
  streams.add({stream_key(origin), plain_handle(origin), node_device_of(begin), {}});
  if (shell())
    recorder.binding().reserve(known->expected_bytes.load(std::memory_order_relaxed));
  else
    recorder.add({begin, 0, {nullptr}, {}}, nullptr);
}

void CaptureSession::close() noexcept {
  serial = 0;
  matcher.leave_tree();
}

void CaptureSession::leave_tree(const char* reason) {
  if (shell()) make_real(*this, reason);
  matcher.leave_tree();
}

void CaptureSession::reset() noexcept {
  serial = 0;
  for (CapturedStream& stream : streams) drop_join(stream);
  streams.clear();
  feeders.clear();
  matcher = {};
  recorder.clear();
  fate = {};
  names.clear();
  materialised = {};
  place = nullptr;
  follow = Follow::kAll;
  into = nullptr;
}

void CaptureSession::renew() noexcept {
  if (serial != 0) serial = next_serial();
}

// --- its fate ---

void CaptureSession::expose(const char* reason) {
  if (shell()) make_real(*this, reason);
  fate.expose();
  fate.reject(reason);
}

void CaptureSession::make_real_if_rejected() {
  if (shell() && fate.rejected() != nullptr && !fate.invalid()) make_real(*this, fate.rejected());
}

void CaptureSession::check_status() {
  const std::uint64_t doubts = g_capture_doubts.load(std::memory_order_acquire);
  if (doubts == doubts_) return;
  doubts_ = doubts;
  const auto may_take_part = [](const CapturedStream& stream) {
    return stream.destroyed || stream.join_put_off != nullptr ||
           (stream.nameable() ? stream.takes_part() : !stream.left);
  };
  const bool invalid = !may_take_part(streams.origin());
  const auto forks = std::count_if(streams.begin() + 1, streams.end(), may_take_part);
  if (!invalid && static_cast<std::size_t>(forks) + 1 == streams.size()) return;
  // The runtime itself must say what it refuses now. Streams forked from an invalid origin capture on.
  const char* const reason =
      invalid ? "the runtime invalidated the capture" : "the runtime invalidated a stream of the capture";
  if (!invalid || forks > 0) expose(reason);
  fate.reject(reason);
  for (CapturedStream& stream : streams) stream.left = stream.left || !may_take_part(stream);
  if (invalid) fate.invalidate();
}

// --- what it is fed ---

/// Rejects the capture if another thread fed this stream while the caller waited to feed it: which of the two
/// operations came first was chance.
static void note_overlap(CaptureSession& session, StreamKey stream) REQUIRES(session.lock) {
  if (session.feeders.another_fed(stream))
    session.fate.reject("two threads feed one stream of the capture at the same time");
}

void CaptureSession::note_feed(StreamKey stream) {
  if (lock.waited()) note_overlap(*this, stream);
  make_real_if_rejected();
  if (feeders.feed(stream)) [[likely]]
    return;
  if (feeders.count() > CaptureFeeders::kMost) fate.reject("more threads feed the capture than have a number");
  lock.hand_over();
}

Signature CaptureSession::signature_on(const CapturedStream& stream) {
  Signature signature;
  const std::size_t number = streams.number(stream);
  if (number >= kNoStream) fate.reject("a capture of more streams than have a number");
  signature.stream = static_cast<std::uint16_t>(number);
  signature.thread = feeders.number();
  return signature;
}

void CaptureSession::follow_on(StreamKey key) {
  if (shell()) return;
  CapturedStream* const stream = streams.find(key);
  if (stream == nullptr || !stream->issued_elsewhere || stream->left) return;
  stream->issued_elsewhere = !tried_twice([&] {
    assume_held(lock);
    return extend_tail(stream->handle, recorder.nodes_at(stream->tail));
  });
  if (stream->issued_elsewhere) fate.reject("the runtime did not take a dependency");
}

void CaptureSession::take_bare(const Signature& signature, const char* differs) {
  if (shell()) {
    if (matcher.step(signature, recorder.binding()) != nullptr) return;
    make_real(*this, differs, &signature);
  }
  matcher.follow(signature, recorder.binding(), nullptr);
  recorder.add_bare(signature);
}

hipError_t CaptureSession::forward_noted(std::size_t offset, Forward forward) {
  const hipError_t result = forward();
  if (result != hipSuccess) {
    recorder.binding().resize(offset);
    fate.reject("an operation failed");
  }
  return result;
}

/// Forwards an operation that is not described. If it made no node it has run at once, and is work of the stream.
hipError_t CaptureSession::forward_watched(hipStream_t stream, Forward forward) {
  std::vector<hipGraphNode_t> before, after;
  const bool known = copy_tail(stream, &before);
  const hipError_t result = forward();
  if (known && result == hipSuccess && copy_tail(stream, &after) && before == after) work_counts().note_work(stream);
  return result;
}

hipError_t CaptureSession::operation(StreamKey key, StreamArgument stream, Describe describe, Forward forward_only) {
  note_feed(key);
  if (fate.invalid()) return forward_only();
  if (shell()) check_status();
  if (fate.invalid()) return forward_only();
  const auto forward = [&] {
    const NodeCreation making;
    return forward_only();
  };
  follow_on(key);

  CapturedStream& where = *streams.find(key);
  Signature signature = signature_on(where);
  Binding& binding = recorder.binding();
  const auto offset = static_cast<std::uint32_t>(binding.size());
  const TreeNode* const standing = matcher.shell();
  OperationWriter writer(signature, binding,
                         standing != nullptr ? standing->first_child.load(std::memory_order_acquire) : nullptr);
  // Beyond 4 GiB an operation's place in the binding has no number.
  if (fate.rejected() != nullptr || describe(writer) != Status::kOk || binding.size() > UINT32_MAX) {
    binding.resize(offset);
    if (shell()) make_real(*this, "an operation that cannot be compared");
    fate.reject("an operation that cannot be compared");
    return runtime_version() < kCapturesAllLaunches ? forward_watched(plain_handle(stream), forward) : forward();
  }
  signature.device = packed_devices(feeders.device(), where.device);
  signature.payload_bytes = static_cast<std::uint32_t>(binding.size() - offset);

  if (shell()) {
    if (const TreeNode* const matched = matcher.step(signature, binding)) {
      where.follow(matched->index);
      succeeded_unseen();
      return hipSuccess;
    }
    make_real_before(*this, offset, "an operation differs from every recording", signature);
  }
  return record_operation(signature, offset, writer.layout(), plain_handle(stream), key, forward);
}

/// Makes the program's call in a real capture, and notes the operation with its node.
hipError_t CaptureSession::record_operation(const Signature& signature, std::uint32_t offset,
                                            const ArgumentLayout* layout, hipStream_t stream, StreamKey key,
                                            Forward forward) {
  const hipError_t result = forward_noted(offset, forward);
  if (result != hipSuccess) return result;
  CapturedStream& fed = *streams.find(key);
  const hipGraphNode_t node = last_node(stream);
  if (signature.kind == OperationKind::kKernel && recorder.made_no_node(node, stream, fed.tail))
    fate.leave_to_runtime();
  if (node == nullptr) fate.reject("an operation whose node the runtime does not tell");
  // Some runtimes take the code of the current device. A node that is added on another device cannot have that.
  if (signature.form == KernelForm::kStub && current_device_of(signature) != node_device_of(signature))
    fate.reject("a host stub launched on a stream of another device than the current one");
  note_judged_operands(signature, recorder.binding(), offset);
  const auto index = static_cast<std::uint32_t>(recorder.operations().size());
  recorder.add({signature, offset, {layout}, fed.tail}, node);
  fed.tail.assign(1, index);
  matcher.follow(signature, recorder.binding(), nullptr);
  return result;
}

// --- the short way of a launch ---

constinit thread_local Fed t_fed __attribute__((tls_model("initial-exec"))){};

bool matched_launch(const KernelLaunch& launch) {
  const auto key = reinterpret_cast<StreamKey>(launch.stream);
  if (key <= reinterpret_cast<StreamKey>(hipStreamPerThread) || t_fed.stream != key) return false;
  const TimedCall timed;
  CaptureSession& fed = *t_fed.session;
  const LockGuard guard(fed.lock);
  if (fed.lock.waited()) note_overlap(fed, key);
  if (fed.serial != t_fed.serial || !fed.take_launch<MayMove::kYes>(launch)) return false;
  succeeded_unseen();
  return true;
}

}  // namespace graphpool
