// graph.cpp: graphs, their nodes, executable graphs, user objects. Each function is the driver's with its structures
// translated. Nodes that copy from or to a registered variable are plain copies here.
#include <cstring>
#include <type_traits>

#include "translate.h"

using namespace cudahip;
namespace abi = hipfront;

namespace {

cu::Context* context() { return context_of(current_ordinal()); }

/// Where a node is put: graph, dependencies.
struct Place {
  hipGraphNode_t* node;
  hipGraph_t graph;
  const hipGraphNode_t* after;
  std::size_t count;

  template <typename Add, typename... Parameters>
  cu::Result add(Add function, Parameters... parameters) const {
    if (node == nullptr) return cu::kInvalidValue;
    return function(out<cu::Node*>(node), graph_of(graph), nodes_of(after), count, parameters...);
  }
};

hipError_t add_kernel(const Place& place, const hipKernelNodeParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  cu::KernelNode translated;
  if (const hipError_t error = translate(*params, &translated); error != hipSuccess) return error;
  Extra extra(params->extra, translated.function);
  translated.extra = extra.get();
  return translate(place.add(driver().cuGraphAddKernelNode_v2, &translated));
}

/// A copy's parameters as the driver's, or why there are none.
struct Copy {
  cu::Copy3D params;
  hipError_t error;
};

template <typename Params>
Copy box(const Params* params) {
  Copy copy;
  copy.error = params == nullptr ? hipErrorInvalidValue : translate(*params, &copy.params);
  return copy;
}

Copy row(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  Copy copy;
  copy.error = linear_copy(dst, src, bytes, kind, &copy.params);
  return copy;
}

Copy symbol_copy(const void* symbol, std::size_t bytes, std::size_t offset, bool to_symbol, const void* other) {
  cu::Address place = 0;
  std::size_t size = 0;
  if (const hipError_t error = symbol_address(symbol, &place, &size); error != hipSuccess) return {{}, error};
  if (offset > size || bytes > size - offset) return {{}, hipErrorInvalidValue};
  void* const variable = reinterpret_cast<void*>(place + offset);
  return to_symbol ? row(variable, other, bytes, hipMemcpyDefault)
                   : row(const_cast<void*>(other), variable, bytes, hipMemcpyDefault);
}

hipError_t add_copy(const Place& place, const Copy& copy, cu::Context* in = context()) {
  return copy.error != hipSuccess ? copy.error : translate(place.add(driver().cuGraphAddMemcpyNode, &copy.params, in));
}

hipError_t add_memset(const Place& place, const hipMemsetParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  const cu::MemsetNode translated = translate(*params);
  return translate(place.add(driver().cuGraphAddMemsetNode, &translated, context()));
}

hipError_t add_host(const Place& place, const hipHostNodeParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  const cu::HostNode translated{params->fn, params->userData};
  return translate(place.add(driver().cuGraphAddHostNode, &translated));
}

/// The driver's functions for nodes that signal semaphores, or for those that wait for them.
struct SemaphoreNodes {
  decltype(cu::Table::cuGraphAddExternalSemaphoresSignalNode) add;
  decltype(cu::Table::cuGraphExternalSemaphoresSignalNodeGetParams) get;
  decltype(cu::Table::cuGraphExternalSemaphoresSignalNodeSetParams) set;
  decltype(cu::Table::cuGraphExecExternalSemaphoresSignalNodeSetParams) set_in_exec;
};
SemaphoreNodes signal_nodes() {
  const cu::Table& all = driver();
  return {all.cuGraphAddExternalSemaphoresSignalNode, all.cuGraphExternalSemaphoresSignalNodeGetParams,
          all.cuGraphExternalSemaphoresSignalNodeSetParams, all.cuGraphExecExternalSemaphoresSignalNodeSetParams};
}
SemaphoreNodes wait_nodes() {
  const cu::Table& all = driver();
  return {all.cuGraphAddExternalSemaphoresWaitNode, all.cuGraphExternalSemaphoresWaitNodeGetParams,
          all.cuGraphExternalSemaphoresWaitNodeSetParams, all.cuGraphExecExternalSemaphoresWaitNodeSetParams};
}

/// Whose parameters are set: a node's, or those it has in an executable graph.
struct InGraph {
  hipGraphNode_t node;

