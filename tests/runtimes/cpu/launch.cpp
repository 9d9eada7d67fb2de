// launch.cpp: every way to launch a kernel. All end in launch(): arguments are copied when the call is made, limits are
// HIP's, the stream decides whether the launch is enqueued or captured (submit()).
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "graph_exec.h"
#include "module.h"
#include "stream.h"

namespace cpuhip {
namespace {

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  hipStream_t stream = nullptr;
  bool per_thread = false;  ///< an _spt entry
  void** params = nullptr;
  void** extra = nullptr;
  hipEvent_t start = nullptr, stop = nullptr;
  bool captured = true;     ///< false: HIP runs it at once even on a capturing stream
  bool any_device = false;  ///< the code need not be the stream's device's
};

/// The event stands for what `token` completes.
void set_event(ihipEvent_t& event, Stream& stream, Token token) {
  event.last_stream_generation = stream.generation();
  event.last_stream = &stream;
  event.capture_id = 0;
  const std::lock_guard lock(event.mutex);
  event.recorded = std::move(token);
}

hipError_t launch(Stream& stream, const void* handle, std::shared_ptr<const Kernel> kernel, const Launch& what) {
  if (const hipError_t error = check_launch(*kernel, what.grid, what.block, what.shared_bytes); error != hipSuccess)
    return error;
  if (!within_shared_limit(*kernel, what.shared_bytes)) return hipErrorInvalidValue;
  if (kernel->device != stream.device().ordinal() && !what.any_device) return hipErrorInvalidDevice;
  KernelWork work;
  work.handle = const_cast<void*>(handle);
  work.grid = what.grid;
  work.block = what.block;
  work.shared_bytes = static_cast<unsigned>(what.shared_bytes);
  if (const hipError_t error = pack_arguments(*kernel, what.params, what.extra, &work.args); error != hipSuccess)
    return error;
  work.packed = what.params == nullptr && what.extra != nullptr;
  work.kernel = std::move(kernel);
  ihipEvent_t *start = nullptr, *stop = nullptr;
  for (const auto& [event, resolved] : {std::pair{what.start, &start}, {what.stop, &stop}})
    if (event != nullptr && resolve(event, resolved) != hipSuccess) return hipErrorInvalidValue;
  if (what.captured && start == nullptr && stop == nullptr) {
    if (stream.capture.load(std::memory_order_acquire) == nullptr) see_arguments();
    return submit(stream, std::move(work));
  }
  if (const hipError_t error = validate(work, stream.device()); error != hipSuccess) return error;
  if (what.captured && stream.capture.load(std::memory_order_acquire) != nullptr) {
    return capture_launch_with_events(stream, std::move(work), start, stop);
  }
  if (start != nullptr) set_event(*start, stream, stream.marker());
  see_arguments();
  const Token token = stream.enqueue(std::move(work));
  if (stop != nullptr) set_event(*stop, stream, token);
  return hipSuccess;
}

/// By host stub: the code of the stream's device. `unknown`: what HIP answers for a stub it does not know.
hipError_t launch_stub(Call& call, const void* stub, Launch what, hipError_t unknown = hipErrorInvalidDeviceFunction) {
  Stream* stream = nullptr;
  if (const hipError_t error = resolve(call, what.stream, what.per_thread, &stream); error != hipSuccess) return error;
  if (stub == nullptr) return hipErrorInvalidDeviceFunction;
  what.any_device = quirks().current_device_stubs;
  std::shared_ptr<const Kernel> kernel = find_kernel(stub, what.any_device ? current_device() : stream->device());
  if (kernel == nullptr) return unknown;
  return launch(*stream, stub, std::move(kernel), what);
}

/// By function handle.
hipError_t launch_function(Call& call, hipFunction_t function, const Launch& what) {
  Stream* stream = nullptr;
  if (const hipError_t error = resolve(call, what.stream, what.per_thread, &stream); error != hipSuccess) return error;
  if (function == nullptr) return hipErrorInvalidResourceHandle;
  std::shared_ptr<const Kernel> kernel = kernel_of(function);
  if (kernel == nullptr) return hipErrorInvalidResourceHandle;
  Launch as_runtime = what;
  as_runtime.captured = what.captured && !quirks().module_launches_at_once;
  return launch(*stream, function, std::move(kernel), as_runtime);
}

/// With the global size in threads, as hipExtModuleLaunchKernel takes it.
hipError_t launch_global(Call& call, hipFunction_t function, dim3 global, Launch what) {
  if (global.x == 0 || global.y == 0 || global.z == 0) return hipErrorInvalidValue;
  if (what.block.x == 0 || what.block.y == 0 || what.block.z == 0) return hipErrorInvalidConfiguration;
  what.block =
      dim3(std::min(what.block.x, global.x), std::min(what.block.y, global.y), std::min(what.block.z, global.z));
  if (global.x % what.block.x != 0 || global.y % what.block.y != 0 || global.z % what.block.z != 0)
    return hipErrorInvalidValue;  // kernels are compiled for uniform blocks
  what.grid = dim3(global.x / what.block.x, global.y / what.block.y, global.z / what.block.z);
  return launch_function(call, function, what);
}

hipError_t launch_cooperative(Call& call, const void* stub, Launch what) {
  what.captured = false;
  constexpr std::size_t kMaxSharedBytes = std::size_t{64} << 10;
  constexpr std::uint64_t kMaxThreads = 1024;
  if (stub != nullptr) {
    if (std::uint64_t{what.block.x} * what.block.y * what.block.z > kMaxThreads) return hipErrorInvalidConfiguration;
    if (what.shared_bytes > kMaxSharedBytes) return hipErrorCooperativeLaunchTooLarge;
  }
  return launch_stub(call, stub, what, hipErrorInvalidSymbol);
}

/// The call configurations pushed by a thread, with the arguments that hipSetupArgument collected.
struct Configuration {
  Launch launch;
  std::vector<std::byte> args;
};
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

void push_configuration(dim3 grid, dim3 block, std::size_t shared_bytes, hipStream_t stream) {
  Configuration configuration;
  configuration.launch.grid = grid;
  configuration.launch.block = block;
  configuration.launch.shared_bytes = shared_bytes;
  configuration.launch.stream = stream;
  configurations().push_back(std::move(configuration));
}

hipError_t launch_configured(Call& call, const void* stub) {
  if (configurations().empty()) return hipErrorMissingConfiguration;
  Configuration configuration = std::move(configurations().back());
  configurations().pop_back();
  std::size_t bytes = configuration.args.size();
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, configuration.args.data(), HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   HIP_LAUNCH_PARAM_END};
  if (bytes != 0) configuration.launch.extra = extra;
  return launch_stub(call, stub, configuration.launch);
}

