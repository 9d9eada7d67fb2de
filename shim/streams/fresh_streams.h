// fresh_streams.h: knows the streams that the program has made while a capture is followed and has not used yet.
//
// A stream stays fresh while no call names it but these:
//   - the wait by which it joins a withheld capture, if that wait is put off: the runtime is not told;
//   - hipStreamGetCaptureInfo_v2; where its join is put off, only while the capture stays withheld;
//   - hipStreamDestroy. A stream that takes part in nothing real then is kept (kept_streams.h).
// Any other call makes the join real first (capture/put_off_joins.h), and the stream is fresh no more. Fresh streams
// count as the library's own (hip/private_handles.h), so that such a call is noticed. Streams without
// hipStreamNonBlocking never are fresh: what the null stream may do depends on whether they capture.
// At most kMost are known: a new one takes the place of one without a join that is put off.
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
  /// Notes a stream that the program has just got. If there is no room, it does not become fresh.
  void add(hipStream_t stream, const StreamKind& kind) noexcept EXCLUDES(lock_);
  bool has(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// Notes that the stream's wait for the event is put off. Returns false, and does nothing, if the stream is not fresh
  /// or a join of it is put off already.
  bool put_off_join(hipStream_t stream, hipEvent_t event) noexcept EXCLUDES(lock_);
  /// Whether a join that is put off waits for the event.
  bool awaits(hipEvent_t event) noexcept EXCLUDES(lock_);
  /// Notes that the stream has left the withheld capture that it had joined by a wait that was put off.
  void left_capture(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// Notes that the stream has waited for an event: it is not fresh any more, unless a join of it is put off.
  void waits(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// Takes out a stream that the program destroys; tells how it was made. Returns false if it is not fresh, or a join
  /// of it is put off.
  bool take(hipStream_t stream, StreamKind* kind) noexcept EXCLUDES(lock_);
  /// Notes that the stream is not fresh any more.
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
