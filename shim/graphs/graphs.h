// graphs.h: has the parts that serve the graphs and execs a program holds, in the order in which they use each other,
// and the functions that concern them all.
//
// The life of a step: a capture ends in a tracked graph (captured_graphs.h), or one is built (node_graphs.h) ->
// instantiation.h: a free variant whose baked-in binding is the graph's serves; else one is patched or made ->
// exec_updates.h: the same for another binding -> launcher.h launches the variant -> destroy_exec(): the variant is
// free again once its launches are known to be complete. An exec that the program reaches in any other way is tainted
// (own_execs.h): it serves its holder and goes with it (rule 2). Updates alone do not make it so. The program may set
// what a node of its exec does (exec_node_sets.h): the binding changes, and the variant with it.
//
// Errors are HIP's. Threads: any. Locks: g_recordings_lock, never held across next; before it an exec's own
// (execs/program_exec.h), held while a launch of staged memory is enqueued, or a graph's own (tracked_graph.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "shim/execs/exec_builder.h"
#include "shim/execs/exec_store.h"
#include "shim/execs/exec_supply.h"
#include "shim/execs/graph_settings.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/captured_graphs.h"
#include "shim/graphs/deferred_graphs.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_node_sets.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/exec_updates.h"
#include "shim/graphs/graph_builder.h"
#include "shim/graphs/graph_nodes.h"
#include "shim/graphs/instantiation.h"
#include "shim/graphs/launch_verifier.h"
#include "shim/graphs/launcher.h"
#include "shim/graphs/materialisations.h"
#include "shim/graphs/noted_sets.h"
#include "shim/graphs/own_execs.h"
#include "shim/graphs/ring_exit.h"
#include "shim/graphs/tracked_graphs.h"
#include "shim/graphs/tracked_nodes.h"
#include "shim/graphs/unstaged_execs.h"

namespace graphpool {

struct Graphs {
  GraphSettings settings;

  // What serves execs.
  ExecStore store{settings};
  ExecBuilder builder{store, settings};
  ExecSupply supply{store, builder, settings};
  Recordings recordings{store, settings};

  // The graphs that the program holds, and their nodes.
  Materialisations materialisations;
  GraphNodes node_table;
  GraphBuilder graph_builder{node_table, materialisations};
  DeferredGraphs deferred{graph_builder};
  TrackedGraphs tracked{node_table, graph_builder, deferred};
  TrackedNodes nodes{node_table, graph_builder, deferred, tracked};
  CapturedGraphs captured{recordings, tracked, graph_builder};

  // The execs that the program holds.
  UnstagedExecs unstaged;
  ExecLimit exec_limit{store, builder, unstaged, settings};
  ExecTable execs;
  ExecBindings bindings{store, recordings, unstaged, exec_limit, settings};
  ExecRepair repair{builder, bindings, settings};
  NotedSets noted{store, builder, bindings};
  OwnExecs own{{store, builder, bindings, noted, execs, exec_limit, nodes, repair}};
  LaunchVerifier verifier{store, builder, bindings, repair, tracked, settings};
  Instantiation instantiation{{store, supply, recordings, bindings, execs, exec_limit, tracked, verifier, settings}};
  ExecUpdates updates{{store, builder, supply, recordings, bindings, noted, own, execs, exec_limit, tracked, node_table,
                       verifier, repair, settings}};
  ExecNodeSets node_sets{{store, builder, bindings, noted, own, updates, execs, exec_limit, nodes, repair, settings}};
  RingExit ring_exit{store, supply, own, exec_limit, settings};
  Launcher launcher{{execs, exec_limit, bindings, noted, ring_exit, verifier, settings}};

  hipError_t destroy_exec(hipGraphExec_t exec);
  /// Destroys the execs of recordings that were captured last at this place, as far as nobody uses them: captures that
  /// the program begins there are left alone from now on. Call it without a lock held.
  void drop_free_execs_of(const void* place) EXCLUDES(g_recordings_lock);

  /// Call it before memory goes back to the runtime (0 bytes: nobody knows how many; null: all there is). Builds what
  /// needs the memory and could not be made without it. `reason`: a literal.
  void before_memory_is_freed(const void* address, std::size_t bytes, const char* reason);
  /// Call it before a module goes. Makes the graphs and execs with an operation for which `names` holds, while that is
  /// possible. Recordings with an operation for which `ends` holds, because its kernel goes, are of no use any more.
  void before_module_is_unloaded(OperationTest names, OperationTest ends, const char* reason)
      EXCLUDES(g_recordings_lock);
  /// Forgets everything that was made for the device, which is being reset: it is gone with it.
  void device_reset(int device) noexcept EXCLUDES(g_recordings_lock);
};

/// The process's. Never destroyed.
Graphs& graphs() noexcept;

}  // namespace graphpool
