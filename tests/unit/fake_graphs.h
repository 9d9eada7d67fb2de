// fake_graphs.h: graphs and execs for the fake runtime of fake_hip.h. A node is a fill, a copy, a host function or an
// event record; an exec has the parameters that its nodes had when it was instantiated, updated or set.
//
// Threads: as fake_hip.h: one lock, held for each call. Units: bytes.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/unit/fake_hip.h"

namespace graphpool::fake {

struct Node {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> after{};
  void* dst = nullptr;         ///< fills and copies
  const void* src = nullptr;   ///< copies
  std::uint64_t value = 0;     ///< fills: the value; host functions: the user's pointer
  hipEvent_t event = nullptr;  ///< event records
};

using NodeRow = std::vector<std::pair<hipGraphNode_t, Node>>;  ///< in the order in which they were added

struct FakeGraphs {
  std::map<hipGraph_t, NodeRow> graphs;
  std::map<hipGraphExec_t, NodeRow> execs;
  int instantiates = 0, updates = 0, sets = 0;  ///< that succeeded
};
inline FakeGraphs* g_graphs = nullptr;

template <typename Handle>
Handle new_handle(Hip& hip) {
  return reinterpret_cast<Handle>(hip.next_handle += 0x100);
}

inline hipError_t add_node(Hip& hip, hipGraphNode_t* made, hipGraph_t graph, const hipGraphNode_t* after,
                           std::size_t count, Node node) {
  const auto found = g_graphs->graphs.find(graph);
  if (found == g_graphs->graphs.end()) return hipErrorInvalidValue;
  node.graph = graph;
  node.after.assign(after, after + count);
  *made = new_handle<hipGraphNode_t>(hip);
  found->second.emplace_back(*made, std::move(node));
  return hipSuccess;
}

inline Node* node_of_exec(hipGraphExec_t exec, hipGraphNode_t node) {
  const auto found = g_graphs->execs.find(exec);
  if (found == g_graphs->execs.end()) return nullptr;
  const auto at =
      std::find_if(found->second.begin(), found->second.end(), [node](const auto& each) { return each.first == node; });
  return at == found->second.end() ? nullptr : &at->second;
}

/// Sets the node of an exec by set(Node&).
template <typename Set>
hipError_t set_node(hipGraphExec_t exec, hipGraphNode_t node, Set&& set) {
  Node* const own = node_of_exec(exec, node);
  if (own == nullptr) return hipErrorInvalidValue;
  set(*own);
  ++g_graphs->sets;
  return hipSuccess;
}

/// What the fills and copies of an exec write to, in the order of its nodes.
inline std::vector<void*> written_by(hipGraphExec_t exec) {
  std::vector<void*> written;
  for (const auto& [handle, node] : g_graphs->execs.at(exec))
    if (node.dst != nullptr) written.push_back(node.dst);
  return written;
}

/// Adds graphs to the next table, and what launches ask of streams. Beside an Install, which is made before it and
/// outlives it.
class InstallGraphs {
 public:
  InstallGraphs() {
    g_graphs = &state;
    Next& next = test_next();
    next.hipGraphCreate = [](hipGraph_t* graph, unsigned) {
      return call("hipGraphCreate", [&](Hip& hip) {
        g_graphs->graphs[*graph = new_handle<hipGraph_t>(hip)];
        return hipSuccess;
      });
    };
    next.hipGraphDestroy = [](hipGraph_t graph) {
      return call("hipGraphDestroy",
                  [&](Hip&) { return g_graphs->graphs.erase(graph) == 1 ? hipSuccess : hipErrorInvalidValue; });
    };
    next.hipGraphInstantiate = [](hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, std::size_t) {
      return call("hipGraphInstantiate", [&](Hip& hip) {
        const auto found = g_graphs->graphs.find(graph);
        if (found == g_graphs->graphs.end()) return hipErrorInvalidValue;
        g_graphs->execs[*exec = new_handle<hipGraphExec_t>(hip)] = found->second;
        ++g_graphs->instantiates;
        return hipSuccess;
      });
    };
    next.hipGraphExecDestroy = [](hipGraphExec_t exec) {
      return call("hipGraphExecDestroy",
                  [&](Hip&) { return g_graphs->execs.erase(exec) == 1 ? hipSuccess : hipErrorInvalidValue; });
    };
    next.hipGraphExecUpdate = [](hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                                 hipGraphExecUpdateResult* outcome) {
      return call("hipGraphExecUpdate", [&](Hip&) {
        const auto from = g_graphs->graphs.find(graph);
        const auto to = g_graphs->execs.find(exec);
        if (from == g_graphs->graphs.end() || to == g_graphs->execs.end()) return hipErrorInvalidValue;
        if (from->second.size() != to->second.size()) {
          *outcome = hipGraphExecUpdateErrorTopologyChanged;
          return hipErrorGraphExecUpdateFailure;
        }
        for (std::size_t i = 0; i < to->second.size(); ++i) to->second[i].second = from->second[i].second;
        *error_node = nullptr;
        *outcome = hipGraphExecUpdateSuccess;
        ++g_graphs->updates;
        return hipSuccess;
      });
    };
    install_nodes(next);
    install_questions(next);
  }
  ~InstallGraphs() { g_graphs = nullptr; }
  InstallGraphs(const InstallGraphs&) = delete;
  InstallGraphs& operator=(const InstallGraphs&) = delete;

