// launch_hooks.cpp: kernels and host functions put into a stream or a capture. (Most kernels: hot_bodies.h.)
#include "hooks/bodies.h"
#include "shim/capture/capture.h"

namespace graphpool::hooks {

namespace {

constexpr auto kDescribeLaunch = [](OperationWriter& to, const void* function, dim3 grid, dim3 block, void** args,
                                    size_t shared_bytes, hipStream_t) {
  return to.kernel(function, KernelForm::kStub, grid, block, shared_bytes, args, nullptr);
};

}  // namespace

hipError_t on_hipLaunchKernel_spt(Entry&, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                  hipStream_t stream) {
  return captured_call({stream, true}, next().hipLaunchKernel_spt, kDescribeLaunch, function, grid, block, args,
                       shared_bytes, stream);
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
