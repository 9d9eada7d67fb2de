// both_ways.h: a staged launch done both ways and compared: what `verify` proves of staging.
//
// The program's own buffers get what the graph writes without staging; copies of them (shadows) go through the slots;
// then both must be equal, bit by bit, but for buffers of which nothing survives. So the program has the real result
// whatever is found, and its memory is written once. Possible only where the second run can touch nothing else (rule
// 29): operations are kernels, copies and fills; every address among their operands lies in a staged buffer; no kernel
// of a module with variables, no printf, no device heap; no structure argument that holds an address we know.
//
// Threads: one launch. Waits for the stream at its end. Units: bytes. Not here: which launches, and what becomes of a
// difference (graphs.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "shim/graph/staging.h"

namespace graphpool {

/// Whether launches of these operations with this binding may be done both ways.
bool may_run_both_ways(const std::vector<Operation>& operations, const Binding& binding, const StagePlan& plan);

class Shadows {
 public:
  Shadows() = default;
  ~Shadows();
  Shadows(const Shadows&) = delete;
  Shadows& operator=(const Shadows&) = delete;

  /// Device memory like the buffers. Fails with HIP's error.
  hipError_t allocate(const StagePlan& plan);
  /// Enqueues the copies of the program's buffers as they are now.
  hipError_t copy_from(const std::vector<char*>& bases, hipStream_t stream);
  const std::vector<char*>& bases() const noexcept { return shadows_; }

  struct Difference {
    bool found = false;
    std::size_t buffer = 0, offset = 0;
  };
  /// Waits for the stream and compares the buffers with their shadows.
  hipError_t compare(const std::vector<char*>& bases, hipStream_t stream, Difference* difference) const;

 private:
  const StagePlan* plan_ = nullptr;
  std::vector<char*> shadows_;
};

}  // namespace graphpool
