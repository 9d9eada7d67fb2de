// open_captures.h: how many captures are open in the process. Where one is, calls that a capture forbids must reach the
// runtime, and forwarded operations must be noticed. Threads: atomic, any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "shim/hook_table.h"
#include "shim/lock_rank.h"

namespace graphpool {

extern constinit std::atomic<int> g_open_captures;

/// Rises with every call that may have invalidated a capture: a shell asks the runtime before it withholds another
/// operation (rule 8).
extern constinit std::atomic<std::uint64_t> g_capture_doubts;

/// Rises with every call, while a capture is open, that may have changed its thread's current device.
extern constinit std::atomic<std::uint64_t> g_device_changes;

inline bool captures_open() noexcept { return g_open_captures.load(std::memory_order_acquire) > 0; }

/// While one lives no capture begins, in any thread: what may be done to a stream and its events as long as nothing is
/// captured stays so until it has been done. For calls that neither wait nor call back.
class CaptureGate {
 public:
  CaptureGate() noexcept;
  ~CaptureGate();
  CaptureGate(const CaptureGate&) = delete;
  CaptureGate& operator=(const CaptureGate&) = delete;
};

/// Whether what is enqueued on the stream might get into a capture. Asking invalidates none, and leaves no error.
bool may_be_capturing(hipStream_t stream) noexcept;

/// One capture began or ended (also by failing, or by its stream's destruction).
void capture_opened() noexcept;
void capture_closed() noexcept;

/// A call was made that a capture may forbid. Cheap; call it whenever captures_open().
inline void note_capture_doubt() noexcept { g_capture_doubts.fetch_add(1, std::memory_order_acq_rel); }

/// A forwarded operation that touches a stream was issued while a capture is open: no open capture can become a
/// template, for it may hold what nobody recorded.
void note_unknown_operation(EntryId id) noexcept;

}  // namespace graphpool
