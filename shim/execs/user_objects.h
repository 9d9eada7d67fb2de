// user_objects.h: what holds the user objects of a captured graph (hipGraphRetainUserObject).
//
// Why: a communication library binds what a captured collective needs to the life of its graph, and waits for the last
// destructor before it ends. Natively a graph holds a user object until it is destroyed, and so does each exec made of
// it, until it is destroyed and its launches are complete; an update moves none. What the library keeps beyond the
// program's own graphs and execs must therefore hold none: a variant never does. The graph that the runtime captured
// into, which holds the objects, is shared by the program's graph and the execs that it has made of it, and is
// destroyed with the last of them.
//
// Threads: any. Destructors run where the last of them ends, or, where its launches may still run then, in a later call
// of the program that waits or ends something, or on a thread of the library's. They may call back: under no lock.
// Lock: kReport, held over nothing but a list. Not here: the object's counts, which are the runtime's.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "shim/streams/launch_marks.h"

namespace graphpool {

/// A graph of the runtime's that holds user objects.
class ObjectHolder {
 public:
  explicit ObjectHolder(hipGraph_t graph) noexcept : graph_(graph) {}
  /// Destroys the graph: under no lock.
  ~ObjectHolder();
  ObjectHolder(const ObjectHolder&) = delete;
  ObjectHolder& operator=(const ObjectHolder&) = delete;

  hipGraph_t graph() const noexcept { return graph_; }
  /// The program does not know the graph, or has destroyed it: a handle that it has kept is nobody's.
  void hide() noexcept;

 private:
  const hipGraph_t graph_;
};
using Objects = std::shared_ptr<ObjectHolder>;

/// The program has destroyed a graph that shares them.
void let_go_of_objects(Objects objects) noexcept;

/// Launches of an exec that share them, too, until they are complete.
using Launches = std::vector<std::unique_ptr<LaunchMarks>>;
/// The program has destroyed an exec that shares them.
void let_go_of_objects(Objects objects, Launches launches) noexcept;

/// Lets go of those whose launches have completed. Cost: a load where there are none. Under no lock.
extern constinit std::atomic<std::size_t> g_objects_waiting;
void let_go_of_completed() noexcept;
inline void look_for_completed_objects() noexcept {
  if (g_objects_waiting.load(std::memory_order_acquire) != 0) [[unlikely]]
    let_go_of_completed();
}

}  // namespace graphpool
