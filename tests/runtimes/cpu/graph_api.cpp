// graph_api.cpp: the entries about the structure of graphs: creating, cloning and destroying them, adding and removing
// edges and nodes of no parameters, listing, debug prints.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "kernel.h"

namespace cpuhip {
namespace {

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode* node) {
    return node != nullptr && (node->kind() == NodeKind::MemAlloc || node->kind() == NodeKind::MemFree);
  });
}

/// HIP's way to hand out a list: only its length without an array; at most *count entries; the rest of a longer array
/// becomes null.
template <typename List>
hipError_t list_nodes(const List& list, hipGraphNode_t* out, std::size_t* count) {
  if (out == nullptr) {
    *count = list.size();
    return hipSuccess;
  }
  const std::size_t filled = std::min(*count, list.size());
  for (std::size_t i = 0; i < filled; ++i) out[i] = handle(list[i]);
  if (*count <= list.size()) return hipSuccess;
  std::fill(out + filled, out + *count, nullptr);
  *count = list.size();
  return hipSuccess;
}

/// Calls body(node) with graph_mutex() held; hipErrorInvalidValue for what is no node.
template <typename Body>
hipError_t with_node(hipGraphNode_t handle, Body&& body) {
  const std::lock_guard lock(graph_mutex());
  GraphNode* node = find(handle);
  return node == nullptr ? hipErrorInvalidValue : body(*node);
}
template <typename Body>
hipError_t with_graph(hipGraph_t handle, Body&& body) {
  const std::lock_guard lock(graph_mutex());
  Graph* graph = find(handle);
  return graph == nullptr ? hipErrorInvalidValue : body(*graph);
}

hipError_t add_dependencies(Graph& graph, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode *first = find(from[i]), *second = find(to[i]);
    if (first == nullptr || second == nullptr || first == second || first->graph != &graph || second->graph != &graph) {
      return hipErrorInvalidValue;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode &first = *find(from[i]), &second = *find(to[i]);
    const bool fewer = first.dependents.size() < second.dependencies.size();
    const std::vector<GraphNode*>& searched = fewer ? first.dependents : second.dependencies;
    if (std::find(searched.begin(), searched.end(), fewer ? &second : &first) != searched.end()) {
      return hipErrorInvalidValue;  // as HIP: the edges before this one stay
    }
    add_edge(first, second);
  }
  return hipSuccess;
}

hipError_t remove_dependencies(Graph& graph, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode *first = find(from[i]), *second = find(to[i]);
    if (first == nullptr || second == nullptr || first->graph != &graph || second->graph != &graph ||
        !remove_edge(*first, *second)) {
      return hipErrorInvalidValue;
    }
  }
  return hipSuccess;
}

hipError_t list_edges(const Graph& graph, hipGraphNode_t* from, hipGraphNode_t* to, std::size_t* count) {
  std::vector<GraphNode*> sources, targets;
  for (GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    sources.insert(sources.end(), node->dependents.size(), node);
    targets.insert(targets.end(), node->dependents.begin(), node->dependents.end());
  }
  std::size_t count_again = *count;
  (void)list_nodes(sources, from, &count_again);
  return list_nodes(targets, to, count);
}

