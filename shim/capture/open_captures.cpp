#include "shim/capture/open_captures.h"

#include "shim/entry.h"
#include "shim/memory/stream_work.h"
#include "shim/next.h"
#include "shim/restore.h"

namespace graphpool {

namespace {

constinit RankedMutex<LockRank::kCaptureGate> g_gate;

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

void capture_opened() noexcept {
  {
    const CaptureGate gate;
    g_open_captures.fetch_add(1, std::memory_order_acq_rel);
  }
  set_attention(true);
  // No event of ours gets into the capture that begins now.
  stream_work().capture_begins();
}

void capture_closed() noexcept {
  if (g_open_captures.fetch_sub(1, std::memory_order_acq_rel) == 1) set_attention(false);
}

}  // namespace graphpool
