// edges.h: finds what the nodes of a graph depend on, by edges that were added after their nodes, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

/// Returns for each operation those that it comes behind: first its `after`, then those of edges that were added later.
inline std::vector<std::vector<std::uint32_t>> dependencies_of(const std::vector<Operation>& operations) {
  std::vector<std::vector<std::uint32_t>> all(operations.size());
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const std::vector<std::uint32_t>& after = operations[i].after;
    if (operations[i].signature.kind != OperationKind::kEdges) {
      all[i] = after;
      continue;
    }
    for (std::size_t pair = 0; pair + 1 < after.size(); pair += 2) all[after[pair + 1]].push_back(after[pair]);
  }
  return all;
}

}  // namespace graphpool
