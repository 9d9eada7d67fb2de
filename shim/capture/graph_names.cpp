#include "shim/capture/graph_names.h"

#include <algorithm>

#include "shim/capture/capture_sink.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"

namespace graphpool {

void GraphNames::give() noexcept {
  if (!std::exchange(given_, true)) g_named_captures.fetch_add(1, std::memory_order_acq_rel);
}

void GraphNames::clear() noexcept {
  if (tracked_ != nullptr) open_graphs().drop(*std::exchange(tracked_, nullptr));
  if (std::exchange(given_, false)) g_named_captures.fetch_sub(1, std::memory_order_acq_rel);
  graph_ = nullptr;
  holds_objects_ = false;
  noted_.clear();
}

bool GraphNames::ask_for_graph(hipStream_t origin) {
  if (graph_ != nullptr) return true;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  const auto ask = [&] {
    return next().hipStreamGetCaptureInfo_v2(origin, &status, nullptr, &graph_, nullptr, nullptr);
  };
  const bool known = PrivateCalls::answered(ask) && status == hipStreamCaptureStatusActive && graph_ != nullptr;
  noted_.add(graph_);
  return known;
}

bool GraphNames::track() {
  if (!open_graphs().add(&tracked_)) return false;
  noted_.add(open_graphs().handle(*tracked_));
  return true;
}

bool GraphNames::names_graph(hipGraph_t handle) const noexcept {
  if (!given_) return false;
  return tracked_ != nullptr ? open_graphs().handle(*tracked_) == handle : graph_ != nullptr && graph_ == handle;
}

bool GraphNames::names_node(hipGraphNode_t handle, const std::vector<hipGraphNode_t>& nodes) const noexcept {
  if (!given_) return false;
  const NodeRef ours = open_graphs().node(handle);
  if (ours.graph != nullptr) return ours.graph == tracked_.get();
  return std::find(nodes.begin(), nodes.end(), handle) != nodes.end();
}

std::optional<OperationTail> GraphNames::operations(const NamedNodes& named,
                                                    const std::vector<hipGraphNode_t>& nodes) const {
  if (named.count != 0 && named.nodes == nullptr) return std::nullopt;
  OperationTail operations;
  for (std::size_t i = 0; i < named.count; ++i) {
    const hipGraphNode_t node = named.nodes[i];
    const NodeRef ours = open_graphs().node(node);
    std::uint32_t operation = ours.index;
    if (ours.graph == nullptr) {
      const auto found = std::find(nodes.rbegin(), nodes.rend(), node);
      if (node == nullptr || found == nodes.rend()) return std::nullopt;
      operation = static_cast<std::uint32_t>(nodes.rend() - found) - 1;
    } else if (ours.graph != tracked_.get()) {
      return std::nullopt;
    }
    if (std::find(operations.begin(), operations.end(), operation) != operations.end()) return std::nullopt;
    operations.push_back(operation);
  }
  return operations;
}

std::optional<std::vector<hipGraphNode_t>> GraphNames::native_nodes(const NamedNodes& named,
                                                                    const std::vector<hipGraphNode_t>& nodes) const {
  std::vector<hipGraphNode_t> native;
  for (std::size_t i = 0; named.nodes != nullptr && i < named.count; ++i) {
    const NodeRef ours = open_graphs().node(named.nodes[i]);
    const bool own = ours.graph != nullptr && ours.graph == tracked_.get() && ours.index < nodes.size();
    if (!own && open_graphs().gave_out(named.nodes[i])) return std::nullopt;
    native.push_back(own ? nodes[ours.index] : named.nodes[i]);
  }
  return native;
}

}  // namespace graphpool
