// open_graph.cpp: answers what a program asks of the graph of an open capture, and follows what it does to the graph by
// handle (graph_names.h).
//
// A question is no operation. A change of dependencies is one, and matches a recording only if it names the same nodes.
#include <algorithm>
#include <memory>
#include <utility>

#include "shim/capture/capture_sink.h"
#include "shim/capture/make_real.h"
#include "shim/capture/session.h"
#include "shim/capture/session_list.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/mismatch.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Names the nodes that the runtime has told of a real capture: those that the program knows by the library's handles
/// keep these handles.
void name_as_before(CaptureSession& session, CapturedStream& where, const CaptureQuestion& asked)
    REQUIRES(session.lock) {
  if (asked.nodes == nullptr || asked.count == nullptr || *asked.count == 0) return;
  const std::vector<hipGraphNode_t>& nodes = session.recorder.nodes();
  for (std::size_t i = 0; i < *asked.count; ++i) {
    const hipGraphNode_t node = (*asked.nodes)[i];
    const auto operation = static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
    const hipGraphNode_t ours =
        operation < nodes.size() ? open_graphs().known_handle(*session.names.tracked(), operation) : nullptr;
    where.named_nodes.push_back(ours != nullptr ? ours : node);
  }
  *asked.nodes = where.named_nodes.data();
}

/// Asks the runtime by another stream of the same capture.
hipError_t ask_of(const CapturedStream& stream, const CaptureQuestion& asked) noexcept {
  return next().hipStreamGetCaptureInfo_v2(stream.handle, asked.status, asked.id, asked.graph, asked.nodes,
                                           asked.count);
}

/// Answers hipStreamGetCaptureInfo_v2 for a stream of the capture. In a shell it tells handles of the library's own,
/// which stay valid when the capture ends or becomes real.
hipError_t answer(CaptureSession& session, StreamKey key, const CaptureQuestion& asked, Forward forward)
    REQUIRES(session.lock) {
  if (!session.fate.invalid()) session.check_status();
  session.follow_on(key);
  CapturedStream& where = *session.streams.find(key);
  hipError_t result = where.join_put_off == nullptr ? forward() : ask_of(session.streams.origin(), asked);
  if (result != hipSuccess || *asked.status != hipStreamCaptureStatusActive || session.fate.invalid()) return result;
  if (where.left) {
    session.expose("asked for the graph of a capture by a stream that had left it");
    return forward();
  }
  GraphNames& names = session.names;
  names.give();
  if (asked.graph != nullptr) names.know_graph(*asked.graph);
  const bool needs_handles = session.shell() && names.tracked() == nullptr;
  if (needs_handles && (!names.ask_for_graph(session.streams.origin().handle) || !names.track())) {
    session.expose("no handle for the graph of a capture");
    result = forward();
  }
  if (names.tracked() == nullptr) return result;
  if (asked.graph != nullptr) *asked.graph = open_graphs().handle(*names.tracked());
  where.named_nodes.clear();
  if (!session.shell()) {
    name_as_before(session, where, asked);
    return result;
  }
  for (const std::uint32_t operation : where.tail) {
    where.named_nodes.push_back(open_graphs().node_handle(*names.tracked(), operation));
    if (where.named_nodes.back() != nullptr) continue;
    session.expose("no handle for a node of a capture");
    return answer(session, key, asked, forward);
  }
  if (asked.nodes != nullptr && !where.tail.empty()) *asked.nodes = where.named_nodes.data();
  if (asked.count != nullptr) *asked.count = where.tail.size();
  return result;
}

/// Changes what the stream comes behind, as the runtime does: adds the named operations, or puts them in place of all.
void change_tail(CapturedStream& stream, const OperationTail& named, unsigned flags) {
  if (flags == hipStreamSetCaptureDependencies) stream.tail.clear();
  merge_tail(stream.tail, named);
}

/// Makes the program's call with what the runtime knows. The capture is real, or invalid.
hipError_t forward_named(CaptureSession& session, const NamedNodes& named, NativeDependencies forward)
    REQUIRES(session.lock) {
  auto nodes = session.names.native_nodes(named, session.recorder.nodes());
  if (!nodes) return refuse();
  return forward(named.nodes == nullptr ? nullptr : nodes->data());
}