  cu::Result set(const cu::KernelNode& to) const { return driver().cuGraphKernelNodeSetParams_v2(node_of(node), &to); }
  cu::Result set(const cu::Copy3D& to) const { return driver().cuGraphMemcpyNodeSetParams(node_of(node), &to); }
  cu::Result set(const cu::MemsetNode& to) const { return driver().cuGraphMemsetNodeSetParams(node_of(node), &to); }
  cu::Result set(const cu::HostNode& to) const { return driver().cuGraphHostNodeSetParams(node_of(node), &to); }
  cu::Result set(const cu::BatchNode& to) const { return driver().cuGraphBatchMemOpNodeSetParams(node_of(node), &to); }
  cu::Result set_child(hipGraph_t) const { return cu::kNotSupported; }
  cu::Result set_record(hipEvent_t to) const {
    return driver().cuGraphEventRecordNodeSetEvent(node_of(node), event_of(to));
  }
  cu::Result set_wait(hipEvent_t to) const {
    return driver().cuGraphEventWaitNodeSetEvent(node_of(node), event_of(to));
  }
  cu::Result set(const SemaphoreNodes& kind, const cu::SemaphoreNode* to) const { return kind.set(node_of(node), to); }
};
struct InExec {
  hipGraphExec_t exec;
  hipGraphNode_t node;

