// about.h: writes the head of a report: the report's format, the process and host it is of, the library's version, the
// runtime and the devices, and what the policy was given.
//
// Threads: the notes are taken once, when the library starts. One thread at a time writes.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/load.h"
#include "shim/report/json.h"

namespace graphpool {

/// Keeps what the policy's file and the environment gave, for later reports. Only the first call counts. Where host
/// memory is out, nothing is kept, and reports do not tell the policy.
void note_policy_given(std::vector<Given> given) noexcept;

/// Starts the clock of elapsed_ms(). Call it at the first HIP call of the process.
void begin_elapsed() noexcept;
std::uint64_t elapsed_ms() noexcept;

/// Writes the head's keys into the object that is open in `json`. `ended`: the process is about to end.
void write_about(JsonWriter& json, bool ended);

}  // namespace graphpool
