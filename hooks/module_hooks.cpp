// module_hooks.cpp: bodies of the calls that register fat binaries and load modules: kernels come from these.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/graphs/epochs.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"
#include "shim/memory/device_memory.h"

namespace graphpool::hooks {
namespace {

/// Makes a call that may fail for device memory; if it does, once more after kept memory was given back (rule 25).
template <typename Call>
hipError_t for_memory(Call&& call) {
  return doubted(memory_room().retry_after_trim(calling_device(), call));
}

}  // namespace

void** on___hipRegisterFatBinary(Entry&, const void* data) {
  void** const handle = next().__hipRegisterFatBinary(data);
  functions().registrations.add_fat_binary(handle, data);
  return handle;
}
void on___hipRegisterFunction(Entry&, void** modules, const void* stub, char* device_function, const char* device_name,
                              unsigned int thread_limit, uint3* tid, uint3* bid, dim3* block, dim3* grid,
                              int* warp_size) {
  next().__hipRegisterFunction(modules, stub, device_function, device_name, thread_limit, tid, bid, block, grid,
                               warp_size);
  functions().registrations.add_stub(modules, stub, device_name);
}
void on___hipUnregisterFatBinary(Entry&, void** modules) {
  // Under the loader's lock, or after main(): no other call may be made here.
  functions().on_fat_binary_unregistered(modules);
  next().__hipUnregisterFatBinary(modules);
}

hipError_t on_hipModuleLoad(Entry&, hipModule_t* module, const char* path) {
  const hipError_t result = for_memory([&] { return next().hipModuleLoad(module, path); });
  if (result == hipSuccess) static_cast<void>(functions().on_module_file_loaded(*module, path));
  return result;
}
hipError_t on_hipModuleLoadData(Entry&, hipModule_t* module, const void* image) {
  const hipError_t result = for_memory([&] { return next().hipModuleLoadData(module, image); });
  if (result == hipSuccess) static_cast<void>(functions().on_module_loaded(*module, image));
  return result;
}
hipError_t on_hipModuleLoadDataEx(Entry&, hipModule_t* module, const void* image, unsigned int count,
                                  hipJitOption* options, void** values) {
  const hipError_t result =
      for_memory([&] { return next().hipModuleLoadDataEx(module, image, count, options, values); });
  if (result == hipSuccess) static_cast<void>(functions().on_module_loaded(*module, image));
  return result;
}
hipError_t on_hipModuleLoadFatBinary(Entry&, hipModule_t* module, const void* image) {
  const hipError_t result = for_memory([&] { return next().hipModuleLoadFatBinary(module, image); });
  if (result == hipSuccess) static_cast<void>(functions().on_module_loaded(*module, image));
  return result;
}
// From 7 on HIP refuses hipModuleUnload where a capture forbids hipFree, and invalidates the capture.
hipError_t on_hipModuleUnload(Entry&, hipModule_t module) {
  module_leaves(module);
  const hipError_t result = next().hipModuleUnload(module);
  if (captures_open()) note_capture_doubt();
  return result;
}
hipError_t on_hipLibraryUnload(Entry&, void* library) {
  module_leaves(library);
  const hipError_t result = next().hipLibraryUnload(library);
  if (captures_open()) note_capture_doubt();
  return result;
}
hipError_t on_hipLibraryGetKernel(Entry&, void** kernel, void* library, const char* name) {
  const hipError_t result = doubted(retry_with_room([&] { return next().hipLibraryGetKernel(kernel, library, name); }));
  if (result == hipSuccess) static_cast<void>(functions().on_function_found(library, name, *kernel));
  return result;
}
hipError_t on_hipModuleGetFunction(Entry&, hipFunction_t* function, hipModule_t module, const char* name) {
  // Code objects may be loaded where a function is first asked for.
  const hipError_t result =
      doubted(retry_with_room([&] { return next().hipModuleGetFunction(function, module, name); }));
  if (result == hipSuccess) static_cast<void>(functions().on_function_found(module, name, *function));
  return result;
}
hipError_t on_hipModuleGetGlobal(Entry&, hipDeviceptr_t* dptr, size_t* bytes, hipModule_t module, const char* name) {
  const hipError_t result = for_memory([&] { return next().hipModuleGetGlobal(dptr, bytes, module, name); });
  if (result == hipSuccess && dptr != nullptr && bytes != nullptr) functions().on_variable_found(module, *dptr, *bytes);
  return result;
}
hipError_t on_hipGetFuncBySymbol(Entry&, hipFunction_t* function, const void* symbol) {
  const hipError_t result = doubted(retry_with_room([&] { return next().hipGetFuncBySymbol(function, symbol); }));
  if (result != hipSuccess) return result;
  static_cast<void>(functions().on_function_of_stub(symbol, *function));
  return result;
}

}  // namespace graphpool::hooks