/// hipLaunchConfig_t and HIP_LAUNCH_CONFIG of HIP 7; attributes are not looked at.
struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned attribute_count;
};
struct DriverLaunchConfig {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned attribute_count;
};

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                         hipStream_t stream) {
  return api("hipLaunchKernel", [&](Call& call) {
    return launch_stub(call, function, {grid, block, shared_bytes, stream, false, args});
  });
}

CPUHIP_EXPORT hipError_t hipLaunchKernel_spt(const void* function, dim3 grid, dim3 block, void** args,
                                             size_t shared_bytes, hipStream_t stream) {
  return api("hipLaunchKernel_spt", [&](Call& call) {
    return launch_stub(call, function, {grid, block, shared_bytes, stream, true, args});
  });
}

CPUHIP_EXPORT hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** args,
                                            size_t shared_bytes, hipStream_t stream, hipEvent_t start, hipEvent_t stop,
                                            int) {
  return api("hipExtLaunchKernel", [&](Call& call) {
    Launch what{grid, block, shared_bytes, stream, false, args, nullptr, start, stop};
    what.captured = !quirks().module_launches_at_once;
    return launch_stub(call, function, what);
  });
}

CPUHIP_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                               unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                               unsigned int block_z, unsigned int shared_bytes, hipStream_t stream,
                                               void** params, void** extra) {
  return api("hipModuleLaunchKernel", [&](Call& call) {
    return launch_function(
        call, function,
        {dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared_bytes, stream, false, params, extra});
  });
}

CPUHIP_EXPORT hipError_t hipExtModuleLaunchKernel(hipFunction_t function, uint32_t global_x, uint32_t global_y,
                                                  uint32_t global_z, uint32_t block_x, uint32_t block_y,
                                                  uint32_t block_z, size_t shared_bytes, hipStream_t stream,
                                                  void** params, void** extra, hipEvent_t start, hipEvent_t stop,
                                                  uint32_t) {
  return api("hipExtModuleLaunchKernel", [&](Call& call) {
    return launch_global(
        call, function, dim3(global_x, global_y, global_z),
        {dim3(), dim3(block_x, block_y, block_z), shared_bytes, stream, false, params, extra, start, stop});
  });
}

