// node_graphs.h: matches graphs that a program builds node by node, like captures.
//
// The life of such a graph:
//   hipGraphCreate     no recording begins like this: forwarded, and every node the program adds is recorded with what
//                      it depends on. Else the graph is deferred, and what the program adds is compared.
//   hipGraphAdd*Node   deferred: the next operation of a recording, with the same dependencies -> its payload is
//                      kept, the program gets a handle of ours. Anything else -> the graph is made real with the nodes
//                      so far and the call is forwarded; recording goes on from there.
//   first use          instantiate, clone, update of an exec by it, or as a child graph: deferred and at the end of a
//                      recording -> that recording; real -> a recording is made if every node is what was recorded.
// A child graph that is tracked is one operation: its recording is part of the signature, its binding is the payload.
// The first time it stays deferred itself: HIP is given another graph with the same operations, of which it takes a
// copy. From the second time on it is real. A node added after the first use, or in a way that is not followed, makes
// the graph real and modified: HIP does the rest.
//
// Errors are HIP's: a call whose outcome the recording does not decide is forwarded. Threads: HIP allows no calls on
// one graph beside each other; each graph's own lock keeps frees of memory in other threads apart from them.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/capture/capture.h"
#include "shim/graphs/tracked_graphs.h"

namespace graphpool {

/// hipGraphCreate. `plain`: its arguments have nothing that HIP might refuse.
hipError_t create_graph(hipGraph_t* graph, bool plain, Forward forward);

/// The first arguments of every call that adds a node.
struct NodePlace {
  hipGraphNode_t* node;
  hipGraph_t graph;
  const hipGraphNode_t* dependencies;
  std::size_t count;
};
/// The program's call with the real graph and the real nodes.
using NativeAdd = FunctionRef<hipError_t(hipGraph_t graph, const hipGraphNode_t* dependencies)>;

hipError_t add_node(const NodePlace& place, Describe describe, NativeAdd forward);
/// The program's call with the real graph, the real nodes and a child graph that the runtime can copy.
using NativeAddChild = FunctionRef<hipError_t(hipGraph_t graph, const hipGraphNode_t* dependencies, hipGraph_t child)>;
hipError_t add_child_graph(const NodePlace& place, hipGraph_t child, NativeAddChild forward);

/// The program adds edges between nodes of a graph that it builds. False: nothing was done, HIP must see the call, and
/// what it makes of the graph is not known.
bool add_edges(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count,
               hipError_t* result);

/// A child graph that is added and tracked. `forward` leaves the nodes of its copy in `nodes`, unless only one order of
/// them is possible: then TrackedNodes::note_inside() finds them later.
struct AddedChild {
  const ChildGraph& child;
  std::vector<hipGraphNode_t> nodes;
};
/// Adds a node as add_node() does, but `forward` must make nodes in line (recording/node_creation.h). `added`: null if
/// the node is no tracked child graph.
hipError_t add_described(const NodePlace& place, Describe describe, NativeAdd forward, AddedChild* added);

/// Gives the graph, which is being used, its recording, if it can have one. Pre-condition: it has a build.
void finish_build(TrackedGraph& graph) REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);

}  // namespace graphpool