  cu::Result set(const cu::KernelNode& to) const {
    return driver().cuGraphExecKernelNodeSetParams_v2(exec_of(exec), node_of(node), &to);
  }
  cu::Result set(const cu::Copy3D& to) const {
    return driver().cuGraphExecMemcpyNodeSetParams(exec_of(exec), node_of(node), &to, context());
  }
  cu::Result set(const cu::MemsetNode& to) const {
    return driver().cuGraphExecMemsetNodeSetParams(exec_of(exec), node_of(node), &to, context());
  }
  cu::Result set(const cu::HostNode& to) const {
    return driver().cuGraphExecHostNodeSetParams(exec_of(exec), node_of(node), &to);
  }
  cu::Result set(const cu::BatchNode& to) const {
    return driver().cuGraphExecBatchMemOpNodeSetParams(exec_of(exec), node_of(node), &to);
  }
  cu::Result set_child(hipGraph_t to) const {
    return driver().cuGraphExecChildGraphNodeSetParams(exec_of(exec), node_of(node), graph_of(to));
  }
  cu::Result set_record(hipEvent_t to) const {
    return driver().cuGraphExecEventRecordNodeSetEvent(exec_of(exec), node_of(node), event_of(to));
  }
  cu::Result set_wait(hipEvent_t to) const {
    return driver().cuGraphExecEventWaitNodeSetEvent(exec_of(exec), node_of(node), event_of(to));
  }
  cu::Result set(const SemaphoreNodes& kind, const cu::SemaphoreNode* to) const {
    return kind.set_in_exec(exec_of(exec), node_of(node), to);
  }
};

template <typename Target>
hipError_t set_kernel(const Target& target, const hipKernelNodeParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  cu::KernelNode translated;
  if (const hipError_t error = translate(*params, &translated); error != hipSuccess) return error;
  Extra extra(params->extra, translated.function);
  translated.extra = extra.get();
  return translate(target.set(translated));
}

template <typename Target>
hipError_t set_copy(const Target& target, const Copy& copy) {
  return copy.error != hipSuccess ? copy.error : translate(target.set(copy.params));
}

template <typename Target>
hipError_t set_memset(const Target& target, const hipMemsetParams* params) {
  return params == nullptr ? hipErrorInvalidValue : translate(target.set(translate(*params)));
}

template <typename Target>
hipError_t set_host(const Target& target, const hipHostNodeParams* params) {
  return params == nullptr ? hipErrorInvalidValue : translate(target.set(cu::HostNode{params->fn, params->userData}));
}

template <typename Target>
hipError_t set_batch(const Target& target, const abi::BatchMemOpNodeParams* params) {
  return params == nullptr ? hipErrorInvalidValue : translate(target.set(translate(*params)));
}

/// A node's parameters, asked for by `ask`, as the program has them.
template <typename Found, typename Params>
cu::Result get(cu::Result (*ask)(cu::Node*, Found*), hipGraphNode_t node, Params* params) {
  if (params == nullptr) return cu::kInvalidValue;
  Found found{};
  const cu::Result result = ask(node_of(node), &found);
  if (result != cu::kSuccess) return result;
  if constexpr (requires { translate(found, params); })
    translate(found, params);
  else
    *params = translate(found);
  return result;
}

/// `call` has the parameters of a node of semaphores as the driver's.
template <typename Params, typename Call>
hipError_t with_semaphores(Params* params, Call&& call) {
  if (const hipError_t error = same_external_layout(); error != hipSuccess) return error;
  static_assert(sizeof(abi::SemaphoreNodeParams) == sizeof(cu::SemaphoreNode));
  using Driver = std::conditional_t<std::is_const_v<Params>, const cu::SemaphoreNode, cu::SemaphoreNode>;
  return params == nullptr ? hipErrorInvalidValue : translate(call(reinterpret_cast<Driver*>(params)));
}

hipError_t add_semaphores(const SemaphoreNodes& kind, const Place& place, const abi::SemaphoreNodeParams* params) {
  return with_semaphores(params, [&](const cu::SemaphoreNode* to) { return place.add(kind.add, to); });
}

template <typename Target>
hipError_t set_semaphores(const SemaphoreNodes& kind, const Target& target, const abi::SemaphoreNodeParams* params) {
  return with_semaphores(params, [&](const cu::SemaphoreNode* to) { return target.set(kind, to); });
}

hipError_t get_semaphores(const SemaphoreNodes& kind, hipGraphNode_t node, abi::SemaphoreNodeParams* params) {
  return with_semaphores(params, [&](cu::SemaphoreNode* to) { return kind.get(node_of(node), to); });
}

template <typename Target>
hipError_t set_any(const Target& target, const abi::NodeParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  switch (params->type) {
    case 0:
      return set_kernel(target, &params->kernel);
    case 1:
      return set_copy(target, box(&params->memcpy.copy));
    case 2:
      return set_memset(target, &params->memset);
    case 3:
      return set_host(target, &params->host);
    case 4:
      return translate(target.set_child(params->graph));
    case 5:
      return hipSuccess;
    case 6:
      return translate(target.set_wait(params->event));
    case 7:
      return translate(target.set_record(params->event));
    case 8:
      return set_semaphores(signal_nodes(), target, &params->semaphores);
    case 9:
      return set_semaphores(wait_nodes(), target, &params->semaphores);
    default:
      return hipErrorNotSupported;
  }
}

hipError_t add_any(const Place& place, abi::NodeParams* params) {
  if (params == nullptr) return hipErrorInvalidValue;
  // hipGraphNodeParams came with HIP 6: its types count from Kernel = 0.
  switch (params->type) {
    case 0:
      return add_kernel(place, &params->kernel);
    case 1:
      return add_copy(place, box(&params->memcpy.copy));
    case 2:
      return add_memset(place, &params->memset);
    case 3:
      return add_host(place, &params->host);
    case 4:
      return translate(place.add(driver().cuGraphAddChildGraphNode, graph_of(params->graph)));
    case 5:
      return translate(place.add(driver().cuGraphAddEmptyNode));
    case 6:
      return translate(place.add(driver().cuGraphAddEventWaitNode, event_of(params->event)));
    case 7:
      return translate(place.add(driver().cuGraphAddEventRecordNode, event_of(params->event)));
    case 8:
      return add_semaphores(signal_nodes(), place, &params->semaphores);
    case 9:
      return add_semaphores(wait_nodes(), place, &params->semaphores);
    case 10:
      return translate(place.add(driver().cuGraphAddMemAllocNode, static_cast<void*>(&params->alloc)));
    case 11:
      return translate(place.add(driver().cuGraphAddMemFreeNode, address(params->freed)));
    default:
      return hipErrorNotSupported;
  }
}

/// HIP makes and destroys execs whatever is being captured; CUDA refuses that, and invalidates the capture, by the
/// thread's mode.
template <typename Body>
cu::Result beside_captures(Body&& body) {
  int mode = hipStreamCaptureModeRelaxed;
  if (const cu::Result result = driver().cuThreadExchangeStreamCaptureMode(&mode); result != cu::kSuccess)
    return result;
  const cu::Result result = body();
  driver().cuThreadExchangeStreamCaptureMode(&mode);
  return result;
}

hipError_t instantiate(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags) {
  if (exec == nullptr) return hipErrorInvalidValue;
  return translate(beside_captures(
      [&] { return driver().cuGraphInstantiateWithFlags(out<cu::Exec*>(exec), graph_of(graph), flags); }));
}

hipError_t update(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* node, hipGraphExecUpdateResult* result) {
  if (node == nullptr || result == nullptr) return hipErrorInvalidValue;
  cu::UpdateResult found{};
  const cu::Result done = driver().cuGraphExecUpdate_v2(exec_of(exec), graph_of(graph), &found);
  *node = reinterpret_cast<hipGraphNode_t>(found.error_node);
  *result = static_cast<hipGraphExecUpdateResult>(found.result);
  return translate(done);
}

}  // namespace

