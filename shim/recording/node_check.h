// node_check.h: is a captured graph exactly what the recording says? (rule 1: nodes are known, not inferred)
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// The nodes of the graph inside the node of an operation, one an operation of the child's; none: they are not known,
/// and taken to come in the order they were added in.
using NodesInside = FunctionRef<std::vector<hipGraphNode_t>(std::size_t index)>;

/// Compares the graph's nodes with the recorded ones (probes captured_kernel_has_parameters,
/// captured_fill_has_parameters, edges_follow_streams, clone_finds_nodes): their number, type, parameters where the
/// runtime tells them, and dependencies. False: `*reason` says what differs, `*which` in what operation; the graph then
/// is no recording.
bool nodes_match(
    hipGraph_t graph, const std::vector<Operation>& operations, const Binding& binding,
    const std::vector<hipGraphNode_t>& nodes, const char** reason, std::uint32_t* which = nullptr,
    NodesInside inside = [](std::size_t) { return std::vector<hipGraphNode_t>(); });

/// The same of the graph inside a node that is a child graph. *nodes: as above; filled in where there are none.
bool child_matches(hipGraph_t child, const Operation& operation, const Binding& binding,
                   std::vector<hipGraphNode_t>* nodes);

/// Those nodes, by the nodes of the graph that the node was made of. None: the runtime does not tell.
std::vector<hipGraphNode_t> nodes_inside(hipGraphNode_t node, const std::vector<hipGraphNode_t>& made_of);

/// "kernel mix", "fill", ... Not under a lock of rank kKernels or above.
std::string operation_name(const Signature& signature);

/// What of a node's parameters differs from the operation: "kernel mix: argument 2"; the kind alone when none does.
std::string difference_of(hipGraphNode_t node, const Operation& operation, const Binding& binding);

}  // namespace graphpool
