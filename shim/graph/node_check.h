// node_check.h: is a captured graph exactly what the recording says? (rule 1: nodes are known, not inferred)
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

#include "shim/capture/operation.h"

namespace graphpool {

/// Compares the graph's nodes with the recorded ones: their number, type, parameters where the runtime tells them, and
/// dependencies. False: `*why` says what differs; the graph then is no template.
bool nodes_match(hipGraph_t graph, const std::vector<Operation>& operations, const Binding& binding,
                 const std::vector<hipGraphNode_t>& nodes, const char** why);

}  // namespace graphpool
