// about.h: writes the head of a report: the report's format, the process and host it is of, the library's version, the
// runtime and the devices, and what the policy was given.
//
// Threads: the clock is started once, when the library starts. One thread at a time writes.
#pragma once

#include <cstdint>

#include "shim/report/json.h"

namespace graphpool {

/// Starts the clock of elapsed_ms(). Call it at the first HIP call of the process.
void begin_elapsed() noexcept;
std::uint64_t elapsed_ms() noexcept;

/// Writes the head's keys into the object that is open in `json`. `ended`: the process is about to end.
void write_about(JsonWriter& json, bool ended);

}  // namespace graphpool
