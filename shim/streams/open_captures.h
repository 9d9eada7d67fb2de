// open_captures.h: counts the open captures of the process. While one is open, calls that a capture forbids must reach
// the runtime, and forwarded operations must be noticed. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/hip/hook_table.h"

namespace graphpool {

extern constinit std::atomic<int> g_open_captures;

/// How many open captures are left to the runtime. Of their streams only the one on which each began is known.
inline constinit std::atomic<int> g_captures_left_alone{0};
inline bool any_left_alone() noexcept { return g_captures_left_alone.load(std::memory_order_acquire) != 0; }

/// How many parts of the library look at the events by which streams wait for each other, in a capture or before one.
inline constinit std::atomic<int> g_fork_watchers{0};
/// One such part. Threads: under the part's own lock.
class ForkWatcher {
 public:
  void watch(bool wanted) noexcept {
    if (wanted == watches_) return;
    watches_ = wanted;
    g_fork_watchers.fetch_add(wanted ? 1 : -1, std::memory_order_acq_rel);
  }

 private:
  bool watches_ = false;
};

/// Rises with every call that may have invalidated a capture: a shell asks the runtime before it withholds another
/// operation (rule 8).
extern constinit std::atomic<std::uint64_t> g_capture_doubts;

/// Rises with every call, while a capture is open, that may have changed its thread's current device.
extern constinit std::atomic<std::uint64_t> g_device_changes;

inline bool captures_open() noexcept { return g_open_captures.load() > 0; }

/// Whether an end of a capture has failed in this process: to the runtime streams that had joined that capture may
/// capture for ever, though no capture is open.
inline constinit std::atomic<bool> g_capture_end_failed{false};
inline bool streams_may_still_capture() noexcept { return g_capture_end_failed.load(std::memory_order_relaxed); }
inline void note_capture_end_failed() noexcept { g_capture_end_failed.store(true, std::memory_order_relaxed); }

/// Whether only one capture is open. Pre-condition: the caller's own counts as open.
inline bool no_other_capture_open() noexcept { return g_open_captures.load(std::memory_order_acquire) == 1; }

/// Held while no capture may begin.
extern constinit RankedMutex<LockRank::kCaptureGate> g_capture_gate;

/// While one lives, no capture begins, in any thread, but those that counted as open before. So its holder looks
/// whether a capture is open, and then uses a stream and its events. Only for calls that neither wait nor call back.
class SCOPED_CAPABILITY CaptureGate {
 public:
  CaptureGate() noexcept ACQUIRE(g_capture_gate);
  ~CaptureGate() RELEASE();
  CaptureGate(const CaptureGate&) = delete;
  CaptureGate& operator=(const CaptureGate&) = delete;
};

/// Whether what is enqueued on the stream might get into a capture. Asking invalidates none, and leaves no error.
bool may_be_capturing(hipStream_t stream) noexcept;

/// Counts a capture that the calling thread begins. Call it before the begin is forwarded. Returns when no thread is
/// recording an event of ours.
void capture_opened(hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) noexcept;
/// Notes that a capture is over, also because it failed or its stream was destroyed. `thread`: the token of the thread
/// that began it; null: the calling thread.
void capture_closed(hipStreamCaptureMode mode = hipStreamCaptureModeGlobal, const void* thread = nullptr) noexcept;

/// Leaves the calling thread's last capture of this mode to the runtime. `stream`: the StreamKey of its origin. Returns
/// false if the list of open captures has no room for it: then the capture is followed.
bool capture_left_alone(hipStreamCaptureMode mode, std::uintptr_t stream) noexcept;
bool is_left_alone(std::uintptr_t stream) noexcept;
/// Does what capture_opened() and capture_left_alone() do, for a capture that the calling thread begins, before that is
/// forwarded. Returns false if another capture is open; then nothing was done.
bool sole_capture_left_alone(hipStreamCaptureMode mode, std::uintptr_t stream) noexcept;
/// Notes that the capture that began on this stream and is left alone is over. Returns false if there is none.
bool left_alone_closed(std::uintptr_t stream) noexcept;

/// Whether open captures make the runtime refuse hipMalloc, hipFree and their like from the calling thread, and
/// invalidate captures for such a call. Captures that the thread itself began count, but for relaxed ones; so do global
/// ones of other threads, if the thread's capture mode is global. With a relaxed mode none counts. The runtime is asked
/// for the mode, which changes nothing. True if it does not say; in another mode than relaxed also while a capture that
/// forbids something has found no room in the list.
bool captures_refuse_memory_calls_now() noexcept;
inline bool captures_refuse_memory_calls() noexcept { return captures_open() && captures_refuse_memory_calls_now(); }

/// Notes a call that a capture may forbid. Cheap; call it whenever captures_open().
inline void note_capture_doubt() noexcept { g_capture_doubts.fetch_add(1, std::memory_order_acq_rel); }
/// Notes that such a call has been made, and passes its result on.
inline hipError_t doubted(hipError_t result) noexcept {
  if (captures_open()) note_capture_doubt();
  return result;
}

/// Notes that an operation that touches a stream was forwarded while a capture is open: no open capture can become a
/// recording, because it may hold what nobody recorded.
void note_unknown_operation(EntryId id) noexcept;

}  // namespace graphpool
