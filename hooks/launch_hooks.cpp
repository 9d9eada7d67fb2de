// launch_hooks.cpp: kernels and host functions put into a stream or a capture. (Most kernels: hot_bodies.h.)
#include <cstdint>

#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/recording/signature_bits.h"

namespace graphpool::hooks {

namespace {

constexpr auto kDescribeLaunch = [](OperationWriter& to, const void* function, dim3 grid, dim3 block, void** args,
                                    size_t shared_bytes, hipStream_t) {
  return to.kernel(function, KernelForm::kStub, grid, block, shared_bytes, args, nullptr);
};

/// Launches a kernel for another function than hipLaunchKernel and hipModuleLaunchKernel. `plain`: one of these two can
/// make the same launch. If neither can, no recording can hold the launch (rule 26).
template <typename DescribeCall, typename ForwardCall>
hipError_t launch(EntryId by, hipStream_t stream, bool plain, DescribeCall&& describe, ForwardCall&& forward) {
  if (!plain) return other_stream_work({stream, false}, forward);
  return captured_operation(
      {stream, false},
      [&](OperationWriter& to) {
        const Status described = describe(to);
        to.launched_by(by);
        return described;
      },
      forward);
}

bool divides(std::uint32_t block, std::uint32_t threads) noexcept {
  return threads != 0 && block != 0 && threads % block == 0;
}

template <typename Config>
bool without_attributes(const Config* config) noexcept {
  return config != nullptr && config->attribute_count == 0;
}

}  // namespace

hipError_t on_hipLaunchKernel_spt(Entry&, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                  hipStream_t stream) {
  return captured_call({stream, true}, next().hipLaunchKernel_spt, kDescribeLaunch, function, grid, block, args,
                       shared_bytes, stream);
}

// The four functions below make the same nodes as hipLaunchKernel and hipModuleLaunchKernel: their launches may be
// issued again by these two. If a runtime does not capture one of the four, the end of the capture finds that a node is
// missing.

hipError_t on_hipExtLaunchKernel(Entry&, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                 hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags) {
  return launch(
      EntryId::hipExtLaunchKernel, stream, start == nullptr && stop == nullptr && flags == 0,
      [&](OperationWriter& to) {
        return to.kernel(function, KernelForm::kStub, grid, block, shared_bytes, args, nullptr);
      },
      [&] { return next().hipExtLaunchKernel(function, grid, block, args, shared_bytes, stream, start, stop, flags); });
}

/// The sizes count threads. If whole blocks do not make them up, the launch is not plain.
hipError_t on_hipExtModuleLaunchKernel(Entry&, hipFunction_t f, uint32_t threads_x, uint32_t threads_y,
                                       uint32_t threads_z, uint32_t block_x, uint32_t block_y, uint32_t block_z,
                                       size_t shared_bytes, hipStream_t stream, void** params, void** extra,
                                       hipEvent_t start, hipEvent_t stop, uint32_t flags) {
  const bool whole = divides(block_x, threads_x) && divides(block_y, threads_y) && divides(block_z, threads_z);
  const bool plain = whole && start == nullptr && stop == nullptr && flags == 0;
  if (captures_open() && plain && shared_bytes <= UINT32_MAX && (extra == nullptr || params == nullptr) &&
      matched_launch({stream,
                      f,
                      params,
                      {{threads_x / block_x, threads_y / block_y, threads_z / block_z},
                       {block_x, block_y, block_z},
                       static_cast<std::uint32_t>(shared_bytes),
                       0},
                      KernelForm::kFunction,
                      extra,
                      launched_by_bits(EntryId::hipExtModuleLaunchKernel) | packed_bits(extra)}))
    return hipSuccess;
  return launch(
      EntryId::hipExtModuleLaunchKernel, stream, plain,
      [&](OperationWriter& to) {
        return to.kernel(f, KernelForm::kFunction, {threads_x / block_x, threads_y / block_y, threads_z / block_z},
                         {block_x, block_y, block_z}, shared_bytes, params, extra);
      },
      [&] {
        return next().hipExtModuleLaunchKernel(f, threads_x, threads_y, threads_z, block_x, block_y, block_z,
                                               shared_bytes, stream, params, extra, start, stop, flags);
      });
}

hipError_t on_hipLaunchKernelExC(Entry&, const LaunchConfig* config, const void* function, void** args) {
  return launch(
      EntryId::hipLaunchKernelExC, stream_of(config), without_attributes(config),
      [&](OperationWriter& to) {
        return to.kernel(function, KernelForm::kStub, config->grid, config->block, config->shared_bytes, args, nullptr);
      },
      [&] { return next().hipLaunchKernelExC(config, function, args); });
}

hipError_t on_hipDrvLaunchKernelEx(Entry&, const DriverLaunchConfig* config, hipFunction_t f, void** params,
                                   void** extra) {
  return launch(
      EntryId::hipDrvLaunchKernelEx, stream_of(config), without_attributes(config),
      [&](OperationWriter& to) {
        return to.kernel(f, KernelForm::kFunction, {config->grid[0], config->grid[1], config->grid[2]},
                         {config->block[0], config->block[1], config->block[2]}, config->shared_bytes, params, extra);
      },
      [&] { return next().hipDrvLaunchKernelEx(config, f, params, extra); });
}

hipError_t on_hipLaunchHostFunc(Entry&, hipStream_t stream, hipHostFn_t function, void* user) {
  return captured_operation(
      {stream, false}, [&](OperationWriter& to) { return to.host(function, user); },
      [&] { return next().hipLaunchHostFunc(stream, function, user); });
}
hipError_t on_hipLaunchHostFunc_spt(Entry&, hipStream_t stream, hipHostFn_t function, void* user) {
  return captured_operation(
      {stream, true}, [&](OperationWriter& to) { return to.host(function, user); },
      [&] { return next().hipLaunchHostFunc_spt(stream, function, user); });
}

}  // namespace graphpool::hooks
