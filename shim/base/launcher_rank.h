// launcher_rank.h: reads the rank that a launcher gave the process, from the variables of the usual launchers.
//
// Threads: as getenv().
#pragma once

#include <cstdlib>

namespace graphpool {

/// The rank by Open MPI, PMI (MPICH, Intel), Slurm or torchrun, the first that has set one; null: none has.
inline const char* launcher_rank() noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

}  // namespace graphpool
