// launch_hooks.cpp: kernels and host functions put into a stream or a capture.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"

namespace graphpool::hooks {

namespace {

constexpr auto kDescribeLaunch = [](OperationWriter& to, const void* function, dim3 grid, dim3 block, void** args,
                                    size_t shared_bytes, hipStream_t) {
  return to.kernel(function, KernelForm::kStub, grid, block, shared_bytes, args, nullptr);
};

}  // namespace

hipError_t on_hipLaunchKernel(Entry&, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                              hipStream_t stream) {
  if (captures_open() && shared_bytes <= UINT32_MAX &&
      matched_launch(
          {stream,
           function,
           args,
           {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<std::uint32_t>(shared_bytes), 0},
           KernelForm::kStub}))
    return hipSuccess;
  return captured_call({stream, false}, next().hipLaunchKernel, kDescribeLaunch, function, grid, block, args,
                       shared_bytes, stream);
}

hipError_t on_hipLaunchKernel_spt(Entry&, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                  hipStream_t stream) {
  return captured_call({stream, true}, next().hipLaunchKernel_spt, kDescribeLaunch, function, grid, block, args,
                       shared_bytes, stream);
}

hipError_t on_hipModuleLaunchKernel(Entry&, hipFunction_t f, unsigned int grid_x, unsigned int grid_y,
                                    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                    unsigned int block_z, unsigned int shared_bytes, hipStream_t stream, void** params,
                                    void** extra) {
  if (captures_open() && extra == nullptr &&
      matched_launch({stream,
                      f,
                      params,
                      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, 0},
                      KernelForm::kFunction}))
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
