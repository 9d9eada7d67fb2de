// graph_builder.h: makes the real graph of a deferred one.
//
// A deferred graph is made real before what it names goes: before memory goes back to the runtime, and before a module
// is unloaded. Natively it was made before that. Threads: any. Errors: HIP's.
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

#include "shim/graphs/graph_nodes.h"
#include "shim/graphs/materialisations.h"
#include "shim/graphs/tracked_graph.h"

namespace graphpool {

class GraphBuilder {
 public:
  GraphBuilder(GraphNodes& nodes, Materialisations& materialisations) noexcept
      : nodes_(nodes), materialisations_(materialisations) {}

  /// Does nothing if the graph is real. `reason`: a literal, for the report.
  hipError_t make_real(TrackedGraph& graph, const char* reason) REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);

 private:
  static hipError_t build(TrackedGraph& graph, const std::vector<Operation>& operations) REQUIRES(graph.lock);

  GraphNodes& nodes_;
  Materialisations& materialisations_;
};

}  // namespace graphpool
