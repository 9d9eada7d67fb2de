// patch_table.h: which nodes of an exec a runtime is known to update correctly (rule 9), by class of node and version.
//
// Why one table: an exec that was updated wrongly gives wrong results without an error, so only what is known to work
// is patched; everything else is served by another exec, which is always exact. Versions are hipRuntimeGetVersion's.
// What no row names, and every version the runtime does not tell, is not patched. Nodes are set by the call that fits
// how ours were made (reissue.h). Threads: any. Not here: whether patching pays (cost_model.h).
#pragma once

#include <cstdint>
#include <span>

#include "shim/capture/operation.h"

namespace graphpool {

enum class NodeClass : std::uint8_t {
  kKernel,
  kFill,        ///< one row, not empty, of known device memory
  kDeviceCopy,  ///< one row, not empty, between two different places of known device memory
  kOther,       ///< never patched: host functions, copies that touch the host, pitched and empty ones
};

NodeClass node_class(const Signature& signature) noexcept;

struct PatchRow {
  NodeClass node;
  int first_version;  ///< the first this row speaks of
  int end_version;    ///< the first it does not
  bool exact;
  const char* why;
};

/// All of them. No two rows of a class overlap.
std::span<const PatchRow> patch_table() noexcept;

/// Whether an exec's node of this class may be patched.
bool patch_is_exact(NodeClass node, int version) noexcept;
/// The same for an operation, on the loaded runtime.
bool patch_is_exact(const Signature& signature) noexcept;

}  // namespace graphpool