// --- Graphs ---
HIP_EXPORT hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  return api(
      [&] { return graph == nullptr ? cu::kInvalidValue : driver().cuGraphCreate(out<cu::Graph*>(graph), flags); });
}
HIP_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) {
  return api([&] { return driver().cuGraphDestroy(graph_of(graph)); });
}
HIP_EXPORT hipError_t hipGraphClone(hipGraph_t* clone, hipGraph_t graph) {
  return api([&] { return driver().cuGraphClone(out<cu::Graph*>(clone), graph_of(graph)); });
}
HIP_EXPORT hipError_t hipGraphNodeFindInClone(hipGraphNode_t* found, hipGraphNode_t node, hipGraph_t clone) {
  return api([&] { return driver().cuGraphNodeFindInClone(out<cu::Node*>(found), node_of(node), graph_of(clone)); });
}
HIP_EXPORT hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned flags) {
  return api([&] { return driver().cuGraphDebugDotPrint(graph_of(graph), path, flags); });
}
HIP_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* nodes, std::size_t* count) {
  return api([&] { return driver().cuGraphGetNodes(graph_of(graph), out<cu::Node*>(nodes), count); });
}
HIP_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* nodes, std::size_t* count) {
  return api([&] { return driver().cuGraphGetRootNodes(graph_of(graph), out<cu::Node*>(nodes), count); });
}
HIP_EXPORT hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to, std::size_t* count) {
  return api(
      [&] { return driver().cuGraphGetEdges(graph_of(graph), out<cu::Node*>(from), out<cu::Node*>(to), count); });
}
HIP_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                              std::size_t count) {
  return api([&] { return driver().cuGraphAddDependencies(graph_of(graph), nodes_of(from), nodes_of(to), count); });
}
HIP_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                                 std::size_t count) {
  return api([&] { return driver().cuGraphRemoveDependencies(graph_of(graph), nodes_of(from), nodes_of(to), count); });
}
HIP_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  return api([&] { return driver().cuGraphDestroyNode(node_of(node)); });
}
HIP_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  return api([&] {
    int found = 0;
    const cu::Result result = type == nullptr ? cu::kInvalidValue : driver().cuGraphNodeGetType(node_of(node), &found);
    if (result == cu::kSuccess) *type = static_cast<hipGraphNodeType>(node_type(found));
    return result;
  });
}
HIP_EXPORT hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* nodes, std::size_t* count) {
  return api([&] { return driver().cuGraphNodeGetDependencies(node_of(node), out<cu::Node*>(nodes), count); });
}
HIP_EXPORT hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* nodes, std::size_t* count) {
  return api([&] { return driver().cuGraphNodeGetDependentNodes(node_of(node), out<cu::Node*>(nodes), count); });
}

