// registration.cpp: what a program built by hipcc tells the runtime from its constructors: fat binaries, the host stubs
// of its kernels, its __device__ variables.
//
// Nothing is loaded before it is used: the first use on a device loads the binary there. Registration may come before
// main and unregistration after it: the tables are never destroyed. The wrapper's data is an offload bundle with an
// entry for CUDA, or NVIDIA's own fat binary. Managed variables are not served.
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "common/registrations.h"
#include "module.h"
#include "translate.h"

namespace cudahip {
namespace {

struct Tables : hipfront::Registrations<cu::Module*, cu::Function*> {
  std::shared_mutex lock;
  std::unordered_map<cu::Function*, const void*> stubs_of;
};

Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

/// Under the lock.
hipError_t copy_for(Tables::FatBinary& binary, int ordinal, cu::Module** module) {
  cu::Module*& copy = binary.copies[ordinal];
  if (copy == nullptr) {
    if (const hipError_t error = load_image(binary.image, &copy); error != hipSuccess) return error;
  }
  *module = copy;
  return hipSuccess;
}

hipError_t load_function(const void* key, int ordinal, cu::Function** function) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  const auto found = all.stubs.find(key);
  if (found == all.stubs.end()) return hipErrorInvalidSymbol;
  cu::Module* module = nullptr;
  if (const hipError_t error = copy_for(*found->second.binary, ordinal, &module); error != hipSuccess) return error;
  if (driver().cuModuleGetFunction(function, module, found->second.name.c_str()) != cu::kSuccess)
    return hipErrorInvalidDeviceFunction;
  found->second.functions[ordinal] = *function;
  all.stubs_of[*function] = key;
  return hipSuccess;
}

void unregister(void** modules) {
  Tables& all = tables();
  std::unique_ptr<Tables::FatBinary> gone;
  {
    const std::unique_lock lock(all.lock);
    std::vector<cu::Function*> functions;
    gone = all.remove_binary(modules, &functions);
    for (cu::Function* const function : functions) all.stubs_of.erase(function);
  }
  if (gone == nullptr) return;
  for (const auto& [ordinal, module] : gone->copies)
    if (module != nullptr) driver().cuModuleUnload(module);  // fails at the process's end, when the driver is gone
}

}  // namespace

void forget_device(int ordinal) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  for (auto& [handle, binary] : all.binaries) binary->copies.erase(ordinal);
  for (auto& [key, stub] : all.stubs) {
    if (const auto found = stub.functions.find(ordinal); found != stub.functions.end()) {
      all.stubs_of.erase(found->second);
      stub.functions.erase(found);
    }
  }
}

hipError_t function_of_stub(const void* stub, cu::Function** function) {
  const int ordinal = current_ordinal();
  {
    Tables& all = tables();
    const std::shared_lock lock(all.lock);
    const auto found = all.stubs.find(stub);
    if (found == all.stubs.end()) return hipErrorInvalidSymbol;
    const auto known = found->second.functions.find(ordinal);
    if (known != found->second.functions.end()) {
      *function = known->second;
      return hipSuccess;
    }
  }
  return load_function(stub, ordinal, function);
}

hipError_t function_of(const void* stub_or_function, cu::Function** function) {
  if (stub_or_function == nullptr) return hipErrorInvalidDeviceFunction;
  const hipError_t error = function_of_stub(stub_or_function, function);
  if (error != hipErrorInvalidSymbol) return error;
  *function = static_cast<cu::Function*>(const_cast<void*>(stub_or_function));
  return hipSuccess;
}

const void* stub_of(cu::Function* function) {
  Tables& all = tables();
  const std::shared_lock lock(all.lock);
  const auto found = all.stubs_of.find(function);
  return found == all.stubs_of.end() ? nullptr : found->second;
}

hipError_t symbol_address(const void* symbol, cu::Address* place, std::size_t* bytes) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  const auto found = all.variables.find(symbol);
  if (found == all.variables.end()) return hipErrorInvalidSymbol;
  cu::Module* module = nullptr;
  if (const hipError_t error = copy_for(*found->second.binary, current_ordinal(), &module); error != hipSuccess)
    return error;
  const cu::Result result = driver().cuModuleGetGlobal_v2(place, bytes, module, found->second.name.c_str());
  return result == cu::kSuccess ? hipSuccess : hipErrorInvalidSymbol;
}

}  // namespace cudahip

using namespace cudahip;

HIP_EXPORT void** __hipRegisterFatBinary(const void* data) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  return all.add_binary(data);
}

HIP_EXPORT void __hipRegisterFunction(void** modules, const void* host_function, char*, const char* device_name,
                                      unsigned, uint3*, uint3*, dim3*, dim3*, int*) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  all.add_stub(modules, host_function, device_name);
}

HIP_EXPORT void __hipRegisterVar(void** modules, void* variable, char* host_name, char*, int, std::size_t, int, int) {
  Tables& all = tables();
  const std::unique_lock lock(all.lock);
  all.add_variable(modules, variable, host_name);
}

HIP_EXPORT void __hipRegisterManagedVar(void*, void**, void*, const char*, std::size_t, unsigned) {}
HIP_EXPORT void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {}
HIP_EXPORT void __hipRegisterSurface(void**, void*, char*, char*, int, int) {}
HIP_EXPORT void __hipUnregisterFatBinary(void** modules) { unregister(modules); }

HIP_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t* function, const void* symbol) {
  return api([&] {
    if (function == nullptr) return hipErrorInvalidDeviceFunction;
    const hipError_t error = function_of_stub(symbol, out<cu::Function*>(function));
    return error == hipSuccess ? hipSuccess : hipErrorInvalidDeviceFunction;
  });
}
