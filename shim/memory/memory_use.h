// memory_use.h: tells a runtime that checks every access (tests/runtimes/amd, checked mode) which memory the program
// may touch. That runtime cannot see it by itself, because memory that the library keeps is allocated memory to it.
//
// Only that runtime has the two functions, so they are weak; elsewhere a call costs a comparison with null. They are
// called under g_blocks_lock, in the order in which memory changes hands, and call nothing back. Threads: any.
// Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
__attribute__((weak, visibility("default"))) void hsa_cpu_memory_kept(const void* base, std::size_t bytes);
__attribute__((weak, visibility("default"))) void hsa_cpu_memory_handed_out(const void* base, std::size_t bytes);
}

namespace graphpool {

/// Tells the test runtime that the program may not touch these bytes until the library hands them out again. Call it
/// only when no work on them is outstanding.
inline void tell_kept(std::uintptr_t base, std::size_t bytes) noexcept {
  if (hsa_cpu_memory_kept != nullptr) hsa_cpu_memory_kept(reinterpret_cast<const void*>(base), bytes);
}
/// Says that these bytes are the program's from now on.
inline void tell_handed_out(std::uintptr_t base, std::size_t bytes) noexcept {
  if (hsa_cpu_memory_handed_out != nullptr) hsa_cpu_memory_handed_out(reinterpret_cast<const void*>(base), bytes);
}

}  // namespace graphpool
