// patch_table.h: says which nodes of an exec a runtime is known to update correctly (rule 9), by class and version.
//
// Why one table: an exec that was updated wrongly gives wrong results without an error, so only what is known to work
// is patched; everything else is served by another exec, which is always exact. Versions are hipRuntimeGetVersion's.
// Nothing is patched that no row names, or where the runtime does not tell its version. Nor is a kernel on a device
// that may not see in time what the host writes to device memory. On some such devices an eager launch would flush it;
// but the runtime may keep the arguments of eager launches in host memory (gfx90a by default, others by
// HIP_FORCE_DEV_KERNARG). Nodes are set by the call that fits how the library made them (reissue.h). Threads: any. Not
// here: whether patching pays (costs/cost_model.h), and for how many patches an exec has room (execs/exec_size.h).
#pragma once

#include <cstdint>
#include <span>

#include "shim/recording/operation.h"

namespace graphpool {

enum class NodeClass : std::uint8_t {
  kKernel,
  kFill,        ///< one row, not empty, of known device memory
  kDeviceCopy,  ///< one row, not empty, device to device, between two places of known memory of one device
  kOther,       ///< never patched: all else, such as host functions, pitched and empty copies, and copies that
                ///< touch the host (probe host_copy_waits_for_launch)
};

NodeClass node_class(const Signature& signature) noexcept;

struct PatchRow {
  NodeClass node;
  int first_version;  ///< the first version that the row speaks of
  int end_version;    ///< the first version after those
  bool exact;
  const char* reason;
  const char* probe;  ///< the probe that asks whether it is exact (shim/process/facts.h)
};

/// Returns all rows. No two rows of a class overlap.
std::span<const PatchRow> patch_table() noexcept;

/// Whether an exec's node of this class may be patched.
bool patch_is_exact(NodeClass node, int version) noexcept;
/// Whether the device sees the arguments that an update has written to a kernel's node, on the loaded runtime. The
/// first question about a device makes calls.
bool arguments_are_seen(int device) noexcept;
/// Whether an update of a kernel keeps the caller's array of arguments (probe set_kernel_copies_arguments).
constexpr bool keeps_callers_arguments(int version) noexcept { return version >= 60300000 && version < 60400000; }
void test_forget_devices() noexcept;

/// Whether the loaded runtime updates such a node correctly: by its class and, of a kernel, by its device.
bool patch_is_exact(const Signature& signature) noexcept;

}  // namespace graphpool