hipError_t update_dependencies(CaptureSession& session, StreamKey key, hipStream_t stream, const NamedNodes& named,
                               NativeDependencies forward) REQUIRES(session.lock) {
  session.note_feed(key);
  if (!session.fate.invalid()) session.check_status();
  session.follow_on(key);
  CapturedStream& where = *session.streams.find(key);
  if (session.fate.invalid()) return forward_named(session, named, forward);
  const bool known_flags =
      named.flags == hipStreamAddCaptureDependencies || named.flags == hipStreamSetCaptureDependencies;
  std::optional<OperationTail> operations;
  if (!where.left && known_flags) operations = session.names.operations(named, session.recorder.nodes());
  if (!operations) {
    session.expose("hipStreamUpdateCaptureDependencies");
    return forward_named(session, named, forward);
  }
  Signature signature = session.signature_on(where);
  signature.kind = OperationKind::kDependencies;
  signature.validity = named.flags;
  if (const TreeNode* const standing = session.matcher.shell()) {
    if (TreeNode* const matched = standing->find(signature, *operations)) {
      session.matcher.advance(matched);
      change_tail(where, *operations, named.flags);
      succeeded_unseen();
      return hipSuccess;
    }
    g_mismatches.add(mismatch_behind(*standing));
    make_real(session, "a change of dependencies differs from every recording", &signature);
  }
  const hipError_t result = forward_named(session, named, forward);
  if (result != hipSuccess) {
    session.fate.reject("the runtime refused a change of dependencies");
    return result;
  }
  change_tail(where, *operations, named.flags);
  if (!session.recorder.comes_behind(stream, where.tail))
    session.fate.reject("a change of dependencies that the runtime took otherwise");
  session.matcher.follow(signature, session.recorder.binding(), &*operations);
  session.recorder.add_bare(signature, std::move(*operations));
  return result;
}

/// Withholds a node that is added to a shell, if the tree has it next. Returns false, and does nothing, if the tree
/// does not, or if there is no handle for the node.
bool withhold_node(CaptureSession& session, const AddedNode& added, const Signature& signature, std::uint32_t offset,
                   const OperationTail& after) REQUIRES(session.lock) {
  TreeNode* const matched = session.matcher.shell()->find(signature, after);
  const bool accepted = matched != nullptr && matched->accepts_payload(session.recorder.binding(), offset);
  if (!accepted) g_mismatches.add(mismatch_behind(*session.matcher.shell()));
  const hipGraphNode_t handle = accepted && session.names.tracked() != nullptr
                                    ? open_graphs().node_handle(*session.names.tracked(), matched->index)
                                    : nullptr;
  if (handle == nullptr) return false;
  session.matcher.advance(matched);
  *added.node = handle;
  succeeded_unseen();
  return true;
}

/// Adds a node by the graph's handle: it belongs to no stream.
hipError_t add_node(CaptureSession& session, const AddedNode& added, Describe describe, NativeCapturedAdd forward_only)
    REQUIRES(session.lock) {
  session.note_feed(0);
  if (!session.fate.invalid()) session.check_status();
  Binding& binding = session.recorder.binding();
  Signature signature;
  signature.stream = kNoStream;
  signature.thread = session.feeders.number();
  const auto offset = static_cast<std::uint32_t>(binding.size());
  const NamedNodes named{const_cast<hipGraphNode_t*>(added.after), added.count, 0};
  OperationWriter writer(signature, binding);
  std::optional<OperationTail> after;
  if (!session.fate.invalid() && session.fate.rejected() == nullptr && added.node != nullptr)
    after = session.names.operations(named, session.recorder.nodes());
  const bool followed = after && describe(writer) == Status::kOk && binding.size() <= UINT32_MAX;
  const auto forward = [&] {
    assume_held(session.lock);
    return forward_named(session, named, [&](hipGraphNode_t* nodes) {
      assume_held(session.lock);
      const NodeCreation making;
      return forward_only(session.names.graph(), nodes);
    });
  };
  if (!followed) {
    binding.resize(offset);
    session.expose("a node that cannot be compared was added to a capture");
    return forward();
  }
  const int device = session.feeders.device();
  signature.device = packed_devices(device, device);
  signature.payload_bytes = static_cast<std::uint32_t>(binding.size() - offset);
  if (session.shell()) {
    if (withhold_node(session, added, signature, offset, *after)) return hipSuccess;
    make_real_before(session, offset, "a node differs from every recording", signature);
  }
  const hipError_t result = session.forward_noted(offset, forward);
  if (result != hipSuccess) return result;
  note_judged_operands(signature, binding, offset);
  session.matcher.follow(signature, binding, &*after);
  session.recorder.add({signature, offset, {writer.layout()}, std::move(*after)}, *added.node);
  return result;
}

