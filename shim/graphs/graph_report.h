// graph_report.h: tells the report about all graphs and execs. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/execs/recording_report.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {

struct GraphTotals {
  std::uint64_t recordings = 0, recordings_dropped = 0, variants = 0;
  std::uint64_t execs_given_back = 0, execs_made_again = 0;  ///< exec_limit.h
  double saved_ns = 0;                                       ///< estimated from the costs
  std::uint64_t captures = 0, withheld_captures = 0, refused = 0;
  std::uint64_t instantiates = 0, instantiates_avoided = 0, updates = 0, updates_avoided = 0, launches = 0;
};
GraphTotals graph_totals() noexcept;

/// Reports of all recordings there are, then of the newest of those that were dropped.
std::vector<RecordingReport> recording_reports();

/// The memory of the library's execs on a device.
struct ExecMemory {
  int device;
  std::size_t bytes, peak_bytes;
};
std::vector<ExecMemory> exec_memory_held();

/// Why captures and graphs gave no recording, and how often.
Reasons graph_refusals();
/// Why execs, and updates of execs, were left to the runtime.
Reasons left_to_runtime();

}  // namespace graphpool
