// memory_watch.h: reads from the system how much memory compilations may still take.
//
// It reads MemAvailable, the memory limits of this process's control group and of those above it (version 1 and 2), and
// the pressure the kernel reports (PSI). Cache that the kernel can drop counts as free. Units: bytes.
#pragma once

#include "shim/compile/machine.h"

namespace graphpool {

struct MemoryFacts {
  std::uint64_t allowed_bytes = 0;     ///< all that this process's group, or the machine, may use; 0: unknown
  std::uint64_t available_bytes = 0;   ///< of that, not in use
  std::uint32_t pressure_percent = 0;  ///< the part of the last ten seconds in which some task waited for memory
};

MemoryFacts read_memory(const Machine& machine) noexcept;

}  // namespace graphpool