// --- Nodes ---
HIP_EXPORT hipError_t hipGraphAddKernelNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                            std::size_t count, const hipKernelNodeParams* params) {
  return api([&] { return add_kernel({node, graph, after, count}, params); });
}
HIP_EXPORT hipError_t hipGraphAddMemcpyNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                            std::size_t count, const hipMemcpy3DParms* params) {
  return api([&] { return add_copy({node, graph, after, count}, box(params)); });
}
HIP_EXPORT hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                              std::size_t count, void* dst, const void* src, std::size_t bytes,
                                              hipMemcpyKind kind) {
  return api([&] { return add_copy({node, graph, after, count}, row(dst, src, bytes, kind)); });
}
HIP_EXPORT hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                                    std::size_t count, const void* symbol, const void* src,
                                                    std::size_t bytes, std::size_t offset, hipMemcpyKind) {
  return api([&] { return add_copy({node, graph, after, count}, symbol_copy(symbol, bytes, offset, true, src)); });
}
HIP_EXPORT hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* node, hipGraph_t graph,
                                                      const hipGraphNode_t* after, std::size_t count, void* dst,
                                                      const void* symbol, std::size_t bytes, std::size_t offset,
                                                      hipMemcpyKind) {
  return api([&] { return add_copy({node, graph, after, count}, symbol_copy(symbol, bytes, offset, false, dst)); });
}
HIP_EXPORT hipError_t hipGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                            std::size_t count, const hipMemsetParams* params) {
  return api([&] { return add_memset({node, graph, after, count}, params); });
}
HIP_EXPORT hipError_t hipGraphAddHostNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                          std::size_t count, const hipHostNodeParams* params) {
  return api([&] { return add_host({node, graph, after, count}, params); });
}
HIP_EXPORT hipError_t hipGraphAddChildGraphNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                                std::size_t count, hipGraph_t child) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddChildGraphNode, graph_of(child)); });
}
HIP_EXPORT hipError_t hipGraphAddEmptyNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                           std::size_t count) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddEmptyNode); });
}
HIP_EXPORT hipError_t hipGraphAddEventRecordNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                                 std::size_t count, hipEvent_t event) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddEventRecordNode, event_of(event)); });
}
HIP_EXPORT hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                               std::size_t count, hipEvent_t event) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddEventWaitNode, event_of(event)); });
}
HIP_EXPORT hipError_t hipGraphAddMemAllocNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                              std::size_t count, void* params) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddMemAllocNode, params); });
}
HIP_EXPORT hipError_t hipGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                             std::size_t count, void* pointer) {
  return api([&] { return Place{node, graph, after, count}.add(driver().cuGraphAddMemFreeNode, address(pointer)); });
}
HIP_EXPORT hipError_t hipGraphAddNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                      std::size_t count, void* params) {
  return api([&] { return add_any({node, graph, after, count}, static_cast<abi::NodeParams*>(params)); });
}

