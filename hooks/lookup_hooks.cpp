// lookup_hooks.cpp: gives the program our functions where hipGetProcAddress and its relatives answer with the runtime's
// own.
#include "hooks/bodies.h"
#include "shim/hip/lookup.h"

namespace graphpool::hooks {
namespace {

hipError_t with_our_entry(hipError_t result, void** function) noexcept {
  if (result == hipSuccess && function != nullptr && *function != nullptr)
    if (void* ours = entry_for_next(*function)) *function = ours;
  return result;
}

}  // namespace

hipError_t on_hipGetProcAddress(Entry&, const char* symbol, void** pfn, int version, uint64_t flags,
                                ProcAddressResult* status) {
  return with_our_entry(next().hipGetProcAddress(symbol, pfn, version, flags, status), pfn);
}

hipError_t on_hipGetProcAddress_spt(Entry&, const char* symbol, void** pfn, int version, uint64_t flags,
                                    ProcAddressResult* status) {
  return with_our_entry(next().hipGetProcAddress_spt(symbol, pfn, version, flags, status), pfn);
}

hipError_t on_hipGetDriverEntryPoint(Entry&, const char* symbol, void** function, unsigned long long flags,
                                     DriverEntryPointResult* status) {
  return with_our_entry(next().hipGetDriverEntryPoint(symbol, function, flags, status), function);
}

hipError_t on_hipGetDriverEntryPoint_spt(Entry&, const char* symbol, void** function, unsigned long long flags,
                                         DriverEntryPointResult* status) {
  return with_our_entry(next().hipGetDriverEntryPoint_spt(symbol, function, flags, status), function);
}

}  // namespace graphpool::hooks
