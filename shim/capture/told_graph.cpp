// told_graph.cpp: what a program asks of the graph of an open capture, and does to it by its handle (session.h).
//
// A shell has no nodes in the runtime. So the program gets handles of the library's own. They name a graph that becomes
// the deferred graph when the capture ends, or stands for the runtime's graph if the capture becomes real. A question
// is no operation. A change of dependencies is one, and matches a recording only if it names the same nodes.
#include <algorithm>
#include <memory>
#include <utility>

#include "shim/capture/capture_sink.h"
#include "shim/capture/session.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

/// The session whose graph, or one of whose nodes, the program names so.
template <typename Told>
std::shared_ptr<CaptureSession> session_with(Told&& told) {
  for (const auto& session : all_open_captures()) {
    const LockGuard guard(session->lock());
    if (told(*session)) return session;
  }
  return nullptr;
}

}  // namespace

void CaptureSession::note_told() {
  if (!std::exchange(told_, true)) g_told_captures.fetch_add(1, std::memory_order_acq_rel);
}

/// The capture is over. A graph whose handle the program was told, and that nobody has taken, is gone.
void CaptureSession::forget_told() noexcept {
  if (told_as_ != nullptr) told_graphs().drop(*std::exchange(told_as_, nullptr));
  if (std::exchange(told_, false)) g_told_captures.fetch_sub(1, std::memory_order_acq_rel);
  graph_ = nullptr;
  holds_objects_ = false;
}

/// Asks the runtime which graph it captures into.
bool CaptureSession::know_graph_of_runtime() {
  if (graph_ != nullptr) return true;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  const hipStream_t origin = streams_.front().handle;
  return PrivateCalls::answered(
             [&] { return next().hipStreamGetCaptureInfo_v2(origin, &status, nullptr, &graph_, nullptr, nullptr); }) &&
         status == hipStreamCaptureStatusActive && graph_ != nullptr;
}

hipError_t CaptureSession::tell(StreamKey key, const CaptureQuestion& asked, Forward forward) {
  if (!invalid_) check_status();
  follow_on(key);
  hipError_t result = forward();
  Stream& where = *streams_.find(key);
  if (result != hipSuccess || *asked.status != hipStreamCaptureStatusActive || invalid_) return result;
  if (where.left) {
    expose("asked for the graph of a capture by a stream that had left it");
    return forward();
  }
  note_told();
  if (asked.graph != nullptr) graph_ = *asked.graph;
  if (shell() && told_as_ == nullptr && (!know_graph_of_runtime() || !told_graphs().add(&told_as_))) {
    expose("no handle for the graph of a capture");
    result = forward();
  }
  if (told_as_ == nullptr) return result;
  if (asked.graph != nullptr) *asked.graph = told_graphs().handle(*told_as_);
  where.told.clear();
  if (!shell()) {
    tell_as_known(where, asked);
    return result;
  }
  for (const std::uint32_t operation : where.tail) {
    where.told.push_back(told_graphs().node_handle(*told_as_, operation));
    if (where.told.back() != nullptr) continue;
    expose("no handle for a node of a capture");
    return tell(key, asked, forward);
  }
  if (asked.nodes != nullptr && !where.tail.empty()) *asked.nodes = where.told.data();
  if (asked.count != nullptr) *asked.count = where.tail.size();
  return result;
}

