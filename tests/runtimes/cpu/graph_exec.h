// graph_exec.h: what the entries that set parameters of nodes (graph_nodes.cpp) and those of execs (graph_exec.cpp)
// share.
#pragma once

#include "graph.h"

namespace cpuhip {

/// Whose rules a change of a node's work has to obey: HIP checks the three ways differently.
enum class WorkChange { Node, ExecNode, Update };

/// Whether a node may go on with new work of the same kind: hipSuccess, hipErrorInvalidValue and so on.
hipError_t check_change(const NodeWork& old_work, const NodeWork& new_work, WorkChange change);
/// Both copies are of one direction and made by the same family of calls.
bool same_copy_class(const NodeWork& a, const NodeWork& b);
/// Quirk swallowed_errors: HIP 6.3 drops errors of preparing a node's new packet; the old one stays.
bool swallowed(hipError_t error);
/// Quirk host_copy_at_patch: runs a copy from host to host.
void copy_at_patch(const NodeWork& work);
/// Quirk late_kernargs: the calling thread launches a kernel by itself, so that all it has written before is seen.
void see_arguments();
inline bool can_be_disabled(NodeKind kind) {
  return kind == NodeKind::Kernel || kind == NodeKind::Memcpy || kind == NodeKind::Memset;
}

// With the exec's lock held:
Plan& writable_plan(ExecState& state);
hipError_t set_exec_work(ExecState& state, std::uint32_t slot, Work work, WorkChange change);
const ExecNode* find_in_exec(const ExecState& state, const GraphNode& node);
hipError_t set_exec_child(ExecState& state, const ExecNode& node, const Graph& graph);

/// Calls body(state, node of the exec, node) with graph_mutex() and the exec's lock held. hipErrorInvalidValue for
/// null, for what is no handle, and for a node the exec was not made from (nodes inside child graphs too, as in HIP).
template <typename Body>
hipError_t with_exec_node(hipGraphExec_t exec_handle, hipGraphNode_t node_handle, Body&& body) {
  if (exec_handle == nullptr || node_handle == nullptr) return hipErrorInvalidValue;
  const Exec* exec = find(exec_handle);
  const std::lock_guard graph_lock(graph_mutex());
  GraphNode* node = find(node_handle);
  if (exec == nullptr || node == nullptr) return hipErrorInvalidValue;
  ExecState& state = *exec->state;
  const std::lock_guard lock(state.mutex);
  const ExecNode* found = find_in_exec(state, *node);
  return found == nullptr ? hipErrorInvalidValue : body(state, *found, *node);
}

}  // namespace cpuhip