const char* kind_name(NodeKind kind) {
  constexpr const char* kNames[] = {"KERNEL",     "MEMCPY",       "MEMSET",    "HOST",     "GRAPH",   "EMPTY",
                                    "EVENT_WAIT", "EVENT_RECORD", "MEM_ALLOC", "MEM_FREE", "VALUE_OP"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string text(const char* format, auto... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string label(const GraphNode& node, unsigned flags) {
  const NodeWork& work = *node.work;
  const bool verbose = (flags & hipfront::kDotVerbose) != 0;
  std::string label = text("%llu\\n", static_cast<unsigned long long>(node.id));
  switch (work.kind) {
    case NodeKind::Kernel: {
      const auto& kernel = std::get<KernelWork>(work.operation);
      label += kernel.kernel ? kernel.kernel->name : "KERNEL";
      if (verbose || (flags & hipfront::kDotKernelParams) != 0) {
        label += text("\\n(%u,%u,%u),(%u,%u,%u),%u", kernel.grid.x, kernel.grid.y, kernel.grid.z, kernel.block.x,
                      kernel.block.y, kernel.block.z, kernel.shared_bytes);
      }
      break;
    }
    case NodeKind::Memcpy: {
      const auto& copy = std::get<CopyWork>(work.operation);
      label += text("MEMCPY\\n(%zu)", copy.width * copy.height * copy.depth);
      if (verbose || (flags & hipfront::kDotMemcpyParams) != 0) label += text("\\n%p <- %p", copy.dst, copy.src);
      break;
    }
    case NodeKind::Memset: {
      const auto& fill = std::get<FillWork>(work.operation);
      label += text("MEMSET\\n(%u,%zu)", fill.value, fill.width * fill.height * fill.depth * fill.element_size);
      if (verbose || (flags & hipfront::kDotMemsetParams) != 0) label += text("\\n%p", fill.dst);
      break;
    }
    case NodeKind::Graph:
      label += text("graph_%llu", static_cast<unsigned long long>(node.child->number));
      break;
    default:
      label += kind_name(work.kind);
  }
  if (verbose || (flags & hipfront::kDotHandles) != 0) label += text("\\n%p", static_cast<const void*>(&node));
  return label;
}

void print(std::ostream& out, const Graph& graph, unsigned flags) {
  const std::string name = "graph_" + std::to_string(graph.number);
  const auto node_name = [&](const GraphNode& node) { return '"' + name + "_node_" + std::to_string(node.id) + '"'; };
  out << "subgraph cluster_" << graph.number << " {\nlabel=\"" << name << "\" graph[style=\"dashed\"];\n";
  for (const GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    const bool kernel = node->kind() == NodeKind::Kernel;
    out << node_name(*node) << "[style=\"" << (kernel ? "bold" : "solid") << "\" shape=\""
        << (kernel ? "octagon" : "rectangle") << "\" label=\"" << label(*node, flags) << "\"];\n";
  }
  for (const GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    for (const GraphNode* dependent : node->dependents) {
      out << node_name(*node) << " -> " << node_name(*dependent) << ";\n";
    }
  }
  out << "}\n";
  for (const GraphNode* node : graph.nodes) {
    if (node != nullptr && node->child != nullptr) print(out, *node->child, flags);
  }
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipGraphCreate(hipGraph_t* graph, unsigned flags) {
  return api("hipGraphCreate", [&](Call&) {
    if (graph == nullptr || flags != 0) return hipErrorInvalidValue;
    const std::lock_guard lock(graph_mutex());
    *graph = handle(new_graph(current_device().ordinal()));
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphDestroy(hipGraph_t graph) {
  return api("hipGraphDestroy", [&](Call&) {
    if (graph == nullptr) return hipErrorInvalidValue;
    if (graphs().dead_but_answers(graph)) return hipErrorIllegalState;  // the runtime took it with a failed capture
    Graph* found = find(graph);
    if (found == nullptr) return hipErrorIllegalState;
    release_user_objects(destroy_graph(*found));
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphClone(hipGraph_t* clone, hipGraph_t original) {
  return api("hipGraphClone", [&](Call&) {
    if (clone == nullptr || original == nullptr) return hipErrorInvalidValue;
    return with_graph(original, [&](Graph& graph) {
      if (has_memory_nodes(graph)) return hipErrorNotSupported;
      *clone = handle(clone_graph(graph));
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeFindInClone(hipGraphNode_t* found, hipGraphNode_t original, hipGraph_t clone) {
  return api("hipGraphNodeFindInClone", [&](Call&) {
    if (found == nullptr || original == nullptr || clone == nullptr) return hipErrorInvalidValue;
    return with_graph(clone, [&](Graph& graph) {
      const GraphNode* node = find(original);
      if (node == nullptr || graph.cloned_from == 0) return hipErrorInvalidValue;
      // at the same position unless nodes were destroyed since
      const auto is_copy = [&](const GraphNode* other) { return other != nullptr && other->id == node->id; };
      if (node->position < graph.nodes.size() && is_copy(graph.nodes[node->position])) {
        *found = handle(graph.nodes[node->position]);
        return hipSuccess;
      }
      const auto searched = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_copy);
      if (searched == graph.nodes.end()) return hipErrorInvalidValue;
      *found = handle(*searched);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                                 size_t count) {
  return api("hipGraphAddDependencies", [&](Call&) {
    if (graph == nullptr) return hipErrorInvalidValue;
    if (count == 0) return hipSuccess;
    if (from == nullptr || to == nullptr) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) { return add_dependencies(found, from, to, count); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from,
                                                    const hipGraphNode_t* to, size_t count) {
  return api("hipGraphRemoveDependencies", [&](Call&) {
    if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) { return remove_dependencies(found, from, to, count); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t* out, size_t* count) {
  return api("hipGraphGetNodes", [&](Call&) {
    if (graph == nullptr || count == nullptr) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) {
      std::vector<GraphNode*> order;
      if (!topological_order(found, &order)) return hipErrorInvalidValue;
      return list_nodes(order, out, count);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t* out, size_t* count) {
  return api("hipGraphGetRootNodes", [&](Call&) {
    if (graph == nullptr || count == nullptr) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) {
      std::vector<GraphNode*> roots;
      for (GraphNode* node : found.nodes) {
        if (node != nullptr && node->dependencies.empty()) roots.push_back(node);
      }
      return list_nodes(roots, out, count);
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t* from, hipGraphNode_t* to, size_t* count) {
  return api("hipGraphGetEdges", [&](Call&) {
    if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) { return list_edges(found, from, to, count); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t* out, size_t* count) {
  return api("hipGraphNodeGetDependencies", [&](Call&) {
    if (count == nullptr) return hipErrorInvalidValue;
    return with_node(node, [&](GraphNode& found) { return list_nodes(found.dependencies, out, count); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t* out, size_t* count) {
  return api("hipGraphNodeGetDependentNodes", [&](Call&) {
    if (count == nullptr) return hipErrorInvalidValue;
    return with_node(node, [&](GraphNode& found) { return list_nodes(found.dependents, out, count); });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType* type) {
  return api("hipGraphNodeGetType", [&](Call&) {
    if (type == nullptr) return hipErrorInvalidValue;
    return with_node(node, [&](GraphNode& found) {
      *reinterpret_cast<int*>(type) = node_type_value(*found.work);
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  return api("hipGraphDestroyNode", [&](Call&) {
    Graph* child = nullptr;
    const hipError_t result = with_node(node, [&](GraphNode& found) {
      if (found.kind() == NodeKind::MemAlloc || found.kind() == NodeKind::MemFree) return hipErrorNotSupported;
      child = found.child;
      remove_node(found);
      return hipSuccess;
    });
    if (child != nullptr) release_user_objects(destroy_graph(*child));
    return result;
  });
}

CPUHIP_EXPORT hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char* path, unsigned flags) {
  return api("hipGraphDebugDotPrint", [&](Call&) {
    if (graph == nullptr || path == nullptr) return hipErrorInvalidValue;
    return with_graph(graph, [&](Graph& found) {
      std::ofstream out(path);
      if (!out) return hipErrorOperatingSystem;
      out << "digraph dot {\n";
      print(out, found, flags);
      out << "}\n";
      return out.good() ? hipSuccess : hipErrorOperatingSystem;
    });
  });
}
