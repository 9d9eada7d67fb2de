// node_hooks.cpp: graphs built node by node, and what the program asks of nodes or sets in them. Nodes that nobody can
// compare, and what only reads or changes a node in another way: generic_hooks.cpp.
#include <algorithm>
#include <iterator>
#include <vector>

#include "hooks/bodies.h"
#include "shim/graphs/graphs.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/hip_abi.h"
#include "shim/hip/restore.h"
#include "shim/memory/copy_params.h"
#include "shim/memory/device_memory.h"

namespace graphpool::hooks {
namespace {

// Operands that the runtime must refuse (memory/address_guard.h) are replaced before anybody looks at them.

/// Describes a copy of one row. `set`: for a node that exists. HIP refuses to set both operands of a node to one
/// address, but adds such a node.
Status describe_row(OperationWriter& to, void* dst, const void* src, size_t count, hipMemcpyKind kind, bool set) {
  return count == 0 || (set && dst == src) ? Status::kUnsupported : to.copy(dst, src, count, kind);
}

/// Without a context the runtime judges the call.
Status describe_driver_copy(OperationWriter& to, const HIP_MEMCPY3D* params, hipCtx_t context) {
  return context == nullptr ? Status::kUnsupported : to.node_driver_copy(params, context);
}
Status describe_driver_fill(OperationWriter& to, const hipMemsetParams* params, hipCtx_t context) {
  hipMemsetParams plain;
  return context == nullptr ? Status::kUnsupported : to.node_fill(plain_fill(params, &plain));
}

/// Whether the parameters ask for nothing but a copy of the child graph.
bool is_plain_child(const AnyNodeParams& params) noexcept {
  return std::all_of(std::begin(params.reserved1) + 1, std::end(params.reserved1),
                     [](long long word) { return word == 0; });
}

/// Asks the runtime a question that it answers with nodes, and puts the handles that the program knows in their place.
template <typename Forward, typename... Lists>
hipError_t ask(hipError_t failed, Forward&& forward, const std::size_t* count, Lists... lists) {
  if (failed != hipSuccess) return failed;
  const std::size_t room = count == nullptr ? 0 : *count;
  const hipError_t result = forward();
  if (result != hipSuccess || count == nullptr) return result;
  const auto tell = [&](hipGraphNode_t* nodes) {
    for (std::size_t i = 0; nodes != nullptr && i < std::min(room, *count); ++i)
      if (nodes[i] != nullptr) nodes[i] = graphs().node_table.as_program_knows(nodes[i]);
  };
  (tell(lists), ...);
  return result;
}

}  // namespace

// --- Building ---

hipError_t on_hipGraphCreate(Entry&, hipGraph_t* graph, unsigned int flags) {
  return create_graph(graph, flags == 0, [&] { return next().hipGraphCreate(graph, flags); });
}

hipError_t on_hipGraphAddKernelNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                    size_t count, const hipKernelNodeParams* params) {
  return add_node(
      {node, graph, dependencies, count}, [&](OperationWriter& to) { return to.node_kernel(params); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddKernelNode(node, real, after, count, params);
      });
}
hipError_t on_hipGraphAddMemcpyNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                    size_t count, const hipMemcpy3DParms* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return add_node(
      {node, graph, dependencies, count}, [&](OperationWriter& to) { return to.node_copy(params); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddMemcpyNode(node, real, after, count, params);
      });
}
hipError_t on_hipGraphAddMemcpyNode1D(Entry&, hipGraphNode_t* node, hipGraph_t graph,
                                      const hipGraphNode_t* dependencies, size_t count, void* dst, const void* src,
                                      size_t bytes, hipMemcpyKind kind) {
  dst = address_guard().operand(dst, bytes);
  src = address_guard().operand(src, bytes);
  return add_node(
      {node, graph, dependencies, count},
      [&](OperationWriter& to) { return describe_row(to, dst, src, bytes, kind, false); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddMemcpyNode1D(node, real, after, count, dst, src, bytes, kind);
      });
}
hipError_t on_hipGraphAddMemsetNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                    size_t count, const hipMemsetParams* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return add_node(
      {node, graph, dependencies, count}, [&](OperationWriter& to) { return to.node_fill(params); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddMemsetNode(node, real, after, count, params);
      });
}
hipError_t on_hipDrvGraphAddMemcpyNode(Entry&, hipGraphNode_t* node, hipGraph_t graph,
                                       const hipGraphNode_t* dependencies, size_t count, const HIP_MEMCPY3D* params,
                                       hipCtx_t context) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return add_node(
      {node, graph, dependencies, count},
      [&](OperationWriter& to) { return describe_driver_copy(to, params, context); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipDrvGraphAddMemcpyNode(node, real, after, count, params, context);
      });
}
hipError_t on_hipDrvGraphAddMemsetNode(Entry&, hipGraphNode_t* node, hipGraph_t graph,
                                       const hipGraphNode_t* dependencies, size_t count, const hipMemsetParams* params,
                                       hipCtx_t context) {
  ParamsCopy copy;
  params = checked_driver_fill(params, &copy);
  return add_node(
      {node, graph, dependencies, count},
      [&](OperationWriter& to) { return describe_driver_fill(to, params, context); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipDrvGraphAddMemsetNode(node, real, after, count, params, context);
      });
}
hipError_t on_hipGraphAddHostNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                  size_t count, const hipHostNodeParams* params) {
  hipError_t result = hipSuccess;
  const bool captured = add_to_capture(
      graph, {node, dependencies, count}, [&](OperationWriter& to) { return to.node_host(params); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddHostNode(node, real, after, count, params);
      },
      &result);
  if (captured) return result;
  return add_node(
      {node, graph, dependencies, count}, [&](OperationWriter& to) { return to.node_host(params); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddHostNode(node, real, after, count, params);
      });
}
hipError_t on_hipGraphAddEmptyNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                   size_t count) {
  return add_node(
      {node, graph, dependencies, count}, [](OperationWriter& to) { return to.node_empty(); },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddEmptyNode(node, real, after, count);
      });
}

