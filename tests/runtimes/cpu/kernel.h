// kernel.h: kernels as the CPU runtime runs them: x86-64 code with AMD's metadata for its arguments.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/code_object.h"
#include "operation.h"

namespace cpuhip {

using hipfront::KernelArgument;

/// A loaded kernel; kept alive by the module that owns it and by every node that uses it.
struct Kernel {
  std::string name;
  std::vector<KernelArgument> arguments;
  std::size_t args_bytes = 0;  ///< explicit part of the kernel argument segment
  unsigned max_threads = 1024;
  unsigned static_shared_bytes = 0;
  int device = 0;  ///< whose copy of the module this is
  void* entry = nullptr;
  std::shared_ptr<void> module;  ///< keeps the code loaded
  std::shared_ptr<std::atomic<int>>
      shared_limit;  ///< quirk shared_limits: what was last set; -1: nothing. One a kernel
};

/// The kernel behind a host stub (for the device; default the current one) or a hipFunction_t; null when unknown.
std::shared_ptr<const Kernel> find_kernel(const void* stub_or_function);
std::shared_ptr<const Kernel> find_kernel(const void* stub_or_function, Device& device);

/// Whether a kernel's handle is a host stub that is registered.
bool is_stub(const void* handle);

/// The device's copy of a registered __device__ variable; hipErrorInvalidSymbol when unknown. `bytes` may be null.
hipError_t resolve_symbol(const void* symbol, Device& device, void** address, std::size_t* bytes);

/// HIP's checks of a launch: dimensions, shared memory, launch bounds.
hipError_t check_launch(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

/// Quirk shared_limits: whether a launch, or a node, is within what was set of its kernel.
bool within_shared_limit(const Kernel& kernel, std::size_t shared_bytes);

/// Packs kernelParams or extra into an argument segment. hipErrorInvalidValue when both or neither are usable.
hipError_t pack_arguments(const Kernel& kernel, void** params, void** extra, std::vector<std::byte>* args);

/// Runs one launch on the calling thread: all blocks one after another; threads of a block become fibers when they meet
/// a barrier.
void run_kernel(const KernelWork& work);

}  // namespace cpuhip
