// copy_params.h: checks copies and fills whose operands are inside a structure. Memory that the runtime must refuse is
// replaced in a copy of that structure.
//
// Why: an operand in freed memory that is kept, or one that leaves a part of a VMM chunk, gets HIP's error
// (address_guard.h), however the copy is written (rules 22 and 24). If one side of hipMemcpy3DParms is an array, its
// extent counts elements of a size that we do not know: then memory is refused only if it was freed. The layouts of
// driver-style structures follow the runtime's version.
// Threads: any; no state. Units: bytes. Not here: which memory is refused.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/hip/hip_abi.h"

namespace graphpool {

/// How many bytes a pitched range has, from its first to its last.
constexpr std::size_t pitched_bytes(std::size_t pitch, std::size_t width, std::size_t height) noexcept {
  return width == 0 || height == 0 ? 0 : pitch * (height - 1) + width;
}

/// How many bytes of a value that a stream writes or waits for must lie in the allocation, as the runtime judges. For
/// an aligned value that is one byte: the rest ends within the pages that the allocation takes.
struct ValueBytes {
  std::size_t bytes;
};
inline ValueBytes value_bytes(const void* address, std::size_t bytes) noexcept {
  return {reinterpret_cast<std::uintptr_t>(address) % bytes == 0 ? 1 : bytes};
}

/// Room for any of the structures. A check writes only the one that it needs.
union ParamsCopy {
  ParamsCopy() noexcept {}
  hipMemcpy3DParms box;
  hip_Memcpy2D plane;
  HIP_MEMCPY3D driver_box;
  WideMemcpy3D wide_driver_box;
  hipMemsetParams fill;
  DriverFill driver_fill;
  AnyNodeParams node;
  MemoryOperationsNode operations;
};

/// The parameters as the runtime shall see them: the program's own, or *copy. Null stays null.
const hipMemcpy3DParms* checked_params(const hipMemcpy3DParms* params, ParamsCopy* copy) noexcept;
const hip_Memcpy2D* checked_params(const hip_Memcpy2D* params, ParamsCopy* copy) noexcept;
const HIP_MEMCPY3D* checked_params(const HIP_MEMCPY3D* params, ParamsCopy* copy) noexcept;
const hipMemsetParams* checked_params(const hipMemsetParams* params, ParamsCopy* copy) noexcept;
/// The same for a fill of a driver-style function: the runtime's version says which structure `params` points to.
const hipMemsetParams* checked_driver_fill(const hipMemsetParams* params, ParamsCopy* copy) noexcept;
/// Writes driver-style parameters as hipMemcpy3DParms. Returns false for null, arrays, memory that is not the device's,
/// levels, and pointers beside those in use.
bool plain_copy(const HIP_MEMCPY3D* params, hipMemcpy3DParms* plain) noexcept;
/// The same copy as driver-style parameters, written into *copy.
const HIP_MEMCPY3D* driver_copy(const hipMemcpy3DParms& plain, ParamsCopy* copy) noexcept;
/// A driver-style fill as hipMemsetParams: the program's own if the runtime's version uses that structure, else *plain.
/// Null stays null.
const hipMemsetParams* plain_fill(const hipMemsetParams* driver, hipMemsetParams* plain) noexcept;
/// Checks hipGraphNodeParams of any kind as checked_params() does; only copies and fills are looked at.
const void* checked_node(const void* params, ParamsCopy* copy) noexcept;
/// The same for values written and awaited. May throw std::bad_alloc.
MemoryOperation* checked_batch(MemoryOperation* operations, std::size_t count, std::vector<MemoryOperation>* copy);
/// The same for a node of values written and awaited. If an address was replaced, the node's values are in *operations.
const void* checked_operations(const void* params, ParamsCopy* copy, std::vector<MemoryOperation>* operations);

}  // namespace graphpool