CPUHIP_EXPORT hipError_t hipHccModuleLaunchKernel(hipFunction_t function, uint32_t global_x, uint32_t global_y,
                                                  uint32_t global_z, uint32_t block_x, uint32_t block_y,
                                                  uint32_t block_z, size_t shared_bytes, hipStream_t stream,
                                                  void** params, void** extra, hipEvent_t start, hipEvent_t stop) {
  return api("hipHccModuleLaunchKernel", [&](Call& call) {
    return launch_global(
        call, function, dim3(global_x, global_y, global_z),
        {dim3(), dim3(block_x, block_y, block_z), shared_bytes, stream, false, params, extra, start, stop, false});
  });
}

CPUHIP_EXPORT hipError_t hipLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** params,
                                                    unsigned int shared_bytes, hipStream_t stream) {
  return api("hipLaunchCooperativeKernel", [&](Call& call) {
    return launch_cooperative(call, function, {grid, block, shared_bytes, stream, false, params});
  });
}

CPUHIP_EXPORT hipError_t hipLaunchCooperativeKernel_spt(const void* function, dim3 grid, dim3 block, void** params,
                                                        uint32_t shared_bytes, hipStream_t stream) {
  return api("hipLaunchCooperativeKernel_spt", [&](Call& call) {
    return launch_cooperative(call, function, {grid, block, shared_bytes, stream, true, params});
  });
}

CPUHIP_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned int grid_x,
                                                          unsigned int grid_y, unsigned int grid_z,
                                                          unsigned int block_x, unsigned int block_y,
                                                          unsigned int block_z, unsigned int shared_bytes,
                                                          hipStream_t stream, void** params) {
  return api("hipModuleLaunchCooperativeKernel", [&](Call& call) {
    Launch what{dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared_bytes, stream, false, params};
    what.captured = false;
    return launch_function(call, function, what);
  });
}

CPUHIP_EXPORT hipError_t hipLaunchKernelExC(const LaunchConfig* config, const void* function, void** args) {
  return api("hipLaunchKernelExC", [&](Call& call) {
    if (config == nullptr) return hipErrorInvalidValue;
    return launch_stub(call, function,
                       {config->grid, config->block, config->shared_bytes, config->stream, false, args});
  });
}

CPUHIP_EXPORT hipError_t hipDrvLaunchKernelEx(const DriverLaunchConfig* config, hipFunction_t function, void** params,
                                              void** extra) {
  return api("hipDrvLaunchKernelEx", [&](Call& call) {
    if (config == nullptr) return hipErrorInvalidValue;
    return launch_function(call, function,
                           {dim3(config->grid[0], config->grid[1], config->grid[2]),
                            dim3(config->block[0], config->block[1], config->block[2]), config->shared_bytes,
                            config->stream, false, params, extra});
  });
}

CPUHIP_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, hipStream_t stream) {
  return api("__hipPushCallConfiguration", [&](Call& call) {
    call.on_stream(stream);
    push_configuration(grid, block, shared_bytes, stream);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, hipStream_t* stream) {
  return api("__hipPopCallConfiguration", [&](Call&) {
    if (configurations().empty()) return hipErrorMissingConfiguration;
    if (grid == nullptr || block == nullptr || shared_bytes == nullptr || stream == nullptr)
      return hipErrorInvalidValue;
    const Launch& launch = configurations().back().launch;
    *grid = launch.grid;
    *block = launch.block;
    *shared_bytes = launch.shared_bytes;
    *stream = launch.stream;
    configurations().pop_back();
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t shared_bytes, hipStream_t stream) {
  return api("hipConfigureCall", [&](Call& call) {
    call.on_stream(stream);
    push_configuration(grid, block, shared_bytes, stream);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipSetupArgument(const void* arg, size_t size, size_t offset) {
  return api("hipSetupArgument", [&](Call&) {
    if (configurations().empty()) return hipErrorMissingConfiguration;
    std::vector<std::byte>& args = configurations().back().args;
    if (args.size() < offset + size) args.resize(offset + size);
    if (size != 0) std::memcpy(args.data() + offset, arg, size);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipLaunchByPtr(const void* function) {
  return api("hipLaunchByPtr", [&](Call& call) { return launch_configured(call, function); });
}
