#include "shim/capture/stream_tail.h"

#include <algorithm>

#include "shim/hip/next.h"
#include "shim/hip/restore.h"

namespace graphpool {

StreamTail runtime_tail(hipStream_t stream) noexcept {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  StreamTail tail;
  tail.known =
      next().hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &tail.nodes, &tail.count) == hipSuccess &&
      status == hipStreamCaptureStatusActive;
  return tail;
}

bool copy_tail(hipStream_t stream, std::vector<hipGraphNode_t>* nodes) {
  const LastErrorScope last_error;
  const StreamTail tail = runtime_tail(stream);
  if (tail.known) nodes->assign(tail.begin(), tail.end());
  return tail.known;
}

hipGraphNode_t last_node(hipStream_t stream) noexcept {
  StreamTail tail;
  const auto ask = [&] { return (tail = runtime_tail(stream)).known ? hipSuccess : hipErrorUnknown; };
  return PrivateCalls::worked(ask) && tail.count == 1 ? tail.nodes[0] : nullptr;
}

// As long as the stream lives the runtime takes replaced nodes, and every later node at such an address, for joined. So
// none is replaced where it is enough to add some.
bool replace_tail(hipStream_t stream, const std::vector<hipGraphNode_t>& nodes) noexcept {
  const StreamTail tail = runtime_tail(stream);
  const bool more = tail.known && tail.count <= nodes.size() && std::equal(tail.begin(), tail.end(), nodes.begin());
  const std::size_t there = more ? tail.count : 0;
  if (more && there == nodes.size()) return true;
  return next().hipStreamUpdateCaptureDependencies(
             stream, const_cast<hipGraphNode_t*>(nodes.data()) + there, nodes.size() - there,
             more ? hipStreamAddCaptureDependencies : hipStreamSetCaptureDependencies) == hipSuccess;
}

bool extend_tail(hipStream_t stream, const std::vector<hipGraphNode_t>& nodes) {
  if (nodes.empty()) return true;
  const LastErrorScope last_error;
  const StreamTail tail = runtime_tail(stream);
  if (!tail.known) return false;
  std::vector<hipGraphNode_t> missing;
  for (const hipGraphNode_t node : nodes)
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) missing.push_back(node);
  return missing.empty() || next().hipStreamUpdateCaptureDependencies(stream, missing.data(), missing.size(),
                                                                      hipStreamAddCaptureDependencies) == hipSuccess;
}

}  // namespace graphpool
