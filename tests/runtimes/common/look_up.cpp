#include "common/look_up.h"

#include <dlfcn.h>

#include <string>

namespace hipfront {
namespace {

/// This library by its own name.
void* own_handle() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_handle), &info) == 0) return nullptr;
  return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

hipError_t look_up(const char* symbol, void** function, int version, int* status, bool per_thread) {
  constexpr int kFound = 0, kNotFound = 1;
  if (symbol == nullptr || function == nullptr) return hipErrorInvalidValue;
  std::string name(symbol);
  if (version >= 600 && (name == "hipGetDeviceProperties" || name == "hipChooseDevice")) name += "R0600";
  *function = nullptr;
  if (void* handle = own_handle(); handle != nullptr) {
    if (per_thread) *function = dlsym(handle, (name + "_spt").c_str());
    if (*function == nullptr) *function = dlsym(handle, name.c_str());
    dlclose(handle);
  }
  if (status != nullptr) *status = *function != nullptr ? kFound : kNotFound;
  return *function != nullptr ? hipSuccess : hipErrorInvalidValue;
}

}  // namespace hipfront