/// The capture is real, and the runtime has told its nodes: those that the program knows by handles of ours stay those.
void CaptureSession::tell_as_known(Stream& where, const CaptureQuestion& asked) {
  if (asked.nodes == nullptr || asked.count == nullptr || *asked.count == 0) return;
  for (std::size_t i = 0; i < *asked.count; ++i) {
    const hipGraphNode_t node = (*asked.nodes)[i];
    const auto operation = static_cast<std::size_t>(std::find(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
    const hipGraphNode_t ours = operation < nodes_.size() ? told_graphs().handle_told(*told_as_, operation) : nullptr;
    where.told.push_back(ours != nullptr ? ours : node);
  }
  *asked.nodes = where.told.data();
}

/// The operations whose nodes are named, each once. False: the runtime must judge them.
bool CaptureSession::operations_of(const NamedNodes& named, std::vector<std::uint32_t>* operations) {
  if (named.count != 0 && named.nodes == nullptr) return false;
  for (std::size_t i = 0; i < named.count; ++i) {
    const hipGraphNode_t node = named.nodes[i];
    const NodeRef ours = told_graphs().node(node);
    std::uint32_t operation = ours.index;
    if (ours.graph == nullptr) {
      const auto found = std::find(nodes_.rbegin(), nodes_.rend(), node);
      if (node == nullptr || found == nodes_.rend()) return false;
      operation = static_cast<std::uint32_t>(nodes_.rend() - found) - 1;
    } else if (ours.graph != told_as_.get()) {
      return false;
    }
    if (std::find(operations->begin(), operations->end(), operation) != operations->end()) return false;
    operations->push_back(operation);
  }
  return true;
}

/// As the runtime does: added behind what there is, or in its place.
void CaptureSession::follow_dependencies(Stream& stream, const std::vector<std::uint32_t>& named, unsigned flags) {
  if (flags == hipStreamSetCaptureDependencies) stream.tail.clear();
  for (const std::uint32_t operation : named)
    if (std::find(stream.tail.begin(), stream.tail.end(), operation) == stream.tail.end())
      stream.tail.push_back(operation);
}

/// The capture is real, or over: the program's call is made with what the runtime knows.
hipError_t CaptureSession::update_unfollowed(const NamedNodes& named, NativeDependencies forward) {
  std::vector<hipGraphNode_t> nodes;
  for (std::size_t i = 0; named.nodes != nullptr && i < named.count; ++i) {
    const NodeRef ours = told_graphs().node(named.nodes[i]);
    const bool own = ours.graph != nullptr && ours.graph == told_as_.get() && ours.index < nodes_.size();
    if (!own && told_graphs().gave_out(named.nodes[i])) return refuse();
    nodes.push_back(own ? nodes_[ours.index] : named.nodes[i]);
  }
  return forward(named.nodes == nullptr ? nullptr : nodes.data());
}

hipError_t CaptureSession::update_dependencies(StreamKey key, hipStream_t stream, const NamedNodes& named,
                                               NativeDependencies forward) {
  note_thread(key);
  if (!invalid_) check_status();
  follow_on(key);
  Stream& where = *streams_.find(key);
  std::vector<std::uint32_t> operations;
  const bool known_flags =
      named.flags == hipStreamAddCaptureDependencies || named.flags == hipStreamSetCaptureDependencies;
  if (invalid_) return update_unfollowed(named, forward);
  if (where.left || !known_flags || !operations_of(named, &operations)) {
    expose("hipStreamUpdateCaptureDependencies");
    return update_unfollowed(named, forward);
  }
  Signature signature = signature_on(where);
  signature.kind = OperationKind::kDependencies;
  signature.validity = named.flags;
  if (shell()) {
    if (TreeNode* const matched = cursor_->find(signature, operations)) {
      cursor_ = matched;
      matched->prefetch_child();
      follow_dependencies(where, operations, named.flags);
      succeeded_unseen();
      return hipSuccess;
    }
    materialise("a change of dependencies differs from every recording", &signature);
  }
  const hipError_t result = update_unfollowed(named, forward);
  if (result != hipSuccess) {
    spoil("the runtime refused a change of dependencies");
    return result;
  }
  follow_dependencies(where, operations, named.flags);
  if (!comes_behind(stream, where.tail)) spoil("a change of dependencies that the runtime took otherwise");
  expect(signature, &operations);
  add_operation(signature, static_cast<std::uint32_t>(binding_.size()), nullptr, std::move(operations), nullptr);
  return result;
}

hipError_t CaptureSession::add_node(const AddedNode& added, Describe describe, NativeCapturedAdd forward_only) {
  note_thread(0);
  if (!invalid_) check_status();
  Signature signature;
  signature.stream = kNoStream;
  signature.thread = thread_now_;
  const auto offset = static_cast<std::uint32_t>(binding_.size());
  OperationWriter writer(signature, binding_);
  std::vector<std::uint32_t> after;
  const bool followed = !invalid_ && spoilt_ == nullptr && added.node != nullptr &&
                        operations_of({const_cast<hipGraphNode_t*>(added.after), added.count, 0}, &after) &&
                        describe(writer) == Status::kOk && binding_.size() <= UINT32_MAX;
  const auto forward = [&] {
    assume_held(lock_);
    return update_unfollowed({const_cast<hipGraphNode_t*>(added.after), added.count, 0}, [&](hipGraphNode_t* nodes) {
      assume_held(lock_);
      const NodeCreation making;
      return forward_only(graph_, nodes);
    });
  };
  if (!followed) {
    binding_.resize(offset);
    expose("a node that cannot be compared was added to a capture");
    return forward();
  }
  signature.device = packed_devices(device(), device());
  signature.payload_bytes = static_cast<std::uint32_t>(binding_.size() - offset);
  if (shell()) {
    TreeNode* const matched = cursor_->find(signature, after);
    const bool accepted = matched != nullptr && matched->accepts_payload(binding_, offset);
    const hipGraphNode_t handle =
        accepted && told_as_ != nullptr ? told_graphs().node_handle(*told_as_, matched->index) : nullptr;
    if (handle != nullptr) {
      cursor_ = matched;
      *added.node = handle;
      succeeded_unseen();
      return hipSuccess;
    }
    materialise_before(offset, "a node differs from every recording", signature);
  }
  const hipError_t result = forward_noted(offset, forward);
  if (result != hipSuccess) return result;
  note_judged_operands(signature, binding_, offset);
  expect(signature, &after);
  add_operation(signature, offset, writer.layout(), std::move(after), *added.node);
  return result;
}

hipError_t CaptureSession::hold_objects(NativeGraphCall forward) {
  const hipError_t result = forward(graph_);
  holds_objects_ = holds_objects_ || result == hipSuccess;
  return result;
}

bool CaptureSession::told_graph(hipGraph_t graph) const noexcept {
  return told_ &&
         (told_as_ != nullptr ? told_graphs().handle(*told_as_) == graph : graph_ != nullptr && graph_ == graph);
}

bool CaptureSession::told_node(hipGraphNode_t node) const noexcept {
  if (!told_) return false;
  const NodeRef ours = told_graphs().node(node);
  if (ours.graph != nullptr) return ours.graph == told_as_.get();
  return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
}

// --- entries ---

hipError_t tell_capture(StreamArgument stream, const CaptureQuestion& asked, Forward forward) {
  const StreamKey key = stream_key(stream);
  const auto session = find_open_capture(key);
  if (session == nullptr) return forward();
  const LockGuard guard(session->lock());
  return session->has_stream(key) ? session->tell(key, asked, forward) : forward();
}

hipError_t update_capture_dependencies(hipStream_t stream, const NamedNodes& named, NativeDependencies forward) {
  const StreamKey key = stream_key({stream, false});
  const auto session = find_open_capture(key);
  if (session != nullptr) {
    const LockGuard guard(session->lock());
    if (session->has_stream(key)) return session->update_dependencies(key, stream, named, forward);
  }
  const hipGraphNode_t* nodes = named.nodes;
  std::vector<hipGraphNode_t> storage;
  const hipError_t failed =
      told_graphs().read_nodes(&nodes, named.count, &storage, "hipStreamUpdateCaptureDependencies");
  return failed == hipSuccess ? forward(const_cast<hipGraphNode_t*>(nodes)) : failed;
}

/// Calls use(session) for the open capture for which is_its(session) holds, under the session's lock. Returns false if
/// there is none.
template <typename IsIts, typename Use>
static bool with_told_capture(const IsIts& is_its, const Use& use) {
  if (g_told_captures.load(std::memory_order_acquire) == 0) return false;
  const auto session = session_with(is_its);
  if (session == nullptr) return false;
  const LockGuard guard(session->lock());
  if (!is_its(*session)) return false;
  use(*session);
  return true;
}

static auto has_graph(hipGraph_t graph) {
  return [graph](CaptureSession& session) {
    assume_held(session.lock());
    return session.told_graph(graph);
  };
}

bool add_to_capture(hipGraph_t graph, const AddedNode& added, Describe describe, NativeCapturedAdd forward,
                    hipError_t* result) {
  return with_told_capture(has_graph(graph), [&](CaptureSession& session) {
    assume_held(session.lock());
    *result = session.add_node(added, describe, forward);
  });
}

bool hold_by_capture(hipGraph_t graph, NativeGraphCall forward, hipError_t* result) {
  return with_told_capture(has_graph(graph), [&](CaptureSession& session) {
    assume_held(session.lock());
    *result = session.hold_objects(forward);
  });
}

void expose_told_graph(hipGraph_t graph, const char* why) {
  with_told_capture(has_graph(graph), [&](CaptureSession& session) {
    assume_held(session.lock());
    session.expose(why);
  });
}

void expose_told_node(hipGraphNode_t node, const char* why) {
  const auto has_node = [node](CaptureSession& session) {
    assume_held(session.lock());
    return session.told_node(node);
  };
  with_told_capture(has_node, [&](CaptureSession& session) {
    assume_held(session.lock());
    session.expose(why);
  });
}

}  // namespace graphpool
