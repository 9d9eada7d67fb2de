#include "shim/recording/patch_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

constexpr int kLater = std::numeric_limits<int>::max();

// Sources: hip_graph_internal.hpp of clr; ROCm/clr#42 (packet not made again), ROCm/clr#138 (arguments not copied).
constexpr std::array kRows{
    PatchRow{NodeClass::kKernel, hip_version(5, 0), hip_version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters", "set_kernel_reaches_launch"},
    PatchRow{NodeClass::kKernel, hip_version(6, 0), hip_version(6, 2), false,
             "a launch may run the packet made before the update (ROCm/clr#42)", "set_kernel_reaches_launch"},
    PatchRow{NodeClass::kKernel, hip_version(6, 2), hip_version(6, 3), false,
             "an exec's first update takes memory without a look whether there is any",
             "set_kernel_takes_little_memory"},
    PatchRow{NodeClass::kKernel, hip_version(6, 3), hip_version(6, 4), false,
             "the caller's argument pointers are kept and freed later (ROCm/clr#138)", "set_kernel_copies_arguments"},
    PatchRow{NodeClass::kKernel, hip_version(6, 4), kLater, true, "the parameters are copied and the packet made again",
             "set_kernel_reaches_launch"},
    PatchRow{NodeClass::kFill, hip_version(5, 0), hip_version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters", "set_fill_reaches_launch"},
    PatchRow{NodeClass::kFill, hip_version(6, 0), kLater, false,
             "packet errors are swallowed, so a failed update is not seen", "set_fill_reaches_launch"},
    PatchRow{NodeClass::kDeviceCopy, hip_version(5, 0), hip_version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters", "set_copy_reaches_launch"},
    PatchRow{NodeClass::kDeviceCopy, hip_version(6, 0), kLater, false,
             "packet errors are swallowed, and a copy may run when it is set", "set_copy_reaches_launch"},
};

// From this version on an exec's arguments lie in device memory where the host can write to all device memory.
constexpr int kArgumentsOnDevice = hip_version(6, 2);

enum class Seen : std::uint8_t { kNotAsked, kYes, kNo };
constexpr int kDevices = 64;
constinit std::array<std::atomic<Seen>, kDevices> g_seen{};

/// Whether the device sees in time what the host writes. Not so gfx900 to gfx90a, gfx94x and gfx95x behind PCIe: clr
/// flushes what it has written when it instantiates (GraphExec::CaptureAQLPackets), or never, but not when it updates
/// (GraphExec::UpdateAQLPacket). Where device and host share one XGMI fabric, the driver says that the host accesses
/// its memory directly. In doubt: false.
bool ask_device(int device) noexcept {
  int major = 0, minor = 0, warp = 0, direct = 0;
  const auto ask = [&](int* value, hipDeviceAttribute_t attribute) {
    return PrivateCalls::answered([&] { return next().hipDeviceGetAttribute(value, attribute, device); });
  };
  if (!ask(&major, hipDeviceAttributeComputeCapabilityMajor) ||
      !ask(&minor, hipDeviceAttributeComputeCapabilityMinor) || !ask(&warp, hipDeviceAttributeWarpSize) ||
      !ask(&direct, hipDeviceAttributeDirectManagedMemAccessFromHost))
    return false;
  constexpr int kGfx9Warp = 64;  // others that call themselves 9 have 32
  const bool exposed = major == 9 && (minor == 0 || minor == 4 || minor == 5) && warp == kGfx9Warp;
  return !exposed || direct != 0;
}

}  // namespace

NodeClass node_class(const Signature& signature) noexcept {
  return with_kind(signature.kind, [&](auto kind) { return kind.node_class(signature); });
}

std::span<const PatchRow> patch_table() noexcept { return kRows; }

bool patch_is_exact(NodeClass node, int version) noexcept {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const PatchRow& each) {
    return each.node == node && version >= each.first_version && version < each.end_version;
  });
  return row != kRows.end() && row->exact;
}

bool arguments_are_seen(int device) noexcept {
  if (runtime_version() < kArgumentsOnDevice) return true;
  if (device < 0 || device >= kDevices) return false;
  Seen seen = g_seen[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
  if (seen == Seen::kNotAsked) {
    seen = ask_device(device) ? Seen::kYes : Seen::kNo;
    g_seen[static_cast<std::size_t>(device)].store(seen, std::memory_order_relaxed);
  }
  return seen == Seen::kYes;
}

void test_forget_devices() noexcept {
  for (std::atomic<Seen>& seen : g_seen) seen.store(Seen::kNotAsked, std::memory_order_relaxed);
}

bool patch_is_exact(const Signature& signature) noexcept {
  const NodeClass node = node_class(signature);
  return patch_is_exact(node, runtime_version()) &&
         (node != NodeClass::kKernel || arguments_are_seen(node_device_of(signature)));
}

}  // namespace graphpool
