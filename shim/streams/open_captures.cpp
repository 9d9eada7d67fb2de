#include "shim/streams/open_captures.h"

#include <algorithm>
#include <array>

#include "shim/base/hot.h"
#include "shim/base/short_lock.h"
#include "shim/base/sole_lock.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

namespace {

constinit std::atomic<bool> g_gate_closed{false};

/// The open captures that forbid something, or are left alone.
class OpenList {
 public:
  void add(const void* thread, hipStreamCaptureMode mode) noexcept {
    const LockGuard guard(lock_);
    if (forbids(mode) && !list({thread, mode, 0})) ++unlisted_;
    const int open = g_open_captures.load(std::memory_order_relaxed);
    if (open == 0) begin_round();
    g_open_captures.store(open + 1);
    set_attention(true);
  }

  /// Returns false if one is open.
  bool add_sole_left_alone(const void* thread, hipStreamCaptureMode mode, std::uintptr_t stream) noexcept {
    const LockGuard guard(lock_);
    if (g_open_captures.load(std::memory_order_relaxed) != 0 || !list({thread, mode, stream})) return false;
    note_left_alone(1);
    begin_round();
    g_open_captures.store(1);
    set_attention(true);
    return true;
  }

  /// Leaves the thread's last capture of this mode alone. Returns false if the list is full: then it is followed.
  bool leave_alone(const void* thread, hipStreamCaptureMode mode, std::uintptr_t stream) noexcept {
    const LockGuard guard(lock_);
    const auto is_it = [&](const Capture& capture) { return followed_in(capture, thread, mode); };
    const auto listed = std::find_if(captures_.rend() - count_, captures_.rend(), is_it);
    if (listed != captures_.rend())
      listed->left_alone = stream;
    else if (forbids(mode) || !list({thread, mode, stream}))
      return false;
    note_left_alone(1);
    return true;
  }

  /// Takes out a capture that is followed.
  void remove(const void* thread, hipStreamCaptureMode mode) noexcept {
    const LockGuard guard(lock_);
    if (forbids(mode)) {
      const auto is_it = [&](const Capture& capture) { return followed_in(capture, thread, mode); };
      if (!erase_first(is_it) && unlisted_ != 0) --unlisted_;
    }
    one_less();
  }

  /// Returns false if no capture that began on this stream is left alone.
  bool remove_left_alone(std::uintptr_t stream) noexcept {
    const LockGuard guard(lock_);
    if (!erase_first([stream](const Capture& capture) { return capture.left_alone == stream; })) return false;
    note_left_alone(-1);
    one_less();
    return true;
  }

  bool has_left_alone(std::uintptr_t stream) noexcept {
    const LockGuard guard(lock_);
    return std::any_of(captures_.begin(), captures_.begin() + count_,
                       [stream](const Capture& capture) { return capture.left_alone == stream; });
  }

  bool counts_for(const void* thread, hipStreamCaptureMode mode) noexcept {
    const LockGuard guard(lock_);
    return unlisted_ != 0 || std::any_of(captures_.begin(), captures_.begin() + count_, [&](const Capture& capture) {
             return forbids(capture.mode) && (capture.thread == thread || (mode == hipStreamCaptureModeGlobal &&
                                                                           capture.mode == hipStreamCaptureModeGlobal));
           });
  }

 private:
  struct Capture {
    const void* thread = nullptr;
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    std::uintptr_t left_alone = 0;  ///< the stream it began on; 0: it is followed
  };

