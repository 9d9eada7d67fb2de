// memory_use.h: tells a runtime that checks what is touched (tests/runtimes/amd, checked mode) which memory is the
// program's: to it, memory that is kept is allocated.
//
// The functions are weak: only that runtime has them. Elsewhere a call is a look at a pointer. They are called under
// the pool's lock, so that they come in the order in which memory changes hands, and call nothing back. Threads: any.
// Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
__attribute__((weak, visibility("default"))) void hsa_cpu_memory_kept(const void* base, std::size_t bytes);
__attribute__((weak, visibility("default"))) void hsa_cpu_memory_handed_out(const void* base, std::size_t bytes);
}

namespace graphpool {

/// Nobody may touch these bytes until they are handed out, and no work that may is outstanding.
inline void tell_kept(std::uintptr_t base, std::size_t bytes) noexcept {
  if (hsa_cpu_memory_kept != nullptr) hsa_cpu_memory_kept(reinterpret_cast<const void*>(base), bytes);
}
/// They are the program's from now on.
inline void tell_handed_out(std::uintptr_t base, std::size_t bytes) noexcept {
  if (hsa_cpu_memory_handed_out != nullptr) hsa_cpu_memory_handed_out(reinterpret_cast<const void*>(base), bytes);
}

}  // namespace graphpool
