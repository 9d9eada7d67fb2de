// graph_hooks.cpp: graphs and execs as the program holds them. What only reads or changes a graph: generic_hooks.cpp.
#include "hooks/bodies.h"
#include "shim/base/hot.h"
#include "shim/capture/capture.h"
#include "shim/graphs/graphs.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/hip_abi.h"

namespace graphpool::hooks {

hipError_t on_hipGraphDestroy(Entry&, hipGraph_t graph) { return graphs().tracked.destroy(graph); }

/// The graph of an open capture can hold user objects as it is; another graph is made real.
hipError_t on_hipGraphRetainUserObject(Entry&, hipGraph_t graph, void* object, unsigned count, unsigned flags) {
  hipError_t result = hipSuccess;
  const auto forward = [&](hipGraph_t real) { return next().hipGraphRetainUserObject(real, object, count, flags); };
  if (hold_by_capture(graph, forward, &result)) return result;
  result = graphs().tracked.expose(&graph, "hipGraphRetainUserObject");
  return result == hipSuccess ? forward(graph) : result;
}

hipError_t on_hipGraphAddChildGraphNode(Entry&, hipGraphNode_t* node, hipGraph_t graph,
                                        const hipGraphNode_t* dependencies, size_t count, hipGraph_t child) {
  return add_child_graph({node, graph, dependencies, count}, child,
                         [&](hipGraph_t real, const hipGraphNode_t* after, hipGraph_t part) {
                           return next().hipGraphAddChildGraphNode(node, real, after, count, part);
                         });
}

hipError_t on_hipGraphInstantiate(Entry&, hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* error_node, char* log,
                                  size_t log_bytes) {
  // The runtime writes the log and the error node only if it fails. If the library gives an exec of its own, it writes
  // neither.
  return graphs().instantiation.instantiate(exec, graph, 0, [&](hipGraph_t real, hipGraphExec_t* made) {
    const hipError_t result = next().hipGraphInstantiate(made, real, error_node, log, log_bytes);
    if (result != hipSuccess && error_node != nullptr && *error_node != nullptr)
      *error_node = graphs().node_table.as_program_knows(*error_node);
    return result;
  });
}
hipError_t on_hipGraphInstantiateWithFlags(Entry&, hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags) {
  return graphs().instantiation.instantiate(exec, graph, flags, [&](hipGraph_t real, hipGraphExec_t* made) {
    return next().hipGraphInstantiateWithFlags(made, real, flags);
  });
}
hipError_t on_hipGraphInstantiateWithParams(Entry&, hipGraphExec_t* exec, hipGraph_t graph, void* params) {
  auto* const request = static_cast<InstantiateParams*>(params);
  constexpr unsigned long long kNone = ~0ull;
  bool native = false;
  const hipError_t result = graphs().instantiation.instantiate(
      exec, graph, request == nullptr ? kNone : request->flags, [&](hipGraph_t real, hipGraphExec_t* made) {
        native = true;
        const hipError_t answered = next().hipGraphInstantiateWithParams(made, real, params);
        if (answered != hipSuccess && request != nullptr && request->error_node != nullptr)
          request->error_node = graphs().node_table.as_program_knows(request->error_node);
        return answered;
      });
  if (result == hipSuccess && !native) {
    request->error_node = nullptr;
    request->result = 0;
  }
  return result;
}
hipError_t on_hipGraphExecGetFlags(Entry&, hipGraphExec_t exec, unsigned long long* flags) {
  if (flags != nullptr && graphs().execs.flags_of(exec, flags)) {
    static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
    return hipSuccess;
  }
  const hipError_t failed = graphs().execs.read(&exec);
  return failed == hipSuccess ? next().hipGraphExecGetFlags(exec, flags) : failed;
}

hipError_t on_hipGraphClone(Entry&, hipGraph_t* clone, hipGraph_t original) {
  return graphs().captured.clone(clone, original);
}

HOT hipError_t on_hipGraphLaunch(Entry&, hipGraphExec_t exec, hipStream_t stream) {
  expose_capture({stream, false}, "a graph launch was captured");
  return graphs().launcher.launch(exec, {stream, false},
                                  [&](hipGraphExec_t real) { return next().hipGraphLaunch(real, stream); });
}
HOT hipError_t on_hipGraphLaunch_spt(Entry&, hipGraphExec_t exec, hipStream_t stream) {
  expose_capture({stream, true}, "a graph launch was captured");
  return graphs().launcher.launch(exec, {stream, true},
                                  [&](hipGraphExec_t real) { return next().hipGraphLaunch_spt(real, stream); });
}
hipError_t on_hipGraphUpload(Entry&, hipGraphExec_t exec, hipStream_t stream) {
  return graphs().launcher.upload(exec, stream,
                                  [&](hipGraphExec_t real) { return next().hipGraphUpload(real, stream); });
}

hipError_t on_hipGraphExecUpdate(Entry&, hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                                 hipGraphExecUpdateResult* result) {
  return graphs().updates.update(exec, graph, error_node, result);
}
hipError_t on_hipGraphExecDestroy(Entry&, hipGraphExec_t exec) { return graphs().destroy_exec(exec); }

hipError_t on_hipGraphExecChildGraphNodeSetParams(Entry&, hipGraphExec_t exec, hipGraphNode_t node, hipGraph_t child) {
  ChildGraph inner;
  const hipError_t failed = graphs().tracked.read_part(&child, graphs().nodes.find(node).graph, &inner);
  if (failed != hipSuccess) return failed;
  return graphs().node_sets.set(
      exec, node, [&](OperationWriter& to) { return inner.describe(to); },
      [&](hipGraphExec_t real, hipGraphNode_t its) {
        return inner.give_real(child, [&](hipGraph_t part, const auto&) {
          return next().hipGraphExecChildGraphNodeSetParams(real, its, part);
        });
      });
}

}  // namespace graphpool::hooks
