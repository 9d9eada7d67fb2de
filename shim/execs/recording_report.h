// recording_report.h: gathers what a report says of one recording.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/costs/way_counts.h"
#include "shim/execs/recording.h"

namespace graphpool {

struct MovedReport {
  MovedOperand operand;
  const char* kind;
  const char* kernel;  ///< null: none, or not known
};

struct RecordingReport {
  std::uint64_t number;
  const char* dropped;       ///< the reason why it is not kept any more; null: it is
  const char* first_kernel;  ///< names it, with the last one; null: it has none, or its name is not known
  const char* last_kernel;
  std::uint32_t captured_by;  ///< call site of its first capture; 0: not known
  const void* captured_at;    ///< where the program began that; null: it was built node by node
  std::size_t operations;
  std::size_t variants;
  std::size_t device_bytes, host_bytes, volatile_words;
  Recording::Statistics statistics;
  std::size_t slot_sets, slots, slot_bytes;
  std::array<std::uint64_t, kWays> launches;
  std::vector<MovedReport> moved;
  std::uint64_t other_moves;
  double saved_ns;         ///< estimated from the costs
  const char* not_staged;  ///< the reason; null: it is, or no rule says so
  bool staging_open, staging_chosen;
  std::uint64_t staging_changes;
};

RecordingReport report_of(const Recording& recording) REQUIRES(g_recordings_lock);

/// What the recording has saved its program, by the costs as they are now: captures, execs and updates that were not
/// made, less what was patched, copied and made in their place.
double saved_ns(const Recording& recording) noexcept REQUIRES(g_recordings_lock);

}  // namespace graphpool
