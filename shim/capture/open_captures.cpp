#include "shim/capture/open_captures.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "shim/entry.h"
#include "shim/memory/stream_work.h"
#include "shim/next.h"
#include "shim/restore.h"

namespace graphpool {

namespace {

constinit RankedMutex<LockRank::kCaptureGate> g_gate;

/// The open captures that forbid something. Under the gate's lock.
struct Forbidding {
  struct Capture {
    const void* thread = nullptr;
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  };

  void add(const void* thread, hipStreamCaptureMode mode) noexcept {
    if (mode == hipStreamCaptureModeRelaxed) return;
    if (count == captures.size())
      ++unlisted;
    else
      captures[count++] = {thread, mode};
  }
  void remove(const void* thread, hipStreamCaptureMode mode) noexcept {
    if (mode == hipStreamCaptureModeRelaxed) return;
    for (std::size_t i = 0; i < count; ++i)
      if (captures[i].thread == thread && captures[i].mode == mode) {
        captures[i] = captures[--count];
        return;
      }
    if (unlisted != 0) --unlisted;
  }
  bool counts_for(const void* thread, hipStreamCaptureMode mode) const noexcept {
    return unlisted != 0 || std::any_of(captures.begin(), captures.begin() + count, [&](const Capture& capture) {
             return capture.thread == thread ||
                    (mode == hipStreamCaptureModeGlobal && capture.mode == hipStreamCaptureModeGlobal);
           });
  }

  std::array<Capture, 64> captures{};
  std::size_t count = 0;
  std::size_t unlisted = 0;  ///< more than there is room for
};

constinit Forbidding g_forbidding;

}  // namespace

constinit std::atomic<int> g_open_captures{0};
constinit std::atomic<std::uint64_t> g_capture_doubts{0};
constinit std::atomic<std::uint64_t> g_device_changes{0};

CaptureGate::CaptureGate() noexcept { g_gate.lock(); }
CaptureGate::~CaptureGate() { g_gate.unlock(); }

bool may_be_capturing(hipStream_t stream) noexcept {
  if (!captures_open()) return false;
  const LastErrorScope last_error;
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  return next().hipStreamIsCapturing(stream, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
}

bool captures_refuse_memory_calls_now() noexcept {
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  if (!PrivateCalls().mode_of_thread(&mode)) return true;
  if (mode == hipStreamCaptureModeRelaxed) return false;
  const CaptureGate gate;
  return g_forbidding.counts_for(&t_thread_token, mode);
}

void capture_opened(hipStreamCaptureMode mode) noexcept {
  {
    const CaptureGate gate;
    g_forbidding.add(&t_thread_token, mode);
    g_open_captures.fetch_add(1, std::memory_order_acq_rel);
  }
  set_attention(true);
  // No event of ours gets into the capture that begins now.
  stream_work().capture_begins();
}

void capture_closed(hipStreamCaptureMode mode, const void* thread) noexcept {
  {
    const CaptureGate gate;
    g_forbidding.remove(thread == nullptr ? &t_thread_token : thread, mode);
  }
  if (g_open_captures.fetch_sub(1, std::memory_order_acq_rel) == 1) set_attention(false);
}

}  // namespace graphpool