  /// Counts that a capture is opened where none was (g_attention_rounds). The calling thread will have no error
  /// pending: the begin of its capture takes it away, if that matters (KeptError).
  static void begin_round() noexcept {
    g_attention_rounds.fetch_add(1, std::memory_order_relaxed);
    error_asked_for();
  }
  static bool forbids(hipStreamCaptureMode mode) noexcept { return mode != hipStreamCaptureModeRelaxed; }
  static void note_left_alone(int more) noexcept {
    g_captures_left_alone.store(g_captures_left_alone.load(std::memory_order_relaxed) + more,
                                std::memory_order_release);
  }
  static bool followed_in(const Capture& capture, const void* thread, hipStreamCaptureMode mode) noexcept {
    return capture.thread == thread && capture.mode == mode && capture.left_alone == 0;
  }
  bool list(const Capture& capture) noexcept REQUIRES(lock_) {
    if (count_ == static_cast<std::ptrdiff_t>(captures_.size())) return false;
    captures_[static_cast<std::size_t>(count_++)] = capture;
    return true;
  }
  /// Takes out the first for which `which` is true. Those behind move up, so the order of the beginnings stays.
  template <typename Which>
  bool erase_first(Which&& which) noexcept REQUIRES(lock_) {
    const auto end = captures_.begin() + count_;
    const auto found = std::find_if(captures_.begin(), end, which);
    if (found == end) return false;
    std::copy(found + 1, end, found);
    --count_;
    return true;
  }
  static void one_less() noexcept {
    const int left = g_open_captures.load(std::memory_order_relaxed) - 1;
    g_open_captures.store(left, std::memory_order_release);
    if (left == 0) set_attention(false);
  }

  SoleLock<LockRank::kCaptureGate, ShortLock<LockRank::kCaptureGate>> lock_;
  std::ptrdiff_t count_ GUARDED_BY(lock_) = 0;
  std::size_t unlisted_ GUARDED_BY(lock_) = 0;  ///< captures that forbid something, and for which there was no room
  std::array<Capture, 64> captures_ GUARDED_BY(lock_){};
};

constinit OpenList g_open;

}  // namespace

constinit RankedMutex<LockRank::kCaptureGate> g_capture_gate;
constinit std::atomic<int> g_open_captures{0};
constinit std::atomic<std::uint64_t> g_capture_doubts{0};
constinit std::atomic<std::uint64_t> g_device_changes{0};

CaptureGate::CaptureGate() noexcept {
  g_capture_gate.lock();
  g_gate_closed.store(true);
}
CaptureGate::~CaptureGate() {
  g_gate_closed.store(false);
  g_capture_gate.unlock();
}

bool may_be_capturing(hipStream_t stream) noexcept {
  if (!captures_open() && !streams_may_still_capture()) return false;
  const LastErrorScope last_error;
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  return next().hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}

bool captures_refuse_memory_calls_now() noexcept {
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  if (!PrivateCalls().mode_of_thread(&mode)) return true;
  return mode != hipStreamCaptureModeRelaxed && g_open.counts_for(&t_thread_token, mode);
}

/// Waits until no other thread is recording one of the library's own events. Call it after the new capture counts as
/// open: a thread that begins such a recording from then on sees that, so that none becomes part of the capture.
static void wait_for_events_of_ours() noexcept {
  if (g_gate_closed.load()) CaptureGate until_open;
  fences().capture_begins();
}

void capture_opened(hipStreamCaptureMode mode) noexcept {
  g_open.add(&t_thread_token, mode);
  wait_for_events_of_ours();
}

HOT bool sole_capture_left_alone(hipStreamCaptureMode mode, std::uintptr_t stream) noexcept {
  if (!g_open.add_sole_left_alone(&t_thread_token, mode, stream)) return false;
  wait_for_events_of_ours();
  return true;
}

void capture_closed(hipStreamCaptureMode mode, const void* thread) noexcept {
  g_open.remove(thread == nullptr ? &t_thread_token : thread, mode);
}

bool capture_left_alone(hipStreamCaptureMode mode, std::uintptr_t stream) noexcept {
  return g_open.leave_alone(&t_thread_token, mode, stream);
}

HOT bool left_alone_closed(std::uintptr_t stream) noexcept {
  return any_left_alone() && g_open.remove_left_alone(stream);
}

bool is_left_alone(std::uintptr_t stream) noexcept { return any_left_alone() && g_open.has_left_alone(stream); }

}  // namespace graphpool
