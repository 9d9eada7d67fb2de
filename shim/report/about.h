// about.h: writes the head of a report: the report's format, the process and host it is of, the library's version, the
// runtime and the devices, and what the policy was given.
//
// Threads: one at a time writes. The clock is started once, before.
#pragma once

#include <cstdint>

#include "shim/report/json.h"

namespace graphpool {

/// Starts the clock of elapsed_ms(). Called where the process registers its report; before that elapsed_ms() is 0.
void begin_elapsed() noexcept;
std::uint64_t elapsed_ms() noexcept;

/// Writes the head's keys into the object that is open in `json`. `ended`: the process is about to end.
void write_about(JsonWriter& json, bool ended);

}  // namespace graphpool
