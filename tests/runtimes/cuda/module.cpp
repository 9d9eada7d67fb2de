// module.cpp: modules, launches, and what can be asked about kernels.
#include "module.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/elf_object.h"
#include "common/module_image.h"
#include "rtc_object.h"
#include "translate.h"

namespace cudahip {
namespace {

constexpr std::uint32_t kNvidiaFatbin = 0xBA55ED50;

hipError_t load(const void* image, cu::Module** module) { return translate(driver().cuModuleLoadData(module, image)); }

struct Launch {
  dim3 grid, block;
  unsigned shared_bytes;
};

hipError_t launch(cu::Function* function, const Launch& shape, cu::Stream* stream, void** params, void** extra) {
  if (params != nullptr && extra != nullptr) return hipErrorInvalidValue;
  Extra translated(extra, function);
  return translate(driver().cuLaunchKernel(function, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x,
                                           shape.block.y, shape.block.z, shape.shared_bytes, stream, params,
                                           translated.get()));
}

hipError_t launch_stub(const void* stub, const Launch& shape, cu::Stream* stream, void** params) {
  cu::Function* function = nullptr;
  if (const hipError_t error = function_of(stub, &function); error != hipSuccess) return error;
  return launch(function, shape, stream, params, nullptr);
}

hipError_t launch_cooperative(const void* stub, dim3 grid, dim3 block, void** params, unsigned shared_bytes,
                              cu::Stream* stream) {
  cu::Function* function = nullptr;
  if (const hipError_t error = function_of(stub, &function); error != hipSuccess) return error;
  return translate(driver().cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                      shared_bytes, stream, params));
}

/// hipExt launches: the number of threads, not of blocks; events around the kernel.
hipError_t launch_between(cu::Function* function, const Launch& shape, cu::Stream* stream, void** params, void** extra,
                          hipEvent_t before, hipEvent_t after) {
  if (before != nullptr) {
    if (const cu::Result result = driver().cuEventRecord(event_of(before), stream); result != cu::kSuccess)
      return translate(result);
  }
  const hipError_t error = launch(function, shape, stream, params, extra);
  if (error != hipSuccess || after == nullptr) return error;
  return translate(driver().cuEventRecord(event_of(after), stream));
}

hipError_t blocks_of(unsigned threads, unsigned block, unsigned* blocks) {
  if (block == 0 || threads % block != 0) return hipErrorInvalidValue;
  *blocks = threads / block;
  return hipSuccess;
}

/// Pending `<<<>>>` configurations of a thread.
struct Pending {
  Launch shape;
  hipStream_t stream;
};
thread_local std::vector<Pending>* t_pending = nullptr;

template <typename Ask>
hipError_t with_function(const void* stub_or_function, Ask&& ask) {
  cu::Function* function = nullptr;
  const hipError_t error = function_of(stub_or_function, &function);
  return error != hipSuccess ? error : translate(ask(function));
}

hipError_t attributes(hipFuncAttributes* place, const void* stub) {
  if (place == nullptr) return hipErrorInvalidValue;
  return with_function(stub, [&](cu::Function* function) -> cu::Result {
    int values[10] = {};
    for (int i = 0; i < 10; ++i)
      if (const cu::Result result = driver().cuFuncGetAttribute(&values[i], i, function); result != cu::kSuccess)
        return result;
    *place = {};
    place->maxThreadsPerBlock = values[0];
    place->sharedSizeBytes = static_cast<std::size_t>(values[1]);
    place->constSizeBytes = static_cast<std::size_t>(values[2]);
    place->localSizeBytes = static_cast<std::size_t>(values[3]);
    place->numRegs = values[4];
    place->ptxVersion = values[5];
    place->binaryVersion = values[6];
    place->cacheModeCA = values[7];
    place->maxDynamicSharedSizeBytes = values[8];
    place->preferredShmemCarveout = values[9];
    return cu::kSuccess;
  });
}

}  // namespace

hipError_t load_image(const void* image, cu::Module** module) {
  if (image == nullptr) return hipErrorInvalidValue;
  std::uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  if (magic == kNvidiaFatbin) return load(image, module);
  hipfront::ModuleImage bundle(kBundleEntry);
  const hipError_t error = bundle.open(image);
  if (error == hipErrorInvalidImage && hipfront::elf_bytes(image) == 0) return load(image, module);  // PTX
  if (error != hipSuccess) return error;
  if (const char* ptx = ptx_of(bundle.object()); ptx != nullptr) return load(ptx, module);
  // The driver reads text up to a zero byte, which an entry does not have.
  std::vector<std::byte> code(bundle.object().begin(), bundle.object().end());
  code.push_back(std::byte{0});
  return load(code.data(), module);
}

}  // namespace cudahip

using namespace cudahip;

