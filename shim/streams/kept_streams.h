// kept_streams.h: keeps streams that the program has destroyed without ever using them, and hands them out again when
// the program makes a stream of the same kind.
//
// Why: communication libraries make a stream for a moment in each captured collective. On AMD's 7.2.4 to make and
// destroy one takes 18 us of host time.
// A stream gets here only if no call has named it since the program got it, but for those that fresh_streams.h lists.
// So the program cannot tell it from a new stream. To the program a kept stream is destroyed. It counts as the
// library's own (hip/private_handles.h), so that the first call with its handle is noticed. Then the stream is really
// destroyed, and the call goes on. Bounded: see kMost. Threads: any. Lock: of its own, never held over a call of the
// runtime.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/short_lock.h"
#include "shim/hip/private_handles.h"

namespace graphpool {

/// How a stream was made: two of one kind are the same to the program.
struct StreamKind {
  enum class Form : std::uint8_t { kWithFlags, kWithPriority };

  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  Form form = Form::kWithFlags;

  bool operator==(const StreamKind&) const = default;
};

class KeptStreams {
 public:
  static constexpr std::size_t kMostOfKind = 4, kMost = 32;

  constexpr KeptStreams() = default;
  KeptStreams(const KeptStreams&) = delete;
  KeptStreams& operator=(const KeptStreams&) = delete;

  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// Keeps the stream. Returns false, and does nothing, if there is no room for another one of this kind.
  bool keep(hipStream_t stream, const StreamKind& kind) noexcept EXCLUDES(lock_);
  /// Hands out a stream of this kind, which is the program's from now on. Null: there is none.
  hipStream_t take(const StreamKind& kind) noexcept EXCLUDES(lock_);
  /// Destroys the stream if it is a kept one. Returns whether it was.
  bool end(hipStream_t stream) noexcept EXCLUDES(lock_);
  /// Destroys the kept streams of a device (all: -1). Returns whether there were any.
  bool give_back(int device) noexcept EXCLUDES(lock_);

 private:
  struct Entry {
    hipStream_t stream = nullptr;
    StreamKind kind{};
  };
  /// Takes out the last one for which the test is true. Null: there is none.
  template <typename Which>
  hipStream_t take_out(const Which& which) noexcept EXCLUDES(lock_);
  static void destroy(hipStream_t stream) noexcept;

  ShortLock<LockRank::kStreams> lock_;
  std::atomic<std::size_t> count_{0};  ///< changed under the lock
  std::array<Entry, kMost> entries_ GUARDED_BY(lock_){};
};

/// The process's own. Never destroyed: threads may use it until the process ends.
extern constinit KeptStreams g_kept_streams;
inline KeptStreams& kept_streams() noexcept { return g_kept_streams; }

}  // namespace graphpool
