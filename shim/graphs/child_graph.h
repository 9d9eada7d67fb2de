// child_graph.h: describes a graph that becomes a part of another one, and gives the runtime what it is to copy.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <vector>

#include "shim/graphs/tracked_graph.h"
#include "shim/recording/reissue.h"

namespace graphpool {

inline constexpr const char* kUsedAsChild = "used as a child graph";

struct ChildGraph {
  HeldRecording recording;  ///< none: it is not known, and HIP must see it
  Binding binding;
  hipGraph_t real = nullptr;          ///< null for a deferred graph
  std::vector<hipGraphNode_t> nodes;  ///< of the real one, one an operation
  std::uint64_t original = 0;         ///< TrackedGraph::original
  TrackedGraph* tracked = nullptr;

  Status describe(OperationWriter& to) const;
  /// Calls use() with a graph that the runtime can copy, and with its nodes (none: they are not known): with the real
  /// graph, with `graph` if it is not known, or with another one that stands for a deferred graph. From the second time
  /// on a deferred graph is real (TrackedGraphs::read_part()), so that it is built once.
  hipError_t give(hipGraph_t graph, GraphUse use) const;
  /// Does the same while no graph's lock is held: a deferred graph that must be built becomes real now.
  hipError_t give_real(hipGraph_t graph, GraphUse use) const;

 private:
  bool give_set(GraphUse use, hipError_t* result) const;
};

}  // namespace graphpool
