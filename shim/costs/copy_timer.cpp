#include "shim/costs/copy_timer.h"

#include <atomic>
#include <chrono>
#include <new>

#include "shim/costs/cost_model.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_state.h"

namespace graphpool {
namespace {

constinit std::atomic<std::uint32_t> g_measured{0};

}  // namespace

std::unique_ptr<CopyTimer> CopyTimer::make(std::uint64_t bytes) {
  if (bytes < kLeastBytes || g_measured.load(std::memory_order_relaxed) >= kMeasurements) return nullptr;
  std::unique_ptr<CopyTimer> timer(new CopyTimer(bytes));
  for (hipEvent_t* const event : {&timer->first_, &timer->last_})
    if (!PrivateCalls::worked([&] { return made_private(next().hipEventCreate(event), event); })) {
      *event = nullptr;
      return nullptr;
    }
  return timer;
}

CopyTimer::~CopyTimer() {
  for (const hipEvent_t event : {first_, last_})
    if (event != nullptr) PrivateCalls::gave_back([&] { return next().hipEventDestroy(no_longer_private(event)); });
}

void CopyTimer::forget() noexcept {
  first_ = last_ = nullptr;
  state_ = State::kDone;
}

bool CopyTimer::begin(hipStream_t stream) noexcept {
  if (state_ != State::kUnused) return false;
  try {
    stream_ = stream_state(stream_key({stream, false}));
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (stream == hipStreamPerThread && !watch_own_streams()) return false;
  state_ = PrivateCalls::worked([&] { return next().hipEventRecord(first_, stream); }) ? State::kBegun : State::kDone;
  return state_ == State::kBegun;
}

void CopyTimer::end(hipStream_t stream) noexcept {
  if (state_ != State::kBegun) return;
  state_ = PrivateCalls::worked([&] { return next().hipEventRecord(last_, stream); }) ? State::kEnded : State::kDone;
}

bool CopyTimer::collect() noexcept {
  if (state_ != State::kEnded) return state_ == State::kDone;
  // Asking for an event whose stream is capturing would invalidate the capture.
  const CaptureGate gate;
  if (captures_open()) return false;
  if (!stream_lives(*stream_)) {
    state_ = State::kDone;  // AMD's runtime would look at the stream
    return true;
  }
  if (!PrivateCalls::worked([&] { return next().hipEventQuery(last_); })) return false;
  state_ = State::kDone;
  float ms = 0;
  if (!PrivateCalls::worked([&] { return next().hipEventElapsedTime(&ms, first_, last_); }) || ms <= 0) return true;
  costs().observe(Cost::kCopyKiB, std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6)),
                  bytes_ / kKiB);
  g_measured.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace graphpool
