// engine.h: what happens once at the first HIP call, after next is known.
#pragma once

namespace graphpool {

// The steps of the start, once the policy was read, in this order. The second runs under a lock and calls no dl*
// function; the first runs without, in every thread that finds the library starting.

/// Opens the libraries that the policy needs.
void open_what_policy_needs() noexcept;

/// Sets every part of the engine up by the policy. False: everything is to be passed through.
bool start_engine() noexcept;

}  // namespace graphpool
