// graph_use.h: says what an exec is to be made of, or updated to, by a tracked graph.
#pragma once

#include "shim/execs/recordings.h"
#include "shim/graphs/tracked_graph.h"

namespace graphpool {

struct UsedGraph {
  Recording* recording = nullptr;  ///< now used by one more; null: it is not known, and the rest says nothing
  Binding binding;
  Objects objects;        ///< what its user objects are held by; null: it has none
  bool real = false;      ///< the runtime has it
  bool outlived = false;  ///< memory that a node of it names may be freed, or may be going in stream order
};

/// Why a graph is used.
enum class GraphUsedFor : std::uint8_t { kInstantiate, kUpdate };

/// Ends the graph's build. Gives no recording for an instantiate of a graph that holds user objects, if nothing can be
/// made of its recording: an exec of the program's own graph would hold the objects for as long as the library keeps
/// the exec.
UsedGraph use_graph(TrackedGraph& graph, GraphUsedFor purpose, Recordings& recordings, bool track_operands);

}  // namespace graphpool
