// launcher_rank.h: the rank that what started the process gave it, by the variables of the usual launchers.
//
// Threads: as getenv().
#pragma once

#include <cstdlib>

namespace graphpool {

/// Of Open MPI, PMI (MPICH, Intel), Slurm and torchrun; null: none of them started it.
inline const char* launcher_rank() noexcept {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

}  // namespace graphpool
