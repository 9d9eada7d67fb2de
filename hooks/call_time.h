// call_time.h: measures how long the program's HIP calls take. It is only in libgraphpool-timed.so, a second build of
// the entries. `graphpool compare` preloads that: once with the library switched off, once with it at work.
//
// What counts: the time from the entry of a call to its return, by CLOCK_MONOTONIC, also where it waits. A call made
// from inside another one is part of that one. The start of a process whose calls are only passed through does not
// count. Rows without known parameters (HIP_FORWARD) are not timed.
//
// Where it goes: a file for each process in the folder that LIBGRAPHPOOL_CALL_TIMES names (the name does not begin with
// GRAPHPOOL_, because the policy's reader warns of such names that it does not know). The file is mapped and shared, so
// that it holds every call that has returned, however the process ends. `command/graphpool/call_times.py` reads it.
//
// Threads: any. Cost: two readings of the clock and two atomic additions. The file says what a reading costs.
#pragma once

#ifdef GP_TIME_CALLS

#include <cstdint>
#include <tuple>

#include "shim/hip/hook_table.h"

namespace graphpool {

class CallTime {
 public:
  /// `looked_up`: where the call puts a function that it tells the program; null for other calls.
  CallTime(EntryId id, void** looked_up) noexcept;
  ~CallTime();
  CallTime(const CallTime&) = delete;
  CallTime& operator=(const CallTime&) = delete;

 private:
  const EntryId id_;
  void** const looked_up_;
  std::uint64_t began_ns_ = 0;  ///< 0: inside another call
};

template <EntryId kCall>
inline constexpr bool kLooksUp =
    kCall == EntryId::hipGetProcAddress || kCall == EntryId::hipGetProcAddress_spt ||
    kCall == EntryId::hipGetDriverEntryPoint || kCall == EntryId::hipGetDriverEntryPoint_spt;

/// The argument that says where a call puts a function that it tells the program; null for other calls.
template <EntryId kCall, typename... Arguments>
void** looked_up([[maybe_unused]] Arguments... arguments) noexcept {
  if constexpr (kLooksUp<kCall>)
    return std::get<1>(std::tuple(arguments...));
  else
    return nullptr;
}

}  // namespace graphpool

#define GP_TIME_CALL(name, args) const CallTime call_time(EntryId::name, looked_up<EntryId::name> args);
#else
#define GP_TIME_CALL(name, args)
#endif
