// graph_settings.h: keeps what the policy says of graphs. Written once, at the start (process/engine.cpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "policy/values.h"
#include "shim/base/units.h"

namespace graphpool {

struct GraphSettings {
  bool compare = true;
  bool reuse = true;
  bool weigh = true;  ///< captures are left alone where comparing costs more than it saves (costs/step_costs.h)
  Strategy strategy = Strategy::kAuto;
  std::size_t most_recordings = 256;
  std::size_t most_recording_bytes = 64 * kMiB;  ///< host memory of all recordings
  std::size_t most_variants = 16;                ///< of one recording
  std::size_t most_variant_bytes = 512 * kMiB;   ///< device memory of all variants of a device
  std::size_t exec_memory = 0;                   ///< beyond it execs are given back; 0: no limit
  std::uint32_t patch_budget = 100'000;          ///< patches of one exec before it is replaced
  bool track_operands = false;                   ///< for report, trace and log: kernels' names, operands that moved
  Verify verify;                                 ///< matches that also take the real path
  bool check = false;                            ///< launches look for stale addresses
  bool looks_at_launches = false;                ///< verify, check or exec_memory
  std::chrono::nanoseconds ring_timeout = std::chrono::seconds(30);  ///< longest wait for a free slot set

  bool verifies() const noexcept { return verify.mode != Verify::Mode::kOff; }
};

}  // namespace graphpool
