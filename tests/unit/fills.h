// fills.h: recordings of fills, made by hand: a beginning, one fill behind the other, an end. The fills are of device
// memory that is known, so HIP before 6.0 is known to update them correctly, and none later (recording/patch_table.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "shim/recording/operation.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {

inline constexpr int kPatchesFills = 50731921, kPatchesNoFill = 60342131;  ///< versions of HIP

/// `which`: tells sequences of one length apart.
inline std::vector<Operation> fills(std::size_t count, std::uint64_t which = 0, int device = 0) {
  constexpr std::uint64_t kKnown = std::uint64_t{1} << 63;
  std::vector<Operation> operations(1);
  operations[0].signature.device = packed_devices(device, device);
  for (std::uint32_t i = 0; i < count; ++i) {
    Operation fill;
    fill.signature.kind = OperationKind::kFill;
    fill.signature.device = packed_devices(device, device);
    fill.signature.payload_bytes = sizeof(FillPayload);
    fill.signature.validity = sizeof(std::uint32_t);
    fill.signature.object = which;
    fill.signature.dst_class = fill.signature.src_class = kKnown | static_cast<unsigned>(device);
    fill.payload_offset = i * static_cast<std::uint32_t>(sizeof(FillPayload));
    if (i != 0) fill.after = {i};
    operations.push_back(fill);
  }
  operations.emplace_back();
  operations.back().signature = kEndSignature;
  operations.back().payload_offset = static_cast<std::uint32_t>(count * sizeof(FillPayload));
  return operations;
}

/// Their binding: each fills one element at its address.
inline Binding fill_binding(const std::vector<std::uint64_t>& addresses) {
  Binding binding;
  for (const std::uint64_t address : addresses) {
    const FillPayload fill{address, 7, 1, 1, 0};
    std::memcpy(add_payload(binding, sizeof fill), &fill, sizeof fill);
  }
  return binding;
}

}  // namespace graphpool
