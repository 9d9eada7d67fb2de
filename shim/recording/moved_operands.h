// moved_operands.h: notes which operands of a recording had another address than the time before, and in whose memory.
//
// Why: a program whose buffers move pays for it in every step. The report says which buffers move, and where the
// program allocates them. Kept only for a report, a trace or a log (GraphSettings::track_operands). Bounded: kMost
// operands a recording, the rest are only counted.
// Threads: the caller holds g_recordings_lock. Cost: one compare of two bindings; a look-up for each operand that
// moved, and for each word of unknown kind in a payload that changed. Not here: names of call sites, which are asked
// for when the report is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

struct MovedOperand {
  std::uint32_t operation = 0;
  std::uint32_t argument = 0;  ///< of a kernel; of a copy or fill 0 is the destination, 1 the source
  std::uint64_t times = 0;
  std::uint32_t call_site = 0;  ///< of the last allocation it moved to; 0: unknown
  std::uint32_t rule = 0;       ///< the buffer rule of that allocation, from 1; 0: none, or not known memory
};

class MovedOperands {
 public:
  static constexpr std::size_t kMost = 256;

  /// Compares the binding of one more capture with the last one. Throws std::bad_alloc.
  void note(const std::vector<Operation>& operations, const Binding& binding);

  const std::vector<MovedOperand>& operands() const noexcept { return operands_; }
  /// Moves of operands beyond kMost.
  std::uint64_t others() const noexcept { return others_; }

 private:
  void moved(std::uint32_t operation, std::uint32_t argument, std::uint64_t address);

  Binding last_;
  std::vector<MovedOperand> operands_;
  std::uint64_t others_ = 0;
};

}  // namespace graphpool
