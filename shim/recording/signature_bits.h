// signature_bits.h: packs and reads the small fields of a Signature (operation.h).
//
// validity: the lowest byte is a copy's kind or a fill's element size; above it are the bits below. Of a begin it is
// the capture's mode, of a change of dependencies its flags. device: the current device at the call, and above it the
// stream's, which is where the runtime puts the node (rule 14).
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

/// From this bit on: by which function (EntryId) a kernel was launched, where it was not one of the usual two.
inline constexpr int kLaunchedByShift = 16;
inline std::uint32_t launched_by_bits(EntryId function) noexcept {
  static_assert(kEntryCount < 0x10000);
  return static_cast<std::uint32_t>(function) << kLaunchedByShift;
}

/// Bits of a launch without an array of arguments. `extra`: the buffer that has them; null: there are none.
inline std::uint32_t packed_bits(void* const* extra) noexcept { return extra != nullptr ? kPackedArguments : 0; }

/// The fields of a kernel's signature that the launch decides. The others say where and by which thread it was
/// launched, and what is known of the function. Whoever compares a launch, as a signature or as the program gave it,
/// compares these fields.
class LaunchFields {
 public:
  /// Puts block and shared memory into the classes, which a kernel does not need for operands: what the runtime has
  /// accepted of a function says nothing of other values (rule 28).
  LaunchFields(KernelForm form, const void* function, std::uint32_t validity, const KernelPayload& shape) noexcept
      : form_(form),
        validity_(validity),
        object_(reinterpret_cast<std::uint64_t>(function)),
        block_{shape.block[0], shape.block[1], shape.block[2]},
        shared_bytes_(shape.shared_bytes) {}

  void put_into(Signature& signature) const noexcept {
    signature.kind = OperationKind::kKernel;
    signature.form = form_;
    signature.validity = validity_;
    signature.object = object_;
    signature.dst_class = block_[0] | std::uint64_t{block_[1]} << 32;
    signature.src_class = block_[2] | std::uint64_t{shared_bytes_} << 32;
  }

  /// Whether these fields, with this device, stream and thread, are those of the recorded signature. Block and shared
  /// memory are compared as the program gave them: put together first, they would be read back from the stack.
  bool same(const Signature& recorded, std::int16_t device, std::uint16_t stream, std::uint16_t thread) const noexcept {
    const std::uint64_t first = first_word(OperationKind::kKernel, form_, device, stream, thread);
    return ((first ^ recorded.word(0)) | (validity_ ^ recorded.validity) | (object_ ^ recorded.object) |
            ((block_[0] ^ low(recorded.dst_class)) | (block_[1] ^ high(recorded.dst_class)) |
             (block_[2] ^ low(recorded.src_class)) | (shared_bytes_ ^ high(recorded.src_class)))) == 0;
  }

 private:
  static std::uint32_t low(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
  static std::uint32_t high(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

  KernelForm form_;
  std::uint32_t validity_;
  std::uint64_t object_;
  std::uint32_t block_[3], shared_bytes_;
};
inline std::uint64_t shared_bytes_of(const Signature& kernel) noexcept { return kernel.src_class >> 32; }

inline std::uint32_t zero_size(std::size_t bytes) noexcept { return bytes == 0 ? kZeroSize : 0; }

inline bool launches_kernel(const Operation& operation) noexcept {
  return operation.signature.kind == OperationKind::kKernel;
}

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
