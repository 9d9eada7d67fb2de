#include "shim/graph/patch_table.h"

#include <algorithm>
#include <array>
#include <limits>

#include "shim/capture/operand.h"
#include "shim/memory/quirks.h"

namespace graphpool {
namespace {

constexpr int kLater = std::numeric_limits<int>::max();
constexpr int version(int major, int minor) { return major * 10'000'000 + minor * 100'000; }

// Sources: hip_graph_internal.hpp of clr; ROCm/clr#42 (packet not made again), ROCm/clr#138 (arguments not copied).
constexpr std::array kRows{
    PatchRow{NodeClass::kKernel, version(5, 0), version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters"},
    PatchRow{NodeClass::kKernel, version(6, 0), version(6, 2), false,
             "a launch may run the packet made before the update (ROCm/clr#42)"},
    PatchRow{NodeClass::kKernel, version(6, 2), version(6, 3), true, "an update makes the packet again"},
    PatchRow{NodeClass::kKernel, version(6, 3), version(6, 4), false,
             "the caller's argument pointers are kept and freed later (ROCm/clr#138)"},
    PatchRow{NodeClass::kKernel, version(6, 4), kLater, true, "the parameters are copied and the packet made again"},
    PatchRow{NodeClass::kFill, version(5, 0), version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters"},
    PatchRow{NodeClass::kFill, version(6, 0), kLater, false,
             "packet errors are swallowed, so a failed update is not seen"},
    PatchRow{NodeClass::kDeviceCopy, version(5, 0), version(6, 0), true,
             "a launch makes its commands from the node's own copy of the parameters"},
    PatchRow{NodeClass::kDeviceCopy, version(6, 0), kLater, false,
             "packet errors are swallowed, and a copy may run when it is set"},
};

}  // namespace

NodeClass node_class(const Signature& signature) noexcept {
  // Bits above the copy kind or element size: empty, pitched or between equal operands (rule 28).
  const bool plain =
      (signature.validity & ~0xffu) == 0 && is_known_class(signature.dst_class) && is_known_class(signature.src_class);
  switch (signature.kind) {
    case OperationKind::kKernel:
      return NodeClass::kKernel;
    case OperationKind::kFill:
      return plain ? NodeClass::kFill : NodeClass::kOther;
    case OperationKind::kCopy:
      return plain && (signature.validity & 0xff) == hipMemcpyDeviceToDevice &&
                     signature.dst_class == signature.src_class
                 ? NodeClass::kDeviceCopy
                 : NodeClass::kOther;
    default:
      return NodeClass::kOther;
  }
}

std::span<const PatchRow> patch_table() noexcept { return kRows; }

bool patch_is_exact(NodeClass node, int version) noexcept {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const PatchRow& each) {
    return each.node == node && version >= each.first_version && version < each.end_version;
  });
  return row != kRows.end() && row->exact;
}

bool patch_is_exact(const Signature& signature) noexcept {
  return patch_is_exact(node_class(signature), runtime_version());
}

}  // namespace graphpool