HIP_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return api([&] { return module == nullptr ? hipErrorInvalidValue : load_image(image, out<cu::Module*>(module)); });
}
HIP_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned, hipJitOption*, void**) {
  return hipModuleLoadData(module, image);
}
HIP_EXPORT hipError_t hipModuleLoadFatBinary(hipModule_t* module, const void* image) {
  return hipModuleLoadData(module, image);
}
HIP_EXPORT hipError_t hipModuleLoad(hipModule_t* module, const char* name) {
  return api([&] {
    if (module == nullptr || name == nullptr) return hipErrorInvalidValue;
    std::ifstream file(name, std::ios::binary);
    if (!file) return hipErrorFileNotFound;
    std::string image((std::istreambuf_iterator<char>(file)), {});
    return image.size() < 4 ? hipErrorInvalidImage : load_image(image.c_str(), out<cu::Module*>(module));
  });
}
HIP_EXPORT hipError_t hipModuleUnload(hipModule_t module) {
  return api([&] { return driver().cuModuleUnload(module_of(module)); });
}
HIP_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return api([&] {
    if (function == nullptr || name == nullptr) return cu::kInvalidValue;
    return driver().cuModuleGetFunction(out<cu::Function*>(function), module_of(module), name);
  });
}
HIP_EXPORT hipError_t hipModuleGetFunctionCount(unsigned* count, hipModule_t module) {
  return api([&] { return driver().cuModuleGetFunctionCount(count, module_of(module)); });
}
HIP_EXPORT hipError_t hipModuleEnumerateFunctions(hipFunction_t* functions, unsigned count, hipModule_t module) {
  return api(
      [&] { return driver().cuModuleEnumerateFunctions(out<cu::Function*>(functions), count, module_of(module)); });
}
HIP_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t* place, std::size_t* bytes, hipModule_t module,
                                         const char* name) {
  return api([&] { return driver().cuModuleGetGlobal_v2(out<cu::Address>(place), bytes, module_of(module), name); });
}

