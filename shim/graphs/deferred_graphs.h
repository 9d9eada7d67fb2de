// deferred_graphs.h: keeps the graphs that the program holds by a handle of the library's, and makes them real before
// something that they name goes. Threads: any.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shim/graphs/graph_builder.h"
#include "shim/graphs/memory_watch_list.h"
#include "shim/graphs/tracked_graph.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class DeferredGraphs {
 public:
  explicit DeferredGraphs(GraphBuilder& builder) noexcept : builder_(builder) {}

  void add(std::shared_ptr<TrackedGraph> graph) REQUIRES(g_recordings_lock) { list_.add(std::move(graph)); }
  std::shared_ptr<TrackedGraph> remove(TrackedGraph& graph) noexcept REQUIRES(g_recordings_lock) {
    return list_.remove(graph);
  }
  /// Notes that the graph has got another binding.
  void bound_anew(TrackedGraph& graph) REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);

  /// Call it before memory goes back to the runtime (0 bytes: nobody knows how many; null: all there is). Makes the
  /// graphs that name it real while they can be.
  void before_memory_is_freed(const void* address, std::size_t bytes, const char* reason) EXCLUDES(g_recordings_lock);
  /// Makes the graphs real that have an operation for which the test is true.
  void make_real_with(OperationTest test, const char* reason) EXCLUDES(g_recordings_lock);
  /// Gives up the walks of all graphs that are being built, so that recordings can go.
  void end_builds(const char* reason) EXCLUDES(g_recordings_lock);

 private:
  std::vector<std::shared_ptr<TrackedGraph>> all() const EXCLUDES(g_recordings_lock);

  GraphBuilder& builder_;
  MemoryWatchList<TrackedGraph> list_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