HIP_EXPORT hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams* params) {
  return api([&] { return get(driver().cuGraphKernelNodeGetParams_v2, node, params); });
}
HIP_EXPORT hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams* params) {
  return api([&] { return set_kernel(InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t src, hipGraphNode_t dst) {
  return api([&] { return driver().cuGraphKernelNodeCopyAttributes(node_of(dst), node_of(src)); });
}
HIP_EXPORT hipError_t hipGraphKernelNodeGetAttribute(hipGraphNode_t node, hipKernelNodeAttrID wanted,
                                                     hipKernelNodeAttrValue* value) {
  return api([&] {
    cu::LaunchAttributeValue found{};
    const cu::Result result =
        value == nullptr ? cu::kInvalidValue
                         : driver().cuGraphKernelNodeGetAttribute(node_of(node), static_cast<int>(wanted), &found);
    if (result == cu::kSuccess) std::memcpy(value, &found, sizeof(abi::KernelAttributeValue));
    return result;
  });
}
HIP_EXPORT hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t node, hipKernelNodeAttrID wanted,
                                                     const hipKernelNodeAttrValue* value) {
  return api([&] {
    cu::LaunchAttributeValue translated{};
    if (value == nullptr) return cu::kInvalidValue;
    std::memcpy(&translated, value, sizeof(abi::KernelAttributeValue));
    return driver().cuGraphKernelNodeSetAttribute(node_of(node), static_cast<int>(wanted), &translated);
  });
}
HIP_EXPORT hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms* params) {
  return api([&] { return get(driver().cuGraphMemcpyNodeGetParams, node, params); });
}
HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms* params) {
  return api([&] { return set_copy(InGraph{node}, box(params)); });
}
HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void* dst, const void* src, std::size_t bytes,
                                                    hipMemcpyKind kind) {
  return api([&] { return set_copy(InGraph{node}, row(dst, src, bytes, kind)); });
}
HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void* symbol, const void* src,
                                                          std::size_t bytes, std::size_t offset, hipMemcpyKind) {
  return api([&] { return set_copy(InGraph{node}, symbol_copy(symbol, bytes, offset, true, src)); });
}
HIP_EXPORT hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void* dst, const void* symbol,
                                                            std::size_t bytes, std::size_t offset, hipMemcpyKind) {
  return api([&] { return set_copy(InGraph{node}, symbol_copy(symbol, bytes, offset, false, dst)); });
}
HIP_EXPORT hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams* params) {
  return api([&] { return get(driver().cuGraphMemsetNodeGetParams, node, params); });
}
HIP_EXPORT hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams* params) {
  return api([&] { return set_memset(InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams* params) {
  return api([&] {
    return params == nullptr
               ? cu::kInvalidValue
               : driver().cuGraphHostNodeGetParams(node_of(node), reinterpret_cast<cu::HostNode*>(params));
  });
}
HIP_EXPORT hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams* params) {
  return api([&] { return set_host(InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t* graph) {
  return api([&] { return driver().cuGraphChildGraphNodeGetGraph(node_of(node), out<cu::Graph*>(graph)); });
}
HIP_EXPORT hipError_t hipGraphEventRecordNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api([&] { return driver().cuGraphEventRecordNodeGetEvent(node_of(node), out<cu::Event*>(event)); });
}
HIP_EXPORT hipError_t hipGraphEventRecordNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api([&] { return InGraph{node}.set_record(event); });
}
HIP_EXPORT hipError_t hipGraphEventWaitNodeGetEvent(hipGraphNode_t node, hipEvent_t* event) {
  return api([&] { return driver().cuGraphEventWaitNodeGetEvent(node_of(node), out<cu::Event*>(event)); });
}
HIP_EXPORT hipError_t hipGraphEventWaitNodeSetEvent(hipGraphNode_t node, hipEvent_t event) {
  return api([&] { return InGraph{node}.set_wait(event); });
}
HIP_EXPORT hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, void* params) {
  return api([&] { return driver().cuGraphMemAllocNodeGetParams(node_of(node), params); });
}
HIP_EXPORT hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void* place) {
  return api([&] { return driver().cuGraphMemFreeNodeGetParams(node_of(node), static_cast<cu::Address*>(place)); });
}

// --- Driver-style nodes ---
HIP_EXPORT hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                               std::size_t count, const HIP_MEMCPY3D* params, hipCtx_t where) {
  return api([&] {
    if (where == nullptr) return hipErrorInvalidValue;
    return add_copy({node, graph, after, count}, box(params), reinterpret_cast<cu::Context*>(where));
  });
}
HIP_EXPORT hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t node, HIP_MEMCPY3D* params) {
  return api([&] { return get(driver().cuGraphMemcpyNodeGetParams, node, params); });
}
HIP_EXPORT hipError_t hipDrvGraphMemcpyNodeSetParams(hipGraphNode_t node, const HIP_MEMCPY3D* params) {
  return api([&] { return set_copy(InGraph{node}, box(params)); });
}
HIP_EXPORT hipError_t hipDrvGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                         const HIP_MEMCPY3D* params, hipCtx_t) {
  return api([&] { return set_copy(InExec{exec, node}, box(params)); });
}
HIP_EXPORT hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                               std::size_t count, const void* params, hipCtx_t) {
  return api([&] {
    if (params == nullptr) return cu::kInvalidValue;
    const cu::MemsetNode fill = driver_fill(params);
    return Place{node, graph, after, count}.add(driver().cuGraphAddMemsetNode, &fill, context());
  });
}
HIP_EXPORT hipError_t hipDrvGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const void* params,
                                                         hipCtx_t) {
  return api([&] { return params == nullptr ? cu::kInvalidValue : InExec{exec, node}.set(driver_fill(params)); });
}
HIP_EXPORT hipError_t hipDrvGraphAddMemFreeNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                                std::size_t count, hipDeviceptr_t pointer) {
  return hipGraphAddMemFreeNode(node, graph, after, count, pointer);
}

