// registration.cpp: what a program built by hipcc tells the runtime from its constructors: fat binaries, the host stubs
// of its kernels, its __device__ variables.
//
// Nothing is loaded before it is used: the first use of a stub or variable on a device loads the binary's copy for that
// device. Registration may come before main and unregistration after it: the tables are never destroyed.
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api.h"
#include "common/module_image.h"
#include "common/registrations.h"
#include "device.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

namespace cpuhip {
namespace {

/// The first with wrappers whose code is in a file.
constexpr int kCodeElsewhere = 71400000;

struct Tables : hipfront::Registrations<std::shared_ptr<Code>, hipFunction_t> {
  std::mutex lock;  // held while a binary is loaded: first uses of one binary come one after another
};

Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

hipError_t copy_for(Tables::FatBinary& binary, Device& device, std::shared_ptr<Code>* code) {
  std::shared_ptr<Code>& copy = binary.copies[device.ordinal()];
  if (copy == nullptr) {
    hipfront::ModuleImage image(kBundleEntry);
    std::vector<char> file;
    if (binary.elsewhere && !read_image_file(static_cast<const char*>(binary.image), &file))
      return hipErrorNoBinaryForGpu;
    if (const hipError_t error = image.open(binary.elsewhere ? file.data() : binary.image); error != hipSuccess)
      return error;
    if (const hipError_t error = Code::load(image.object(), device, &copy); error != hipSuccess) return error;
  }
  *code = copy;
  return hipSuccess;
}

void register_variable(void** modules, const void* key, const char* name) {
  Tables& all = tables();
  const std::lock_guard lock(all.lock);
  all.add_variable(modules, key, name);
}

void unregister(void** modules) {
  Tables& all = tables();
  std::unique_ptr<Tables::FatBinary> gone;
  std::vector<hipFunction_t> functions;
  {
    const std::lock_guard lock(all.lock);
    gone = all.remove_binary(modules, &functions);
  }
  if (gone == nullptr) return;
  for (const auto& [ordinal, code] : gone->copies)
    if (code != nullptr) static_cast<void>(synchronize(device(ordinal)));
  for (const hipFunction_t function : functions) release_function(function);
}

}  // namespace

hipError_t function_of_stub(const void* stub, Device& device, hipFunction_t* function) {
  Tables& all = tables();
  const std::lock_guard lock(all.lock);
  const auto found = all.stubs.find(stub);
  if (found == all.stubs.end()) return hipErrorInvalidSymbol;
  hipFunction_t& known = found->second.functions[device.ordinal()];
  if (known == nullptr) {
    std::shared_ptr<Code> code;
    if (const hipError_t error = copy_for(*found->second.binary, device, &code); error != hipSuccess) return error;
    std::shared_ptr<const Kernel> kernel = code->kernel(found->second.name);
    if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
    known = make_function(std::move(kernel));
  }
  *function = known;
  return hipSuccess;
}

std::shared_ptr<const Kernel> find_kernel(const void* stub_or_function, Device& device) {
  hipFunction_t function = nullptr;
  const hipError_t error = function_of_stub(stub_or_function, device, &function);
  if (error == hipErrorInvalidSymbol) return kernel_of(stub_or_function);
  return error == hipSuccess ? kernel_of(function) : nullptr;
}

std::shared_ptr<const Kernel> find_kernel(const void* stub_or_function) {
  return find_kernel(stub_or_function, current_device());
}

bool is_stub(const void* handle) {
  Tables& all = tables();
  const std::lock_guard lock(all.lock);
  return all.stubs.contains(handle);
}

hipError_t resolve_symbol(const void* symbol, Device& device, void** address, std::size_t* bytes) {
  Tables& all = tables();
  std::shared_ptr<Code> code;
  std::string name;
  {
    const std::lock_guard lock(all.lock);
    const auto found = all.variables.find(symbol);
    if (found == all.variables.end()) return hipErrorInvalidSymbol;
    name = found->second.name;
    if (const hipError_t error = copy_for(*found->second.binary, device, &code); error != hipSuccess) return error;
  }
  return code->variable(name, address, bytes) ? hipSuccess : hipErrorInvalidSymbol;
}

}  // namespace cpuhip

using cpuhip::api;
using cpuhip::Call;

CPUHIP_EXPORT void** __hipRegisterFatBinary(const void* data) {
  const Call call("__hipRegisterFatBinary");
  cpuhip::Tables& all = cpuhip::tables();
  const std::lock_guard lock(all.lock);
  return all.add_binary(data, cpuhip::config().version >= cpuhip::kCodeElsewhere);
}

CPUHIP_EXPORT void __hipRegisterFunction(void** modules, const void* host_function, char*, const char* device_name,
                                         unsigned, uint3*, uint3*, dim3*, dim3*, int*) {
  const Call call("__hipRegisterFunction");
  cpuhip::Tables& all = cpuhip::tables();
  const std::lock_guard lock(all.lock);
  all.add_stub(modules, host_function, device_name);
}

CPUHIP_EXPORT void __hipRegisterVar(void** modules, void* variable, char* host_name, char*, int, size_t, int, int) {
  const Call call("__hipRegisterVar");
  cpuhip::register_variable(modules, variable, host_name);
}

/// There is one address space: the host's pointer is led to the first device's copy. Kernels on other devices see
/// their own; programs that share a managed variable between devices are not served.
CPUHIP_EXPORT void __hipRegisterManagedVar(void* module, void** pointer, void* initial, const char* name, size_t size,
                                           unsigned) {
  const Call call("__hipRegisterManagedVar");
  cpuhip::register_variable(static_cast<void**>(module), pointer, name);
  void* address = nullptr;
  if (cpuhip::resolve_symbol(pointer, cpuhip::device(0), &address, nullptr) != hipSuccess) return;
  std::memcpy(address, initial, size);
  *pointer = address;
}

CPUHIP_EXPORT void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {
  const Call call("__hipRegisterTexture");
}

CPUHIP_EXPORT void __hipRegisterSurface(void**, void*, char*, char*, int, int) {
  const Call call("__hipRegisterSurface");
}

CPUHIP_EXPORT void __hipUnregisterFatBinary(void** modules) {
  const Call call("__hipUnregisterFatBinary");
  cpuhip::unregister(modules);
}

CPUHIP_EXPORT hipError_t hipGetSymbolAddress(void** address, const void* symbol) {
  return api("hipGetSymbolAddress", [&](Call&) {
    if (address == nullptr) return hipErrorInvalidValue;
    return cpuhip::resolve_symbol(symbol, cpuhip::current_device(), address, nullptr);
  });
}

CPUHIP_EXPORT hipError_t hipGetSymbolSize(size_t* size, const void* symbol) {
  return api("hipGetSymbolSize", [&](Call&) {
    if (size == nullptr) return hipErrorInvalidValue;
    void* address = nullptr;
    return cpuhip::resolve_symbol(symbol, cpuhip::current_device(), &address, size);
  });
}

CPUHIP_EXPORT hipError_t hipGetFuncBySymbol(hipFunction_t* function, const void* symbol) {
  return api("hipGetFuncBySymbol", [&](Call&) {
    if (function == nullptr) return hipErrorInvalidDeviceFunction;
    const hipError_t error = cpuhip::function_of_stub(symbol, cpuhip::current_device(), function);
    return error == hipSuccess ? hipSuccess : hipErrorInvalidDeviceFunction;
  });
}
