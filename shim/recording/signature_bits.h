// signature_bits.h: what is packed into the small fields of a Signature (operation.h).
//
// validity: the lowest byte is a copy's kind or a fill's element size; above it the bits below. device: the current
// device at the call, and above it the stream's, which is where the runtime puts the node (rule 14).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/hip/hook_table.h"
#include "shim/recording/operation.h"

namespace graphpool {

inline constexpr std::uint32_t kZeroSize = 0x100, kSameOperands = 0x200;
inline constexpr std::uint32_t kPitched = 0x400;          ///< a fill of several rows
inline constexpr std::uint32_t kPackedArguments = 0x800;  ///< a kernel's arguments came as one buffer (`extra`)

inline constexpr std::uint32_t kDriverStyle = 0x1000;    ///< a copy node is one of those that take HIP_MEMCPY3D
inline constexpr std::uint32_t kPitchTooSmall = 0x2000;  ///< a row is longer than its pitch: the runtime refuses it

/// Above it: by which function a kernel was launched (EntryId), where it was not one of the usual two.
inline constexpr int kLaunchedByShift = 16;
inline std::uint32_t launched_by_bits(EntryId function) noexcept {
  static_assert(kEntryCount < 0x10000);
  return static_cast<std::uint32_t>(function) << kLaunchedByShift;
}

/// What the runtime has accepted of a function's block and shared memory says nothing of other values (rule 28): they
/// are in the classes of a kernel's operands.
inline std::uint64_t block_class(const KernelPayload& kernel) noexcept {
  return kernel.block[0] | std::uint64_t{kernel.block[1]} << 32;
}
inline std::uint64_t block_and_shared_class(const KernelPayload& kernel) noexcept {
  return kernel.block[2] | std::uint64_t{kernel.shared_bytes} << 32;
}
inline std::uint64_t shared_bytes_of(const Signature& kernel) noexcept { return kernel.src_class >> 32; }

inline std::uint32_t zero_size(std::size_t bytes) noexcept { return bytes == 0 ? kZeroSize : 0; }

/// Whether it fills several rows.
inline bool fills_rows(const Operation& operation) noexcept {
  return operation.signature.kind == OperationKind::kFill && (operation.signature.validity & kPitched) != 0;
}

inline std::int16_t packed_devices(int current, int of_stream) noexcept {
  return static_cast<std::int16_t>(current | of_stream << 8);
}
inline int current_device_of(const Signature& signature) noexcept { return signature.device & 0xff; }
inline int node_device_of(const Signature& signature) noexcept { return signature.device >> 8; }

}  // namespace graphpool
