#include "shim/graphs/deferred_graphs.h"

#include "shim/recording/reissue.h"

namespace graphpool {

std::vector<std::shared_ptr<TrackedGraph>> DeferredGraphs::all() const {
  const LockGuard guard(g_recordings_lock);
  return list_.all();
}

void DeferredGraphs::bound_anew(TrackedGraph& graph) {
  graph.looks = 0;
  const LockGuard guard(g_recordings_lock);
  list_.watch(graph);
}

void DeferredGraphs::before_memory_is_freed(const void* address, std::size_t bytes, const char* reason) {
  std::vector<std::shared_ptr<TrackedGraph>> found;
  {
    const LockGuard guard(g_recordings_lock);
    found = list_.that_may_name(address, bytes);
  }
  for (const auto& graph : found) {
    const LockGuard guard(graph->lock);
    if (graph->is_destroyed()) continue;
    if (graph->real == nullptr && (bytes == 0 || names_memory(graph->binding, address, bytes)))
      static_cast<void>(builder_.make_real(*graph, reason));
    const bool deferred = graph->real == nullptr;
    if (deferred && (graph->build != nullptr || ++graph->looks != MemoryWatchList<TrackedGraph>::kLooks)) continue;
    const std::vector<std::uint64_t> pages =
        deferred ? MemoryIndex::pages_of(graph->binding) : std::vector<std::uint64_t>();
    const LockGuard tables(g_recordings_lock);
    if (!list_.has(*graph)) continue;
    if (deferred)
      list_.find_by(*graph, pages);
    else
      list_.ignore(*graph);
  }
}

void DeferredGraphs::make_real_with(OperationTest test, const char* reason) {
  for (const auto& graph : all()) {
    const LockGuard guard(graph->lock);
    if (graph->is_destroyed() || graph->real != nullptr || (graph->build == nullptr && graph->recording == nullptr))
      continue;
    for (std::uint32_t i = 0; i < graph->size(); ++i) {
      if (!holds(graph->operation(i), test)) continue;
      static_cast<void>(builder_.make_real(*graph, reason));
      break;
    }
  }
}

void DeferredGraphs::end_builds(const char* reason) {
  for (const auto& graph : all()) {
    const LockGuard guard(graph->lock);
    if (!graph->is_destroyed() && graph->build != nullptr && graph->build->walks())
      static_cast<void>(builder_.make_real(*graph, reason));
  }
}

}  // namespace graphpool
