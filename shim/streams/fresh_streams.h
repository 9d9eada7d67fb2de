// fresh_streams.h: streams that the program has made while a capture is followed and that it has not used yet.
//
// A stream stays fresh while no call names it but these:
//   - the wait by which it joins a withheld capture, where that wait is put off: the runtime is not told;
//   - hipStreamGetCaptureInfo_v2, which is answered for it, in a capture that stays withheld;
//   - hipStreamDestroy. A stream that takes part in nothing real then is kept (kept_streams.h).
// Any other call makes the join real first (capture/put_off_joins.h), and the stream is fresh no more. To be noticed,
// fresh streams count as the library's own (hip/private_handles.h). Those with flags other than hipStreamNonBlocking
// are none: what the null stream may do depends on whether they capture.
// Few are known at a time: a new one takes the place of one without a join that is put off.
// Threads: any. Lock: of its own.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/short_lock.h"
#include "shim/streams/kept_streams.h"

namespace graphpool {

/// How many joins are put off.
inline constinit std::atomic<std::uint32_t> g_joins_put_off{0};
inline bool joins_put_off() noexcept { return g_joins_put_off.load(std::memory_order_relaxed) != 0; }

class FreshStreams {
 public:
  static constexpr std::size_t kMost = 16;

  constexpr FreshStreams() = default;
  FreshStreams(const FreshStreams&) = delete;
  FreshStreams& operator=(const FreshStreams&) = delete;

  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// The program has been told the stream. Where there is no room it does not become fresh.
  void add(hipStream_t stream, const StreamKind& kind) noexcept EXCLUDES(lock_);
  bool has(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// The stream's wait for the event is put off. Returns false, and does nothing, if it is not fresh.
  bool put_off_join(hipStream_t stream, hipEvent_t event) noexcept EXCLUDES(lock_);
  /// Whether a join that is put off waits for the event.
  bool awaits(hipEvent_t event) noexcept EXCLUDES(lock_);
  /// The stream has left the withheld capture that it had joined so.
  void left_capture(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// The stream has waited: unless that was put off it is not fresh any more.
  void waits(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// The program destroys the stream: tells how it was made. Returns false where it is not fresh, or a join is put off.
  bool take(hipStream_t stream, StreamKind* kind) noexcept EXCLUDES(lock_);
  /// The stream is not fresh any more.
  void remove(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// Removes all without a join that is put off.
  void remove_all() noexcept EXCLUDES(lock_);

 private:
  struct Entry {
    hipStream_t stream = nullptr;
    StreamKind kind{};
    hipEvent_t awaited = nullptr;  ///< null: no join is put off
  };
  Entry* find(hipStream_t stream) noexcept REQUIRES(lock_);
  void take_out(Entry& entry) noexcept REQUIRES(lock_);

  ShortLock<LockRank::kStreams> lock_;
  std::atomic<std::size_t> count_{0};  ///< changed under the lock
  std::array<Entry, kMost> entries_ GUARDED_BY(lock_){};
};

/// The process's own. Never destroyed: threads may use it until the process ends.
extern constinit FreshStreams g_fresh_streams;
inline FreshStreams& fresh_streams() noexcept { return g_fresh_streams; }

}  // namespace graphpool
