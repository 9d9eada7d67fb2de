// weak_parts.cpp: stand-ins for the kernel half of the runtime.
#include "kernel.h"

#define WEAK __attribute__((weak))

namespace cpuhip {

WEAK std::shared_ptr<const Kernel> find_kernel(const void*) { return nullptr; }
WEAK std::shared_ptr<const Kernel> find_kernel(const void*, Device&) { return nullptr; }
WEAK hipError_t resolve_symbol(const void*, Device&, void**, std::size_t*) { return hipErrorInvalidSymbol; }
WEAK hipError_t check_launch(const Kernel&, dim3, dim3, std::size_t) { return hipSuccess; }
WEAK hipError_t pack_arguments(const Kernel&, void**, void**, std::vector<std::byte>*) { return hipErrorNotSupported; }
WEAK void run_kernel(const KernelWork&) {}

}  // namespace cpuhip