// --- Launches ---
HIP_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                            hipStream_t stream, void** params, void** extra) {
  return stream_api(stream, [&] {
    return launch(reinterpret_cast<cu::Function*>(function),
                  {dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared_bytes}, stream_of(stream),
                  params, extra);
  });
}
HIP_EXPORT hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                                       unsigned grid_z, unsigned block_x, unsigned block_y,
                                                       unsigned block_z, unsigned shared_bytes, hipStream_t stream,
                                                       void** params) {
  return api([&] {
    return driver().cuLaunchCooperativeKernel(reinterpret_cast<cu::Function*>(function), grid_x, grid_y, grid_z,
                                              block_x, block_y, block_z, shared_bytes, stream_of(stream), params);
  });
}
HIP_EXPORT hipError_t hipLaunchKernel(const void* stub, dim3 grid, dim3 block, void** params, std::size_t shared_bytes,
                                      hipStream_t stream) {
  return api([&] {
    return launch_stub(stub, {grid, block, static_cast<unsigned>(shared_bytes)}, stream_of(stream), params);
  });
}
HIP_EXPORT hipError_t hipLaunchKernel_spt(const void* stub, dim3 grid, dim3 block, void** params,
                                          std::size_t shared_bytes, hipStream_t stream) {
  return api([&] {
    return launch_stub(stub, {grid, block, static_cast<unsigned>(shared_bytes)}, stream_of_thread(stream), params);
  });
}
HIP_EXPORT hipError_t hipLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** params,
                                                 unsigned shared_bytes, hipStream_t stream) {
  return api([&] { return launch_cooperative(stub, grid, block, params, shared_bytes, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipLaunchCooperativeKernel_spt(const void* stub, dim3 grid, dim3 block, void** params,
                                                     unsigned shared_bytes, hipStream_t stream) {
  return api([&] { return launch_cooperative(stub, grid, block, params, shared_bytes, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipExtLaunchKernel(const void* stub, dim3 grid, dim3 block, void** params,
                                         std::size_t shared_bytes, hipStream_t stream, hipEvent_t before,
                                         hipEvent_t after, int) {
  return api([&] {
    cu::Function* function = nullptr;
    if (const hipError_t error = function_of(stub, &function); error != hipSuccess) return error;
    return launch_between(function, {grid, block, static_cast<unsigned>(shared_bytes)}, stream_of(stream), params,
                          nullptr, before, after);
  });
}
HIP_EXPORT hipError_t hipExtModuleLaunchKernel(hipFunction_t function, std::uint32_t threads_x, std::uint32_t threads_y,
                                               std::uint32_t threads_z, std::uint32_t block_x, std::uint32_t block_y,
                                               std::uint32_t block_z, std::size_t shared_bytes, hipStream_t stream,
                                               void** params, void** extra, hipEvent_t before, hipEvent_t after,
                                               std::uint32_t) {
  return stream_api(stream, [&] {
    Launch shape{dim3(), dim3(block_x, block_y, block_z), static_cast<unsigned>(shared_bytes)};
    hipError_t error = blocks_of(threads_x, block_x, &shape.grid.x);
    if (error == hipSuccess) error = blocks_of(threads_y, block_y, &shape.grid.y);
    if (error == hipSuccess) error = blocks_of(threads_z, block_z, &shape.grid.z);
    if (error != hipSuccess) return error;
    return launch_between(reinterpret_cast<cu::Function*>(function), shape, stream_of(stream), params, extra, before,
                          after);
  });
}
HIP_EXPORT hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, hipStream_t stream) {
  if (t_pending == nullptr) t_pending = new std::vector<Pending>;
  t_pending->push_back({{grid, block, static_cast<unsigned>(shared_bytes)}, stream});
  return hipSuccess;
}
HIP_EXPORT hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                hipStream_t* stream) {
  if (t_pending == nullptr || t_pending->empty()) return leave(hipErrorMissingConfiguration);
  const Pending last = t_pending->back();
  t_pending->pop_back();
  *grid = last.shape.grid, *block = last.shape.block;
  *shared_bytes = last.shape.shared_bytes, *stream = last.stream;
  return hipSuccess;
}

// --- Questions ---
HIP_EXPORT hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute wanted, hipFunction_t function) {
  return api([&] {
    return driver().cuFuncGetAttribute(value, static_cast<int>(wanted), reinterpret_cast<cu::Function*>(function));
  });
}
HIP_EXPORT hipError_t hipFuncGetAttributes(hipFuncAttributes* place, const void* stub) {
  return api([&] { return attributes(place, stub); });
}
HIP_EXPORT hipError_t hipFuncSetAttribute(const void* stub, hipFuncAttribute wanted, int value) {
  return api([&] {
    return with_function(stub, [&](cu::Function* function) {
      return driver().cuFuncSetAttribute(function, static_cast<int>(wanted), value);
    });
  });
}
HIP_EXPORT hipError_t hipFuncSetCacheConfig(const void* stub, hipFuncCache_t value) {
  return api([&] {
    return with_function(
        stub, [&](cu::Function* function) { return driver().cuFuncSetCacheConfig(function, static_cast<int>(value)); });
  });
}
HIP_EXPORT hipError_t hipFuncSetSharedMemConfig(const void* stub, hipSharedMemConfig value) {
  return api([&] {
    return with_function(stub, [&](cu::Function* function) {
      return driver().cuFuncSetSharedMemConfig(function, static_cast<int>(value));
    });
  });
}
HIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, hipFunction_t function,
                                                                                  int block, std::size_t shared_bytes,
                                                                                  unsigned flags) {
  return api([&] {
    return driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, reinterpret_cast<cu::Function*>(function), block, shared_bytes, flags);
  });
}
HIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function, int block,
                                                                         std::size_t shared_bytes) {
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared_bytes, 0);
}
HIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t function,
                                                                       std::size_t shared_bytes, int limit,
                                                                       unsigned flags) {
  return api([&] {
    return driver().cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, reinterpret_cast<cu::Function*>(function),
                                                              nullptr, shared_bytes, limit, flags);
  });
}
HIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t function,
                                                              std::size_t shared_bytes, int limit) {
  return hipModuleOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_bytes, limit, 0);
}
HIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int block,
                                                                            std::size_t shared_bytes, unsigned flags) {
  return api([&] {
    return with_function(stub, [&](cu::Function* function) {
      return driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared_bytes,
                                                                           flags);
    });
  });
}
HIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block,
                                                                   std::size_t shared_bytes) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block, shared_bytes, 0);
}
HIP_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* stub,
                                                        std::size_t shared_bytes, int limit) {
  return api([&] {
    return with_function(stub, [&](cu::Function* function) {
      return driver().cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, nullptr, shared_bytes, limit, 0);
    });
  });
}
HIP_EXPORT hipError_t hipOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* stub, int blocks,
                                                               int block) {
  return api([&] {
    return with_function(stub, [&](cu::Function* function) {
      return driver().cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, block);
    });
  });
}
HIP_EXPORT const char* hipKernelNameRef(hipFunction_t function) {
  const char* name = nullptr;
  return enter() == hipSuccess &&
                 driver().cuFuncGetName(&name, reinterpret_cast<cu::Function*>(function)) == cu::kSuccess
             ? name
             : nullptr;
}
HIP_EXPORT const char* hipKernelNameRefByPtr(const void* stub, hipStream_t) {
  cu::Function* function = nullptr;
  const char* name = nullptr;
  return enter() == hipSuccess && function_of_stub(stub, &function) == hipSuccess &&
                 driver().cuFuncGetName(&name, function) == cu::kSuccess
             ? name
             : nullptr;
}
HIP_EXPORT hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
