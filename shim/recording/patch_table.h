// patch_table.h: which nodes of an exec a runtime is known to update correctly (rule 9), by class of node and version.
//
// Why one table: an exec that was updated wrongly gives wrong results without an error, so only what is known to work
// is patched; everything else is served by another exec, which is always exact. Versions are hipRuntimeGetVersion's.
// What no row names, and every version the runtime does not tell, is not patched. Nor is a kernel of a device that may
// not see in time what the host writes to its memory: on such an eager launch would flush it on some, but not where the
// runtime keeps eager launches' arguments in the host's memory (gfx90a by default, others by HIP_FORCE_DEV_KERNARG).
// Nodes are set by the call that fits how ours were made (reissue.h). Threads: any. Not here: whether patching pays
// (costs/cost_model.h), and for how many patches an exec has room (execs/exec_size.h).
#pragma once

#include <cstdint>
#include <span>

#include "shim/recording/operation.h"

namespace graphpool {

enum class NodeClass : std::uint8_t {
  kKernel,
  kFill,        ///< one row, not empty, of known device memory
  kDeviceCopy,  ///< one row, not empty, between two different places of known device memory
  kOther,       ///< never patched: host functions, copies that touch the host (probe host_copy_waits_for_launch),
                ///< pitched and empty ones
};

NodeClass node_class(const Signature& signature) noexcept;

struct PatchRow {
  NodeClass node;
  int first_version;  ///< the first this row speaks of
  int end_version;    ///< the first it does not
  bool exact;
  const char* reason;
  const char* probe;  ///< that asks whether it is (shim/process/facts.h)
};

/// All of them. No two rows of a class overlap.
std::span<const PatchRow> patch_table() noexcept;

/// Whether an exec's node of this class may be patched.
bool patch_is_exact(NodeClass node, int version) noexcept;
/// Whether the device sees the arguments that an update has written to a kernel's node, on the loaded runtime. The
/// first question about a device makes calls.
bool arguments_are_seen(int device) noexcept;
/// Whether an update keeps the caller's array of a kernel's arguments (probe set_kernel_copies_arguments).
constexpr bool keeps_callers_arguments(int version) noexcept { return version >= 60300000 && version < 60400000; }
void test_forget_devices() noexcept;

/// Whether that node may be patched: the class, and the device of a kernel. The loaded runtime's.
bool patch_is_exact(const Signature& signature) noexcept;

}  // namespace graphpool
