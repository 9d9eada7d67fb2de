// launcher_rank.h: reads the rank that a launcher gave the process, from the variables of the usual launchers.
//
// Threads: as getenv().
#pragma once

#include <cstdlib>

namespace graphpool {

/// The rank by torchrun, Open MPI, PMI (MPICH, Intel) or Slurm, the first that has set one; null: none has. torchrun
/// comes first, because its workers inherit the one rank of the task that Slurm or mpirun started it as. RANK alone
/// comes last: other programs set it, too.
inline const char* launcher_rank() noexcept {
  const char* const worker = std::getenv("TORCHELASTIC_RUN_ID") != nullptr ? std::getenv("RANK") : nullptr;
  if (worker != nullptr) return worker;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

}  // namespace graphpool
