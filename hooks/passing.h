// passing.h: calls with a body that need nothing of the engine now, and so go straight to the runtime.
//
// Asked before anything else: such a call is only counted. What it answers is not looked at, and the thread is not
// marked as inside: the runtime's own calls are known by where they come from (in_runtime()). The answer is one of the
// thread's own that is true only while the library is active.
#pragma once

#include "shim/capture/capture.h"
#include "shim/entry.h"
#include "shim/memory/stream_work.h"
#include "shim/private_handles.h"

namespace graphpool::hooks {

template <EntryId>
struct Passing {
  template <typename... Arguments>
  static constexpr bool now(const Arguments&...) noexcept {
    return false;
  }
};

// What forks and joins captures that are left alone.

template <>
struct Passing<EntryId::hipEventRecord> {
  static bool now(hipEvent_t event, hipStream_t stream) noexcept {
    if (!forks_pass() || names_private(event, stream) != PrivateKind::kNone) return false;
    t_error_possible = true;
    return true;
  }
};

template <>
struct Passing<EntryId::hipStreamWaitEvent> {
  static bool now(hipStream_t stream, hipEvent_t event, unsigned int flags) noexcept {
    if (flags != 0 || !forks_pass() || names_private(event, stream) != PrivateKind::kNone) return false;
    // The stream joins the capture; if it does not, the wait is work of its own.
    stream_work().note_work_anywhere();
    t_error_possible = true;
    return true;
  }
};

}  // namespace graphpool::hooks
