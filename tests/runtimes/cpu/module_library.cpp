// module_library.cpp: HIP 7's libraries of kernels. A library is a module of the device current at its load, a kernel
// of it a function: what HIP keeps apart for several devices is one thing here.
#include "api.h"
#include "module.h"

namespace cpuhip {
namespace {

struct Library;        // hipLibrary_t
struct LibraryKernel;  // hipKernel_t

hipModule_t module_behind(Library* library) { return reinterpret_cast<hipModule_t>(library); }
hipFunction_t function_behind(LibraryKernel* kernel) { return reinterpret_cast<hipFunction_t>(kernel); }

/// The first that answers hipKernelGetParamInfo: AMD's 7.2.4 has no such function.
constexpr int kTellsParameters = 70300000;

hipError_t load(Library** library, hipError_t (*loader)(const void*, hipModule_t*), const void* from) {
  if (library == nullptr) return hipErrorInvalidValue;
  return loader(from, reinterpret_cast<hipModule_t*>(library));
}

}  // namespace
}  // namespace cpuhip

using cpuhip::api;
using cpuhip::Call;
using cpuhip::function_behind;
using cpuhip::Library;
using cpuhip::LibraryKernel;
using cpuhip::module_behind;

CPUHIP_EXPORT hipError_t hipLibraryLoadData(Library** library, const void* code, void*, void**, unsigned int, void*,
                                            void**, unsigned int) {
  return api("hipLibraryLoadData", [&](Call&) { return cpuhip::load(library, &cpuhip::load_module, code); });
}

CPUHIP_EXPORT hipError_t hipLibraryLoadFromFile(Library** library, const char* file, void*, void**, unsigned int, void*,
                                                void**, unsigned int) {
  return api("hipLibraryLoadFromFile", [&](Call&) { return cpuhip::load(library, &cpuhip::load_module_file, file); });
}

CPUHIP_EXPORT hipError_t hipLibraryUnload(Library* library) {
  return api("hipLibraryUnload", [&](Call&) { return cpuhip::unload_module(module_behind(library)); });
}

CPUHIP_EXPORT hipError_t hipLibraryGetKernel(LibraryKernel** kernel, Library* library, const char* name) {
  return api("hipLibraryGetKernel", [&](Call&) {
    if (kernel == nullptr || library == nullptr || name == nullptr) return hipErrorInvalidValue;
    return cpuhip::get_function(module_behind(library), name, reinterpret_cast<hipFunction_t*>(kernel));
  });
}

CPUHIP_EXPORT hipError_t hipLibraryGetKernelCount(unsigned int* count, Library* library) {
  return api("hipLibraryGetKernelCount", [&](Call&) {
    const auto code = cpuhip::code_of(module_behind(library));
    if (count == nullptr || code == nullptr) return hipErrorInvalidValue;
    *count = static_cast<unsigned>(code->kernel_names().size());
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipKernelGetName(const char** name, LibraryKernel* kernel) {
  return api("hipKernelGetName", [&](Call&) {
    if (name == nullptr || cpuhip::kernel_of(kernel) == nullptr) return hipErrorInvalidValue;
    *name = cpuhip::function_name(kernel);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipKernelGetFunction(hipFunction_t* function, LibraryKernel* kernel) {
  return api("hipKernelGetFunction", [&](Call&) {
    if (function == nullptr || cpuhip::kernel_of(kernel) == nullptr) return hipErrorInvalidValue;
    *function = function_behind(kernel);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipKernelGetParamInfo(LibraryKernel* kernel, size_t index, size_t* offset, size_t* size) {
  return api("hipKernelGetParamInfo", [&](Call&) {
    if (cpuhip::config().version < cpuhip::kTellsParameters) return hipErrorNotSupported;
    const auto found = cpuhip::kernel_of(kernel);
    if (found == nullptr || offset == nullptr || index >= found->arguments.size()) return hipErrorInvalidValue;
    *offset = found->arguments[index].offset;
    if (size != nullptr) *size = found->arguments[index].bytes;
    return hipSuccess;
  });
}
