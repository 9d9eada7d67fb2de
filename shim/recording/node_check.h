// node_check.h: compares a graph with exactly what its recording says (rule 1: nodes are known, not inferred).
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// Returns the nodes of the graph inside the node of an operation, one for each operation of the child. Empty: they are
/// not known; then they are taken to be listed in the order in which they were added.
using NodesInside = FunctionRef<std::vector<hipGraphNode_t>(std::size_t index)>;

/// Compares the graph's nodes with the recorded ones (probes captured_kernel_has_parameters,
/// captured_fill_has_parameters, edges_follow_streams, clone_finds_nodes): their number, type, parameters where the
/// runtime tells them, and dependencies. False: the graph is not what was recorded. Then `*reason` says what differs,
/// and `*which`, if a single operation differs, which one.
bool nodes_match(
    hipGraph_t graph, const std::vector<Operation>& operations, const Binding& binding,
    const std::vector<hipGraphNode_t>& nodes, const char** reason, std::uint32_t* which = nullptr,
    NodesInside inside = [](std::size_t) { return std::vector<hipGraphNode_t>(); });

/// Does so for the graph inside a child graph's node. *nodes: its nodes as above; filled in where they are not known.
bool child_matches(hipGraph_t child, const Operation& operation, const Binding& binding,
                   std::vector<hipGraphNode_t>* nodes);

/// Returns the nodes inside a child graph's node, in the order of `made_of`, the nodes of the graph that it was made
/// of. Empty: the runtime does not tell them.
std::vector<hipGraphNode_t> nodes_inside(hipGraphNode_t node, const std::vector<hipGraphNode_t>& made_of);

/// Returns "kernel mix", "fill", ... Not under a lock of rank kKernels or above.
std::string operation_name(const Signature& signature);

/// Returns what of a node's parameters differs: "kernel mix: argument 2"; operation_name() alone where nothing does, or
/// `node` is null.
std::string difference_of(hipGraphNode_t node, const Operation& operation, const Binding& binding);

}  // namespace graphpool