  FakeGraphs state;

 private:
  static void install_nodes(Next& next) {
    next.hipGraphAddMemsetNode = [](hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                    std::size_t count, const hipMemsetParams* params) {
      return call("hipGraphAddMemsetNode", [&](Hip& hip) {
        return add_node(hip, node, graph, after, count, {.dst = params->dst, .value = params->value});
      });
    };
    next.hipGraphAddMemcpyNode1D = [](hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                      std::size_t count, void* dst, const void* src, std::size_t, hipMemcpyKind) {
      return call("hipGraphAddMemcpyNode1D",
                  [&](Hip& hip) { return add_node(hip, node, graph, after, count, {.dst = dst, .src = src}); });
    };
    next.hipGraphAddHostNode = [](hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                  std::size_t count, const hipHostNodeParams* params) {
      return call("hipGraphAddHostNode", [&](Hip& hip) {
        const auto value = reinterpret_cast<std::uint64_t>(params->userData);
        return add_node(hip, node, graph, after, count, {.value = value});
      });
    };
    next.hipGraphAddEventRecordNode = [](hipGraphNode_t* node, hipGraph_t graph, const hipGraphNode_t* after,
                                         std::size_t count, hipEvent_t event) {
      return call("hipGraphAddEventRecordNode",
                  [&](Hip& hip) { return add_node(hip, node, graph, after, count, {.event = event}); });
    };
    next.hipGraphExecMemsetNodeSetParams = [](hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams* params) {
      return call("hipGraphExecMemsetNodeSetParams", [&](Hip&) {
        return set_node(exec, node, [&](Node& own) {
          own.dst = params->dst;
          own.value = params->value;
        });
      });
    };
    next.hipGraphExecMemcpyNodeSetParams1D = [](hipGraphExec_t exec, hipGraphNode_t node, void* dst, const void* src,
                                                std::size_t, hipMemcpyKind) {
      return call("hipGraphExecMemcpyNodeSetParams1D", [&](Hip&) {
        return set_node(exec, node, [&](Node& own) {
          own.dst = dst;
          own.src = src;
        });
      });
    };
  }
  static void install_questions(Next& next) {
    next.hipStreamGetDevice = [](hipStream_t stream, hipDevice_t* device) {
      return call("hipStreamGetDevice", [&](Hip& hip) {
        *device = stream_at(hip, key_of(stream)).device;
        return hipSuccess;
      });
    };
  }
};

}  // namespace graphpool::fake