/// Takes kernels, copies without flags, fills and plain child graphs as the function for their kind does. Other nodes
/// are not compared: they make the graph real.
hipError_t on_hipGraphAddNode(Entry&, hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* dependencies,
                              size_t count, void* params) {
  ParamsCopy copy;
  params = const_cast<void*>(checked_node(params, &copy));  // the program's own or the copy
  const auto* const seen = static_cast<const AnyNodeParams*>(params);
  const int type = seen == nullptr ? -1 : seen->type;
  if (type == AnyNodeParams::kChild && is_plain_child(*seen))
    return add_child_graph({node, graph, dependencies, count}, seen->child,
                           [&](hipGraph_t real, const hipGraphNode_t* after, hipGraph_t part) {
                             copy.node = *seen;
                             copy.node.child = part;
                             return next().hipGraphAddNode(node, real, after, count, &copy.node);
                           });
  if (type != AnyNodeParams::kKernel && type != AnyNodeParams::kCopy && type != AnyNodeParams::kFill) {
    std::vector<hipGraphNode_t> storage;
    const void* named = params;
    hipError_t failed = graphs().tracked.read_child(&named, &copy.node);
    params = const_cast<void*>(named);  // the program's own or the copy
    if (failed == hipSuccess) failed = graphs().tracked.expose(&graph, "hipGraphAddNode");
    if (failed == hipSuccess) failed = graphs().nodes.read_all(&dependencies, count, &storage, "hipGraphAddNode");
    return failed == hipSuccess ? next().hipGraphAddNode(node, graph, dependencies, count, params) : failed;
  }
  return add_node(
      {node, graph, dependencies, count},
      [&](OperationWriter& to) {
        if (type == AnyNodeParams::kKernel) return to.node_kernel(&seen->kernel);
        if (type == AnyNodeParams::kFill) return to.node_fill(&seen->fill);
        return seen->copy.flags == 0 ? to.node_copy(&seen->copy.params) : Status::kUnsupported;
      },
      [&](hipGraph_t real, const hipGraphNode_t* after) {
        return next().hipGraphAddNode(node, real, after, count, params);
      });
}

hipError_t on_hipGraphAddDependencies(Entry&, hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                      size_t count) {
  hipError_t result = hipSuccess;
  if (add_edges(graph, from, to, count, &result)) return result;
  std::vector<hipGraphNode_t> first, last;
  result = graphs().tracked.expose(&graph, "hipGraphAddDependencies");
  if (result == hipSuccess) result = graphs().nodes.read_all(&from, count, &first, "hipGraphAddDependencies");
  if (result == hipSuccess) result = graphs().nodes.read_all(&to, count, &last, "hipGraphAddDependencies");
  return result == hipSuccess ? next().hipGraphAddDependencies(graph, from, to, count) : result;
}

