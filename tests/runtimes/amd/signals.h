// signals.h: signals: a 64-bit value that devices and the host change and wait for.
//
// A signal is an amd_signal_t, because clr and kernels read and write its value directly. Its memory is used for
// signals only and is never given back: who waited may destroy a signal before the one that changed it has looked for
// waiters. A value that was stored without these functions is seen within kLookAgain.
#pragma once

#include <chrono>
#include <cstdint>

#include "abi.h"

namespace hsa_cpu {

constexpr std::chrono::microseconds kLookAgain{500};
constexpr std::uint64_t kForever = ~std::uint64_t{0};

inline amd_signal_t* signal_of(hsa_signal_t handle) { return reinterpret_cast<amd_signal_t*>(handle.handle); }

/// CLOCK_MONOTONIC in nanoseconds: HSA's time here, with a frequency of 1 GHz.
std::uint64_t now_ns();

std::int64_t load(const amd_signal_t* signal);
/// Changes the value by so much and wakes who waits for it.
void add(amd_signal_t* signal, std::int64_t difference);
bool holds(hsa_signal_condition_t condition, std::int64_t value, std::int64_t compare);

/// Waits until the value under the mask meets the condition, or so many nanoseconds. Returns the value seen last.
std::int64_t wait(amd_signal_t* signal, hsa_signal_condition_t condition, std::int64_t compare,
                  std::uint64_t timeout_ns, std::int64_t mask = -1);

/// A device is done with what this signal stands for: notes the times, then counts it down. Null: nothing.
void complete(hsa_signal_t signal, std::uint64_t start_ns);

/// Calls the function on the thread of handlers, once.
void call_later(void (*function)(void*), void* argument);

/// A count that rises whenever any signal changes, for who waits for one of many. wait_for_change() returns when it is
/// not `seen` any more, and at the latest after kLookAgain.
std::uint32_t changes();
void wait_for_change(std::uint32_t seen);

}  // namespace hsa_cpu
