// operand_addresses.h: the addresses that the operations of a recording name, and the words that may be one.
//
// Threads: everything const. Units: bytes. Not here: what lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/kernel/argument_layout.h"
#include "shim/recording/operation.h"

namespace graphpool {

/// Calls visit(place in the binding, address, whether the operation may write there) for every operand that is a device
/// address. `base`: where the payloads of these operations begin.
template <typename Visit>
void for_each_address(std::span<const Operation> operations, const Binding& binding, Visit&& visit,
                      std::uint32_t base = 0) {
  for (const Operation& operation : operations) {
    const std::uint32_t at = base + operation.payload_offset;
    switch (operation.signature.kind) {
      case OperationKind::kKernel: {
        const std::uint32_t segment = at + static_cast<std::uint32_t>(sizeof(KernelPayload));
        operation.layout->for_each_pointer(binding.data() + segment,
                                           [&](std::size_t, std::size_t offset, std::uint64_t address) {
                                             visit(segment + static_cast<std::uint32_t>(offset), address, true);
                                           });
        break;
      }
      case OperationKind::kCopy:
      case OperationKind::kCopy2D: {
        const auto& copy = payload_at<CopyPayload>(binding, at);
        visit(at + static_cast<std::uint32_t>(offsetof(CopyPayload, dst)), copy.dst, true);
        visit(at + static_cast<std::uint32_t>(offsetof(CopyPayload, src)), copy.src, false);
        break;
      }
      case OperationKind::kCopy3D: {
        const hipMemcpy3DParms& params = payload_at<Copy3DPayload>(binding, at).params;
        const auto visit_pointer = [&](std::size_t place, const hipPitchedPtr& operand, bool written) {
          visit(at + static_cast<std::uint32_t>(place + offsetof(hipPitchedPtr, ptr)),
                reinterpret_cast<std::uint64_t>(operand.ptr), written);
        };
        visit_pointer(offsetof(hipMemcpy3DParms, dstPtr), params.dstPtr, true);
        visit_pointer(offsetof(hipMemcpy3DParms, srcPtr), params.srcPtr, false);
        break;
      }
      case OperationKind::kFill:
        visit(at + static_cast<std::uint32_t>(offsetof(FillPayload, dst)), payload_at<FillPayload>(binding, at).dst,
              true);
        break;
      case OperationKind::kChild:
        for_each_address(*operation.child, binding, visit, at);
        break;
      default:
        break;
    }
  }
}

/// Calls visit(place in the binding, word) for every word of a kernel's arguments that may be an address, or not.
template <typename Visit>
void for_each_hidden_word(std::span<const Operation> operations, const Binding& binding, const Visit& visit,
                          std::uint32_t base = 0) {
  for (const Operation& operation : operations) {
    const std::uint32_t at = base + operation.payload_offset;
    if (operation.signature.kind == OperationKind::kChild) for_each_hidden_word(*operation.child, binding, visit, at);
    if (operation.signature.kind != OperationKind::kKernel) continue;
    const std::uint32_t segment = at + static_cast<std::uint32_t>(sizeof(KernelPayload));
    operation.layout->for_each_value_word(binding.data() + segment,
                                          [&](std::size_t, std::size_t offset, std::uint64_t word) {
                                            visit(segment + static_cast<std::uint32_t>(offset), word);
                                          });
  }
}

}  // namespace graphpool