hipError_t on_hipGraphDestroyNode(Entry&, hipGraphNode_t node) {
  return graphs().nodes.destroy(node, [](hipGraphNode_t real) { return next().hipGraphDestroyNode(real); });
}

// --- What a graph and its nodes are asked ---

hipError_t on_hipGraphGetNodes(Entry&, hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  if (nodes == nullptr && count != nullptr && graphs().tracked.count_nodes(graph, count)) {
    static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
    return hipSuccess;
  }
  const hipError_t failed = graphs().tracked.read(&graph, "hipGraphGetNodes");
  return ask(
      failed, [&] { return next().hipGraphGetNodes(graph, nodes, count); }, count, nodes);
}
hipError_t on_hipGraphGetRootNodes(Entry&, hipGraph_t graph, hipGraphNode_t* nodes, size_t* count) {
  const hipError_t failed = graphs().tracked.read(&graph, "hipGraphGetRootNodes");
  return ask(
      failed, [&] { return next().hipGraphGetRootNodes(graph, nodes, count); }, count, nodes);
}
hipError_t on_hipGraphGetEdges(Entry&, hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to, size_t* count) {
  const hipError_t failed = graphs().tracked.read(&graph, "hipGraphGetEdges");
  return ask(
      failed, [&] { return next().hipGraphGetEdges(graph, from, to, count); }, count, from, to);
}
hipError_t on_hipGraphNodeGetDependencies(Entry&, hipGraphNode_t node, hipGraphNode_t* nodes, size_t* count) {
  const hipError_t failed = graphs().nodes.read(&node, "hipGraphNodeGetDependencies");
  return ask(
      failed, [&] { return next().hipGraphNodeGetDependencies(node, nodes, count); }, count, nodes);
}
hipError_t on_hipGraphNodeGetDependentNodes(Entry&, hipGraphNode_t node, hipGraphNode_t* nodes, size_t* count) {
  const hipError_t failed = graphs().nodes.read(&node, "hipGraphNodeGetDependentNodes");
  return ask(
      failed, [&] { return next().hipGraphNodeGetDependentNodes(node, nodes, count); }, count, nodes);
}
hipError_t on_hipGraphNodeFindInClone(Entry&, hipGraphNode_t* found, hipGraphNode_t original, hipGraph_t clone) {
  if (const hipGraphNode_t copy = found == nullptr ? nullptr : graphs().nodes.find_in_copy(original, clone)) {
    *found = copy;
    static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
    return hipSuccess;
  }
  hipError_t failed = graphs().nodes.read(&original, "hipGraphNodeFindInClone");
  if (failed == hipSuccess) failed = graphs().tracked.read(&clone, "hipGraphNodeFindInClone");
  return failed == hipSuccess ? next().hipGraphNodeFindInClone(found, original, clone) : failed;
}
hipError_t on_hipGraphChildGraphNodeGetGraph(Entry&, hipGraphNode_t node, hipGraph_t* inside) {
  // The program may change the graph that it gets.
  hipError_t failed = graphs().nodes.expose(&node, "hipGraphChildGraphNodeGetGraph");
  if (failed == hipSuccess) failed = next().hipGraphChildGraphNodeGetGraph(node, inside);
  if (failed == hipSuccess) graphs().nodes.note_inside(node, *inside);
  return failed;
}
hipError_t on_hipGraphKernelNodeGetParams(Entry&, hipGraphNode_t node, hipKernelNodeParams* params) {
  // The answer points to the node's own arguments: the program may write them.
  const hipError_t failed = graphs().nodes.expose(&node, "hipGraphKernelNodeGetParams");
  return failed == hipSuccess ? next().hipGraphKernelNodeGetParams(node, params) : failed;
}

// --- What the program sets in a graph's nodes ---

