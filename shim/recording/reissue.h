// reissue.h: operations made from a recording and a binding instead of a program's call: issued into a capturing
// stream, added to a graph, or set in an exec.
//
// Errors: HIP's. Threads: any; the caller sets the device. Not here: which of these is exact when (execs/recording.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

#include "shim/base/function_ref.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// The call a program would make to capture or run this operation.
hipError_t reissue_into_stream(const Signature& signature, std::uint32_t payload_offset, const ArgumentLayout* layout,
                               const Binding& binding, hipStream_t stream);

/// The node of this operation, behind `after`.
hipError_t add_to_graph(const Operation& operation, const Binding& binding, hipGraph_t graph,
                        const std::vector<hipGraphNode_t>& after, hipGraphNode_t* node);

/// The nodes of all operations, those without a predecessor behind `head`. nodes: one an operation, null where it makes
/// none.
hipError_t add_all_to_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t graph,
                            const std::vector<hipGraphNode_t>& head, std::vector<hipGraphNode_t>* nodes);

/// A graph of our own holding all operations of a recording with the payloads of `binding` (probe
/// node_copies_arguments: the arrays are gone after each call). nodes: one an operation, null where it makes none. On
/// failure nothing is left.
hipError_t build_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t* graph,
                       std::vector<hipGraphNode_t>* nodes);

/// A call with a graph and its nodes, one an operation.
using GraphUse = FunctionRef<hipError_t(hipGraph_t graph, const std::vector<hipGraphNode_t>& nodes)>;

/// Whether such a graph with the binding `baked` may be given another one: its nodes that differ are of a class that
/// the runtime is known to update correctly, in graphs as in execs (patch_table.h). No device has a
/// graph's arguments yet.
bool graph_is_settable(const std::vector<Operation>& operations, const Binding& baked, const Binding& binding) noexcept;
/// Gives it that one. False: a node could not be set, and what the graph does is not known any more.
bool set_graph(const std::vector<Operation>& operations, const Binding& binding,
               const std::vector<hipGraphNode_t>& nodes, Binding* baked);

/// Calls use() with such a graph, which is there for that long: what has a child graph has a copy of it.
hipError_t with_graph(const std::vector<Operation>& operations, const Binding& binding, GraphUse use);

/// Such graphs may be left where use() failed: they are destroyed, or they are gone and forgotten. For a call of the
/// program's that succeeds.
void let_go_of_graphs(bool destroy) noexcept;

/// Gives the exec's node the payload of `binding`.
hipError_t patch_exec(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);

}  // namespace graphpool
