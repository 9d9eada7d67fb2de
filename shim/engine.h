// engine.h: what happens once at the first HIP call, after next is known.
#pragma once

#include "policy/policy.h"

namespace graphpool {

// The steps of the start, in this order. The first and the last run under a lock and call no dl* function; the middle
// one runs without, in every thread that finds the library starting.

/// Reads the policy, once. False: everything is to be passed through.
bool load_policy() noexcept;

/// The policy, read if it has not been. Null: everything is to be passed through. Any thread, also of a process that
/// never calls HIP.
const Policy* policy_of_process() noexcept;

/// Opens the libraries that the policy needs.
void open_what_policy_needs() noexcept;

/// Sets every part of the engine up by the policy. False: everything is to be passed through.
bool start_engine() noexcept;

/// The process's policy. Only while the library is active or draining.
const Policy& policy() noexcept;

/// Whether another file of this library is loaded behind this one: then that one does the work.
bool another_copy_behind_us() noexcept;

}  // namespace graphpool
