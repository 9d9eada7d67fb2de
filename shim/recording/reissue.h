// reissue.h: makes operations from a recording and a binding instead of a program's call: issues them into a capturing
// stream, adds them to a graph, or sets them in an exec.
//
// Errors: HIP's. Threads: any. For a single operation the caller sets the device; where all are made or set, this is
// done here. Not here: which of these is exact when (patch_table.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

#include "shim/base/function_ref.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// Makes the call that a program would make to capture or run this operation.
hipError_t reissue_into_stream(const Signature& signature, std::uint32_t payload_offset, const ArgumentLayout* layout,
                               const Binding& binding, hipStream_t stream);

/// Adds the node of this operation, behind `after`.
hipError_t add_to_graph(const Operation& operation, const Binding& binding, hipGraph_t graph,
                        const std::vector<hipGraphNode_t>& after, hipGraphNode_t* node);

/// Adds the nodes of all operations, those without a predecessor behind `head`. *nodes: one for each operation, null
/// where it makes none.
hipError_t add_all_to_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t graph,
                            const std::vector<hipGraphNode_t>& head, std::vector<hipGraphNode_t>* nodes);

/// Makes a graph of the library's own with all operations of a recording and the payloads of `binding` (probe
/// node_copies_arguments: the arrays are gone after each call). *nodes: one for each operation, null where it makes
/// none. On failure nothing is left.
hipError_t build_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t* graph,
                       std::vector<hipGraphNode_t>* nodes);

/// A call with a graph and its nodes, one an operation.
using GraphUse = FunctionRef<hipError_t(hipGraph_t graph, const std::vector<hipGraphNode_t>& nodes)>;

/// Whether a graph of build_graph() that has the binding `baked` may be given another: only kernels differ, and the
/// runtime is known to update these correctly (patch_table.h). The device does not matter: no arguments are there yet.
bool graph_is_settable(const std::vector<Operation>& operations, const Binding& baked, const Binding& binding) noexcept;
/// Gives the graph that binding, and notes it in *baked. False: a node could not be set, and nobody knows any more what
/// the graph does.
bool set_graph(const std::vector<Operation>& operations, const Binding& binding,
               const std::vector<hipGraphNode_t>& nodes, Binding* baked);

/// Calls use() with a graph of build_graph(), and destroys the graph, unless use() failed before HIP 7: then
/// let_go_of_graphs() does. A child graph's node that is made of the graph has a copy.
hipError_t with_graph(const std::vector<Operation>& operations, const Binding& binding, GraphUse use);

/// Destroys the graphs that with_graph() has left where use() failed; `destroy` false: forgets them, because they are
/// gone. Call it in a call of the program's that succeeds.
void let_go_of_graphs(bool destroy) noexcept;

/// Gives the exec's node the payload of `binding`.
hipError_t patch_exec(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);

}  // namespace graphpool