hipError_t on_hipGraphKernelNodeSetParams(Entry&, hipGraphNode_t node, const hipKernelNodeParams* params) {
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return to.node_kernel(params); },
      [&](hipGraphNode_t real) { return next().hipGraphKernelNodeSetParams(real, params); });
}
hipError_t on_hipGraphMemcpyNodeSetParams(Entry&, hipGraphNode_t node, const hipMemcpy3DParms* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return to.node_copy(params); },
      [&](hipGraphNode_t real) { return next().hipGraphMemcpyNodeSetParams(real, params); });
}
hipError_t on_hipDrvGraphMemcpyNodeSetParams(Entry&, hipGraphNode_t node, const HIP_MEMCPY3D* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return to.node_driver_copy(params, nullptr); },
      [&](hipGraphNode_t real) { return next().hipDrvGraphMemcpyNodeSetParams(real, params); });
}
hipError_t on_hipGraphMemcpyNodeSetParams1D(Entry&, hipGraphNode_t node, void* dst, const void* src, size_t bytes,
                                            hipMemcpyKind kind) {
  dst = address_guard().operand(dst, bytes);
  src = address_guard().operand(src, bytes);
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return describe_row(to, dst, src, bytes, kind, true); },
      [&](hipGraphNode_t real) { return next().hipGraphMemcpyNodeSetParams1D(real, dst, src, bytes, kind); });
}
hipError_t on_hipGraphMemsetNodeSetParams(Entry&, hipGraphNode_t node, const hipMemsetParams* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return to.node_fill(params); },
      [&](hipGraphNode_t real) { return next().hipGraphMemsetNodeSetParams(real, params); });
}
hipError_t on_hipGraphHostNodeSetParams(Entry&, hipGraphNode_t node, const hipHostNodeParams* params) {
  return graphs().nodes.set(
      node, [&](OperationWriter& to) { return to.node_host(params); },
      [&](hipGraphNode_t real) { return next().hipGraphHostNodeSetParams(real, params); });
}
hipError_t on_hipGraphKernelNodeCopyAttributes(Entry&, hipGraphNode_t from, hipGraphNode_t to) {
  hipError_t failed = graphs().nodes.read(&from, "hipGraphKernelNodeCopyAttributes");
  if (failed == hipSuccess) failed = graphs().nodes.expose(&to, "hipGraphKernelNodeCopyAttributes");
  return failed == hipSuccess ? next().hipGraphKernelNodeCopyAttributes(from, to) : failed;
}

// --- What the program sets in an exec's nodes ---

hipError_t on_hipGraphExecKernelNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                              const hipKernelNodeParams* params) {
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return to.node_kernel(params); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipGraphExecKernelNodeSetParams(real, its, params);
      });
}
hipError_t on_hipGraphExecMemcpyNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                              hipMemcpy3DParms* params) {
  ParamsCopy copy;
  params = const_cast<hipMemcpy3DParms*>(checked_params(params, &copy));  // the program's own or ours
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return to.node_copy(params); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipGraphExecMemcpyNodeSetParams(real, its, params);
      });
}
hipError_t on_hipDrvGraphExecMemcpyNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                                 const HIP_MEMCPY3D* params, hipCtx_t context) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return describe_driver_copy(to, params, context); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipDrvGraphExecMemcpyNodeSetParams(real, its, params, context);
      });
}
hipError_t on_hipDrvGraphExecMemsetNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                                 const hipMemsetParams* params, hipCtx_t context) {
  ParamsCopy copy;
  params = checked_driver_fill(params, &copy);
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return describe_driver_fill(to, params, context); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipDrvGraphExecMemsetNodeSetParams(real, its, params, context);
      });
}
hipError_t on_hipGraphExecMemcpyNodeSetParams1D(Entry&, hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                const void* src, size_t bytes, hipMemcpyKind kind) {
  dst = address_guard().operand(dst, bytes);
  src = address_guard().operand(src, bytes);
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return describe_row(to, dst, src, bytes, kind, true); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipGraphExecMemcpyNodeSetParams1D(real, its, dst, src, bytes, kind);
      });
}
hipError_t on_hipGraphExecMemsetNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                              const hipMemsetParams* params) {
  ParamsCopy copy;
  params = checked_params(params, &copy);
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return to.node_fill(params); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return next().hipGraphExecMemsetNodeSetParams(real, its, params);
      });
}
hipError_t on_hipGraphExecHostNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node,
                                            const hipHostNodeParams* params) {
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return to.node_host(params); },
      [&](hipGraphExec_t real, hipGraphNode_t its) { return next().hipGraphExecHostNodeSetParams(real, its, params); });
}

}  // namespace graphpool::hooks