// --- Memory operations and semaphores ---
HIP_EXPORT hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                                std::size_t count, const abi::BatchMemOpNodeParams* params) {
  return api([&] {
    if (params == nullptr) return cu::kInvalidValue;
    const cu::BatchNode translated = translate(*params);
    return Place{node, graph, after, count}.add(driver().cuGraphAddBatchMemOpNode, &translated);
  });
}
HIP_EXPORT hipError_t hipGraphBatchMemOpNodeGetParams(hipGraphNode_t node, abi::BatchMemOpNodeParams* params) {
  return api([&] { return get(driver().cuGraphBatchMemOpNodeGetParams, node, params); });
}
HIP_EXPORT hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t node, const abi::BatchMemOpNodeParams* params) {
  return api([&] { return set_batch(InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                          const abi::BatchMemOpNodeParams* params) {
  return api([&] { return set_batch(InExec{exec, node}, params); });
}
HIP_EXPORT hipError_t hipGraphAddExternalSemaphoresSignalNode(hipGraphNode_t* node, hipGraph_t graph,
                                                              const hipGraphNode_t* after, std::size_t count,
                                                              const abi::SemaphoreNodeParams* params) {
  return api([&] { return add_semaphores(signal_nodes(), {node, graph, after, count}, params); });
}
HIP_EXPORT hipError_t hipGraphExternalSemaphoresSignalNodeGetParams(hipGraphNode_t node,
                                                                    abi::SemaphoreNodeParams* params) {
  return api([&] { return get_semaphores(signal_nodes(), node, params); });
}
HIP_EXPORT hipError_t hipGraphExternalSemaphoresSignalNodeSetParams(hipGraphNode_t node,
                                                                    const abi::SemaphoreNodeParams* params) {
  return api([&] { return set_semaphores(signal_nodes(), InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecExternalSemaphoresSignalNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                                        const abi::SemaphoreNodeParams* params) {
  return api([&] { return set_semaphores(signal_nodes(), InExec{exec, node}, params); });
}
HIP_EXPORT hipError_t hipGraphAddExternalSemaphoresWaitNode(hipGraphNode_t* node, hipGraph_t graph,
                                                            const hipGraphNode_t* after, std::size_t count,
                                                            const abi::SemaphoreNodeParams* params) {
  return api([&] { return add_semaphores(wait_nodes(), {node, graph, after, count}, params); });
}
HIP_EXPORT hipError_t hipGraphExternalSemaphoresWaitNodeGetParams(hipGraphNode_t node,
                                                                  abi::SemaphoreNodeParams* params) {
  return api([&] { return get_semaphores(wait_nodes(), node, params); });
}
HIP_EXPORT hipError_t hipGraphExternalSemaphoresWaitNodeSetParams(hipGraphNode_t node,
                                                                  const abi::SemaphoreNodeParams* params) {
  return api([&] { return set_semaphores(wait_nodes(), InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecExternalSemaphoresWaitNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                                      const abi::SemaphoreNodeParams* params) {
  return api([&] { return set_semaphores(wait_nodes(), InExec{exec, node}, params); });
}

// --- Nodes of any kind ---
HIP_EXPORT hipError_t hipGraphNodeSetParams(hipGraphNode_t node, const abi::NodeParams* params) {
  return api([&] { return set_any(InGraph{node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                const abi::NodeParams* params) {
  return api([&] { return set_any(InExec{exec, node}, params); });
}

// --- Executable graphs ---
HIP_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, std::size_t) {
  return api([&] { return instantiate(exec, graph, 0); });
}
HIP_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags) {
  return api([&] { return instantiate(exec, graph, flags); });
}
HIP_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph, void* place) {
  return api([&] {
    auto* params = static_cast<abi::InstantiateParams*>(place);
    if (exec == nullptr || params == nullptr) return cu::kInvalidValue;
    cu::InstantiateParams translated{params->flags, stream_of(params->upload_stream), nullptr, 0};
    const cu::Result result = beside_captures(
        [&] { return driver().cuGraphInstantiateWithParams(out<cu::Exec*>(exec), graph_of(graph), &translated); });
    params->error_node = reinterpret_cast<hipGraphNode_t>(translated.error_node);
    params->result = translated.result;
    return result;
  });
}
HIP_EXPORT hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long* flags) {
  return api([&] { return driver().cuGraphExecGetFlags(exec_of(exec), out<std::uint64_t>(flags)); });
}
HIP_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return api([&] { return beside_captures([&] { return driver().cuGraphExecDestroy(exec_of(exec)); }); });
}
HIP_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* node,
                                         hipGraphExecUpdateResult* result) {
  return api([&] { return update(exec, graph, node, result); });
}
HIP_EXPORT hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                      const hipKernelNodeParams* params) {
  return api([&] { return set_kernel(InExec{exec, node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                      hipMemcpy3DParms* params) {
  return api([&] { return set_copy(InExec{exec, node}, box(params)); });
}
HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                        const void* src, std::size_t bytes, hipMemcpyKind kind) {
  return api([&] { return set_copy(InExec{exec, node}, row(dst, src, bytes, kind)); });
}
HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t exec, hipGraphNode_t node,
                                                              const void* symbol, const void* src, std::size_t bytes,
                                                              std::size_t offset, hipMemcpyKind) {
  return api([&] { return set_copy(InExec{exec, node}, symbol_copy(symbol, bytes, offset, true, src)); });
}
HIP_EXPORT hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t exec, hipGraphNode_t node, void* dst,
                                                                const void* symbol, std::size_t bytes,
                                                                std::size_t offset, hipMemcpyKind) {
  return api([&] { return set_copy(InExec{exec, node}, symbol_copy(symbol, bytes, offset, false, dst)); });
}
HIP_EXPORT hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                      const hipMemsetParams* params) {
  return api([&] { return set_memset(InExec{exec, node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node,
                                                    const hipHostNodeParams* params) {
  return api([&] { return set_host(InExec{exec, node}, params); });
}
HIP_EXPORT hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, hipGraph_t child) {
  return api([&] { return InExec{exec, node}.set_child(child); });
}
HIP_EXPORT hipError_t hipGraphExecEventRecordNodeSetEvent(hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event) {
  return api([&] { return InExec{exec, node}.set_record(event); });
}
HIP_EXPORT hipError_t hipGraphExecEventWaitNodeSetEvent(hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event) {
  return api([&] { return InExec{exec, node}.set_wait(event); });
}
HIP_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned enabled) {
  return api([&] { return driver().cuGraphNodeSetEnabled(exec_of(exec), node_of(node), enabled); });
}
HIP_EXPORT hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned* enabled) {
  return api([&] { return driver().cuGraphNodeGetEnabled(exec_of(exec), node_of(node), enabled); });
}
HIP_EXPORT hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream) {
  return api([&] { return driver().cuGraphUpload(exec_of(exec), stream_of(stream)); });
}
HIP_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return api([&] { return driver().cuGraphLaunch(exec_of(exec), stream_of(stream)); });
}
HIP_EXPORT hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream) {
  return api([&] { return driver().cuGraphLaunch(exec_of(exec), stream_of_thread(stream)); });
}

// --- User objects ---
HIP_EXPORT hipError_t hipUserObjectCreate(hipUserObject_t* object, void* data, hipHostFn_t destroy, unsigned count,
                                          unsigned flags) {
  return api([&] { return driver().cuUserObjectCreate(out<cu::UserObject*>(object), data, destroy, count, flags); });
}
HIP_EXPORT hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned count) {
  return api([&] { return driver().cuUserObjectRetain(reinterpret_cast<cu::UserObject*>(object), count); });
}
HIP_EXPORT hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned count) {
  return api([&] { return driver().cuUserObjectRelease(reinterpret_cast<cu::UserObject*>(object), count); });
}
HIP_EXPORT hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count,
                                               unsigned flags) {
  return api([&] {
    return driver().cuGraphRetainUserObject(graph_of(graph), reinterpret_cast<cu::UserObject*>(object), count, flags);
  });
}
HIP_EXPORT hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count) {
  return api([&] {
    return driver().cuGraphReleaseUserObject(graph_of(graph), reinterpret_cast<cu::UserObject*>(object), count);
  });
}
