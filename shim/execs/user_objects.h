// user_objects.h: holds the user objects of a captured graph (hipGraphRetainUserObject) for as long as HIP does.
//
// Why: a communication library binds what a captured collective needs to the life of its graph, and waits for the last
// destructor before it ends. Natively a graph holds a user object until the graph is destroyed. So does each exec made
// of it, until the exec is destroyed and its launches are complete; an update moves none. So nothing that the library
// keeps beyond the program's own graphs and execs may hold one: a variant never does. The runtime's captured graph
// holds the objects. The program's graph and the execs made of it share that graph; it goes with the last of them.
//
// Threads: any. Destructors run in the call that ends the last of these. If launches may still run then, destructors
// run in a later call of the program that waits, instantiates or destroys a graph, or on a thread of the library's.
// Destructors may call back, so no lock with a rank is held. Lock: kReport, held over nothing but a list. Not here: the
// object's counts, which are the runtime's.
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
  /// Destroys the graph. The caller holds no lock.
  ~ObjectHolder();
  ObjectHolder(const ObjectHolder&) = delete;
  ObjectHolder& operator=(const ObjectHolder&) = delete;

  hipGraph_t graph() const noexcept { return graph_; }
  /// Hides the graph, which the program does not know or has destroyed: a handle that the program has kept is nobody's.
  void hide() noexcept;

 private:
  const hipGraph_t graph_;
};
using Objects = std::shared_ptr<ObjectHolder>;

/// Lets go of the objects of a graph that the program has destroyed.
void let_go_of_objects(Objects objects) noexcept;

/// Launches of an exec: they share its objects, too, until they are complete.
using Launches = std::vector<std::unique_ptr<LaunchMarks>>;
/// Lets go of the objects of an exec that the program has destroyed, once these launches are complete.
void let_go_of_objects(Objects objects, Launches launches) noexcept;

/// Let go of the objects whose launches have completed. Cost: a load, if none wait. The caller holds no lock.
extern constinit std::atomic<std::size_t> g_objects_waiting;
void let_go_of_completed() noexcept;
inline void look_for_completed_objects() noexcept {
  if (g_objects_waiting.load(std::memory_order_acquire) != 0) [[unlikely]]
    let_go_of_completed();
}

}  // namespace graphpool
