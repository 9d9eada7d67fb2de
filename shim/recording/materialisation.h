// materialisation.h: describes for the report why a withheld capture or graph was made real: the reason, which
// operation was in no recording, and what of it differed. Texts are literals or kept for good (kernel names): compared
// by address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/recording/prefix_tree.h"

namespace graphpool {

struct Materialisation {
  const char* reason = nullptr;
  std::uint64_t graph = 0;      ///< number of the recording that was followed, or one of several; 0: none, or dropped
  std::uint32_t operation = 0;  ///< where it left the recording: 1 is the first after the beginning; 0: nowhere
  const char* kind = nullptr;   ///< of the program's operation; null: it was no operation
  const char* kernel = nullptr;
  const char* differs = nullptr;  ///< what of it differs from the recorded one, or from one of several
  std::uint64_t count = 1;

  bool same(const Materialisation& other) const noexcept {
    return reason == other.reason && graph == other.graph && operation == other.operation && kind == other.kind &&
           kernel == other.kernel && differs == other.differs;
  }
};

/// "kernel", "copy", ...
const char* kind_name(OperationKind kind) noexcept;

/// `last`: the last node of the tree that matched. `operation`: the index of the operation that came then. `own`: its
/// signature; null: the call was no operation. Pre-condition: the caller holds the tree.
Materialisation describe_materialisation(const char* reason, const TreeNode& last, std::size_t operation,
                                         const Signature* own) noexcept;

}  // namespace graphpool
