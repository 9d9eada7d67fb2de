// graph_names.h: keeps the names by which a program knows the graph of an open capture, and its nodes (open_graph.cpp).
//
// A shell has no nodes in the runtime. So the program gets handles of the library's own. They name a graph that becomes
// the deferred graph when the capture ends, or stands for the runtime's graph if the capture becomes real.
// Threads: one at a time (the capture's lock).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "shim/capture/capture.h"
#include "shim/capture/capture_streams.h"

namespace graphpool {

class TrackedGraph;

class GraphNames {
 public:
  /// Notes that the program knows the graph, or nodes of it, from now on.
  void give() noexcept;
  bool given() const noexcept { return given_; }
  /// Forgets the names when the capture is over. The program may hold a handle of a graph that no one has taken over;
  /// that handle names nothing from then on.
  void clear() noexcept;

  /// The runtime's graph; null: it was not asked for.
  hipGraph_t graph() const noexcept { return graph_; }
  void know_graph(hipGraph_t graph) noexcept {
    graph_ = graph;
    noted_.add(graph);
  }
  /// Asks the runtime which graph it captures into, by the capture's origin, if that is not known.
  bool ask_for_graph(hipStream_t origin);
  /// Makes a graph whose handles the program is given. Returns false where there is no handle left.
  bool track();
  /// The graph of track(); null: there is none.
  const std::shared_ptr<TrackedGraph>& tracked() const noexcept { return tracked_; }
  std::shared_ptr<TrackedGraph> take_tracked() noexcept { return std::move(tracked_); }
  /// Whether the graph holds on to user objects.
  bool holds_objects() const noexcept { return holds_objects_; }
  void hold_objects() noexcept { holds_objects_ = true; }

  /// Whether the program knows the capture's graph, or a node of it, by this handle. `nodes`: the runtime's, of the
  /// capture's operations.
  bool names_graph(hipGraph_t handle) const noexcept;
  /// Returns false only where names_graph() does. Needs no lock.
  bool may_name_graph(hipGraph_t handle) const noexcept { return noted_.may_have(handle); }
  bool names_node(hipGraphNode_t handle, const std::vector<hipGraphNode_t>& nodes) const noexcept;
  /// The operations whose nodes are named, each once. Nothing: the runtime must judge the names.
  std::optional<OperationTail> operations(const NamedNodes& named, const std::vector<hipGraphNode_t>& nodes) const;
  /// The runtime's nodes that are named. Nothing: a name is of a node that the runtime does not have.
  std::optional<std::vector<hipGraphNode_t>> native_nodes(const NamedNodes& named,
                                                          const std::vector<hipGraphNode_t>& nodes) const;

 private:
  hipGraph_t graph_ = nullptr;
  std::shared_ptr<TrackedGraph> tracked_;
  bool given_ = false;
  bool holds_objects_ = false;
  NotedHandles noted_;  ///< of graph_ and tracked_
};

}  // namespace graphpool
