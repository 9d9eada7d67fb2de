// calling_thread.h: gives each thread that feeds captures, or names a stream of its own, a number. Unlike a thread's
// address, no other thread ever gets that number.
#pragma once

#include <cstdint>

namespace graphpool {

/// Gives the calling thread a number, and returns it.
std::uintptr_t name_thread() noexcept;
/// The calling thread's number; 0 until name_thread() has given it one.
extern constinit thread_local std::uintptr_t t_thread __attribute__((tls_model("initial-exec")));
inline std::uintptr_t calling_thread() noexcept { return t_thread != 0 ? t_thread : name_thread(); }

}  // namespace graphpool
