// hot_bodies.h: the bodies of the calls that programs make most, inlined into their entries (entry_points.cpp), and
// which calls an entry answers without a body.
#pragma once

#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/capture/session.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/signature_bits.h"

namespace graphpool::hooks {

hipError_t free_slowly(void* ptr);

inline hipError_t on_hipFree(Entry&, void* ptr) {
  if (!device_memory().frees.free_at_once(ptr)) return free_slowly(ptr);
  if (captures_open()) note_capture_doubt();
  return hipSuccess;
}

inline KernelLaunch stub_launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                hipStream_t stream) noexcept {
  return {stream,
          function,
          args,
          {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<std::uint32_t>(shared_bytes), 0},
          KernelForm::kStub};
}

inline hipError_t on_hipLaunchKernel(Entry&, const void* function, dim3 grid, dim3 block, void** args,
                                     size_t shared_bytes, hipStream_t stream) {
  constexpr auto kDescribe = [](OperationWriter& to, const void* stub, dim3 its_grid, dim3 its_block, void** arguments,
                                size_t shared, hipStream_t) {
    return to.kernel(stub, KernelForm::kStub, its_grid, its_block, shared, arguments, nullptr);
  };
  if (captures_open() && shared_bytes <= UINT32_MAX &&
      matched_launch(stub_launch(function, grid, block, args, shared_bytes, stream)))
    return hipSuccess;
  return captured_call({stream, false}, next().hipLaunchKernel, kDescribe, function, grid, block, args, shared_bytes,
                       stream);
}

inline hipError_t on_hipModuleLaunchKernel(Entry&, hipFunction_t f, unsigned int grid_x, unsigned int grid_y,
                                           unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes, hipStream_t stream,
                                           void** params, void** extra) {
  if (captures_open() && (extra == nullptr || params == nullptr) &&
      matched_launch({stream,
                      f,
                      params,
                      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0},
                      KernelForm::kFunction,
                      extra,
                      packed_bits(extra)}))
    return hipSuccess;
  return captured_call(
      {stream, false}, next().hipModuleLaunchKernel,
      [](OperationWriter& to, hipFunction_t function, unsigned int gx, unsigned int gy, unsigned int gz,
         unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, hipStream_t, void** arguments,
         void** packed) {
        return to.kernel(function, KernelForm::kFunction, {gx, gy, gz}, {bx, by, bz}, shared, arguments, packed);
      },
      f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra);
}

/// Whether an entry has made the call without its body: a launch that is matched at once. By default it makes none so.
template <EntryId>
struct AtOnce {
  template <typename... Arguments>
  static constexpr bool made(const void*, const Arguments&...) noexcept {
    return false;
  }
};
template <>
struct AtOnce<EntryId::hipLaunchKernel> {
  [[gnu::always_inline]] static bool made(const void* caller, const void* function, dim3 grid, dim3 block, void** args,
                                          size_t shared_bytes, hipStream_t stream) noexcept {
    return shared_bytes <= UINT32_MAX &&
           matched_at_once(stub_launch(function, grid, block, args, shared_bytes, stream), caller);
  }
};
template <>
struct AtOnce<EntryId::hipModuleLaunchKernel> {
  [[gnu::always_inline]] static bool made(const void* caller, hipFunction_t f, unsigned grid_x, unsigned grid_y,
                                          unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                          unsigned shared_bytes, hipStream_t stream, void** params,
                                          void** extra) noexcept {
    return extra == nullptr &&
           matched_at_once({stream,
                            f,
                            params,
                            {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0},
                            KernelForm::kFunction},
                           caller);
  }
};

}  // namespace graphpool::hooks
