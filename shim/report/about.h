// about.h: the head of a report: its format, whose it is, of which version, on what, under which policy.
//
// Threads: what is noted is noted once, at start; writing by one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/load.h"
#include "shim/report/json.h"

namespace graphpool {

/// What file and environment gave of the policy. The first call counts. Without memory: the report does not tell it.
void note_policy_given(std::vector<Given> given) noexcept;

/// The time that reports count from: the first HIP call.
void begin_elapsed() noexcept;
std::uint64_t elapsed_ms() noexcept;

/// The keys of the head, into an open object. `ended`: the process is about to end.
void write_about(JsonWriter& json, bool ended);

}  // namespace graphpool
