// graph_run.h: runs a directed acyclic graph of bodies: each starts when those it depends on have returned, and all
// that may run at the same time do. A body may block until another one has run (a host function that waits for a kernel
// of another branch), so no limit on threads can be kept: a few helpers start at once, more when all are stuck.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace cpuhip {

/// Vertices are numbered in a topological order.
struct Dag {
  std::vector<std::uint32_t> pending;  ///< how many others each vertex waits for
  std::vector<std::uint32_t> first;    ///< dependents[first[i]] up to dependents[first[i + 1]] wait for vertex i
  std::vector<std::uint32_t> dependents;
  bool chain = false;  ///< each vertex has only the next one after it

  std::size_t size() const { return pending.size(); }
};

/// From edges (from, to) in any order.
Dag make_dag(std::size_t vertices, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

/// Returns when every body has returned. The calling thread runs bodies too.
void run_dag(const Dag& dag, const std::function<void(std::uint32_t)>& body);

/// Threads started so far that are still there.
std::size_t helper_thread_count();

}  // namespace cpuhip
