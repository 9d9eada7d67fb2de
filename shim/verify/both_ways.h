// both_ways.h: does a launch twice, in the program's own buffers and in copies of them (shadows), and compares: so
// `verify` proves staging, and execs that have a binding because they were patched or had it before.
//
// A staged launch: the program's own buffers get what the graph writes without staging; the shadows go through the
// slots. Other execs can only work in the program's buffers: the exec that is to be judged, or one of the program's own
// graph. Then a new exec made of the recording works on the shadows. Both must be equal, bit by bit, but for buffers of
// which nothing survives, and but for addresses that the graph writes: an address in a shadow stands for the one in the
// buffer. The graph runs once in each memory. Where the two differ, the program's gets the real result (restore()), if
// it does not have it.
//
// Possible only where the second run can touch nothing else (rule 29): operations are kernels, copies, fills and empty
// nodes; every address among their operands lies in a buffer; no kernel of a module with variables, no printf, no
// device heap; no structure argument that holds an address that we or the runtime know; and, where no rule promises it,
// no word in the buffers that may be one either.
//
// Threads: one launch. Units: bytes. Not here: which launches, and what becomes of a difference
// (graphs/launch_verifier.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "shim/staging/staging.h"

namespace graphpool {

/// Whether launches of these operations with this binding may be done both ways.
bool may_run_both_ways(const std::vector<Operation>& operations, const Binding& binding, const StagePlan& plan);

class Shadows {
 public:
  Shadows() = default;
  ~Shadows() { drop(); }
  Shadows(const Shadows&) = delete;
  Shadows& operator=(const Shadows&) = delete;

  /// Allocates device memory like the buffers of the plan. The plan must stay until drop(). Fails with HIP's error.
  hipError_t allocate(const StagePlan& plan);
  /// Enqueues the copies of the program's buffers as they are now.
  hipError_t copy_from(const std::vector<char*>& bases, hipStream_t stream);
  const std::vector<char*>& bases() const noexcept { return shadows_; }

  /// Waits for the stream and says whether a word in the shadows of buffers of which something survives may be the
  /// address of memory that the library knows.
  hipError_t look_for_addresses(hipStream_t stream, bool* found) const;

  struct Difference {
    bool found = false;
    std::size_t buffer = 0, offset = 0;
  };
  /// Waits for the stream and compares the buffers with their shadows.
  hipError_t compare(const std::vector<char*>& bases, hipStream_t stream, Difference* difference) const;
  /// Gives the buffers what their shadows have, where they differ. Waits for the stream.
  hipError_t restore(const std::vector<char*>& bases, hipStream_t stream) const;

  /// Frees the shadows, which waits for the device as hipFree does.
  void drop() noexcept;
  /// Leaves the shadows for the next free_left() to free, because the device may be busy for long.
  void leave() noexcept;
  static void free_left() noexcept;

 private:
  struct Part {
    std::size_t buffer, offset, bytes;
  };
  hipError_t fetch(const char* from, std::size_t bytes, hipStream_t stream, std::vector<char>* to) const;
  hipError_t fetch_both(const Part& part, const std::vector<char*>& bases, hipStream_t stream,
                        std::vector<char>* program, std::vector<char>* shadow) const;
  template <typename Visit>
  hipError_t for_each_part(Visit&& visit) const;

  const StagePlan* plan_ = nullptr;
  std::vector<char*> shadows_;
};

}  // namespace graphpool