/// Calls use(session) for the open capture for which is_its(session) holds, under the session's lock. Returns false if
/// there is none. Looks only into those for which may_be(session) holds, without the lock.
template <typename MayBe, typename IsIts, typename Use>
bool with_named_capture(const MayBe& may_be, const IsIts& is_its, const Use& use) {
  if (g_named_captures.load(std::memory_order_acquire) == 0) return false;
  for (const auto& session : open_sessions().all()) {
    if (!may_be(*session)) continue;
    const LockGuard guard(session->lock);
    if (!is_its(*session)) continue;
    use(*session);
    return true;
  }
  return false;
}

template <typename Use>
bool with_capture_of(hipGraph_t graph, const Use& use) {
  const auto may_be = [graph](const CaptureSession& session) { return session.may_name_graph(graph); };
  const auto is_its = [graph](CaptureSession& session) {
    assume_held(session.lock);
    return session.names.names_graph(graph);
  };
  return with_named_capture(may_be, is_its, use);
}

/// Makes the capture real, and no recording, for this reason.
auto expose_for(const char* reason) {
  return [reason](CaptureSession& session) {
    assume_held(session.lock);
    session.expose(reason);
  };
}

}  // namespace

hipError_t tell_capture(StreamArgument stream, const CaptureQuestion& asked, Forward forward) {
  const StreamKey key = stream_key(stream);
  const auto session = open_sessions().find(key);
  if (session == nullptr) return forward();
  const LockGuard guard(session->lock);
  return session->streams.find(key) != nullptr ? answer(*session, key, asked, forward) : forward();
}

hipError_t update_capture_dependencies(hipStream_t stream, const NamedNodes& named, NativeDependencies forward) {
  const StreamKey key = stream_key({stream, false});
  const auto session = open_sessions().find(key);
  if (session != nullptr) {
    const LockGuard guard(session->lock);
    if (session->streams.find(key) != nullptr) return update_dependencies(*session, key, stream, named, forward);
  }
  const hipGraphNode_t* nodes = named.nodes;
  std::vector<hipGraphNode_t> storage;
  const hipError_t failed =
      open_graphs().read_nodes(&nodes, named.count, &storage, "hipStreamUpdateCaptureDependencies");
  return failed == hipSuccess ? forward(const_cast<hipGraphNode_t*>(nodes)) : failed;
}

bool add_to_capture(hipGraph_t graph, const AddedNode& added, Describe describe, NativeCapturedAdd forward,
                    hipError_t* result) {
  return with_capture_of(graph, [&](CaptureSession& session) {
    assume_held(session.lock);
    *result = add_node(session, added, describe, forward);
  });
}

bool hold_by_capture(hipGraph_t graph, NativeGraphCall forward, hipError_t* result) {
  return with_capture_of(graph, [&](CaptureSession& session) {
    assume_held(session.lock);
    *result = forward(session.names.graph());
    if (*result == hipSuccess) session.names.hold_objects();
  });
}

void expose_open_graph(hipGraph_t graph, const char* reason) { with_capture_of(graph, expose_for(reason)); }

void expose_open_node(hipGraphNode_t node, const char* reason) {
  const auto has_node = [node](CaptureSession& session) {
    assume_held(session.lock);
    return session.names.names_node(node, session.recorder.nodes());
  };
  with_named_capture([](const CaptureSession&) { return true; }, has_node, expose_for(reason));
}

}  // namespace graphpool
