// outstanding_uses.h: knows which streams may still write to staged buffers that a launch copies out whole (rule 4).
//
// Why: a rule without `range` has the whole buffer copied out, so what another stream writes to it between the copy in
// and the copy out would be lost. A launch that finds such work outstanding, and not ordered before it, goes without
// staging. Work that another stream is given after the launch cannot be known at the launch: only `range` protects from
// that.
//
// What is known: kernels, copies and fills by their operands, launches of graphs by theirs, and that a stream has work
// outstanding that nobody can see into. Two pieces of work are ordered by the stream they share, by events recorded and
// waited for, by the null stream's order with others, or because the first is complete.
//
// Cost: nothing if no rule is like that (uses_tracked(), capture/capture.h); little while all work comes on one stream.
// Threads: any. Lock: kSlots, held over no call of HIP but the question for the current device.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_state.h"

namespace graphpool {

class OutstandingUses {
 public:
  using Bases = std::vector<const char*>;

  /// Notes that a stream is used. Returns whether others may have work, too: only then are uses to be noted.
  bool several(StreamArgument stream) {
    const StreamKey key = stream_key(stream);
    if (several_.load(std::memory_order_relaxed)) return true;
    if (first_.load(std::memory_order_relaxed) != key) return second(key, plain_handle(stream));
    first_used_.store(launch_clock() + 1);
    return several_.load();  // a second stream that comes now has seen this use, or is seen here
  }

  /// Notes enqueued work of the stream that may write to these buffers (null: any). `by`: the launching ring, or null.
  void used(StreamArgument stream, const Bases& bases, const void* by);
  /// Notes work that was enqueued on the stream and that nobody can see into: it may write to any buffer.
  void used_unseen(StreamArgument stream) { used(stream, {nullptr}, nullptr); }

  void recorded(hipEvent_t event, StreamArgument stream);
  void waited(StreamArgument stream, hipEvent_t event);
  void event_destroyed(hipEvent_t event);
  /// Call it before the handle's destruction is noted or forwarded.
  void stream_destroyed(hipStream_t stream);

  /// How many uses are told apart: at most kMostUses, or one for each living stream and each device and one more.
  std::size_t size() {
    const LockGuard guard(lock_);
    return uses_.size();
  }

  /// Whether another stream has work outstanding that may write to one of these buffers and is not ordered before what
  /// the stream does next. Does not wait. In doubt it says yes. `by`: as in used(); work of the same ring does not
  /// count.
  bool elsewhere(const Bases& bases, StreamArgument stream, const void* by);

 private:
  struct Use {
    const char* base;  ///< null: any buffer
    const void* by;
    StreamKey key;
    hipStream_t stream;
    int device;
    std::uint64_t number;
    std::shared_ptr<StreamState> state;
  };
  using Clock = std::unordered_map<StreamKey, std::uint64_t>;  ///< what is ordered before, by stream

  bool second(StreamKey key, hipStream_t stream);
  void add(const char* base, const void* by, StreamKey key, hipStream_t stream, int device, std::uint64_t number)
      REQUIRES(lock_);
  void forget_complete() REQUIRES(lock_);
  void coarsen() REQUIRES(lock_);
  Clock& clock_of(StreamKey key) REQUIRES(lock_);

  static constexpr std::size_t kMostClocks = 512;  ///< streams
  static constexpr std::size_t kMostUses = 256;
  static constexpr std::size_t kMostAsked = 16;  ///< streams; more are in doubt
  std::atomic<bool> several_{false};
  std::atomic<StreamKey> first_{0};
  std::atomic<std::uint64_t> first_used_{0};  ///< launch_clock() + 1 at the last use of the first stream
  hipStream_t first_stream_ = nullptr;
  int first_device_ = 0;
  RankedMutex<LockRank::kSlots> lock_;
  std::vector<Use> uses_ GUARDED_BY(lock_);
  std::unordered_map<StreamKey, Clock> clocks_ GUARDED_BY(lock_);
  std::unordered_map<hipEvent_t, Clock> events_ GUARDED_BY(lock_);
};

/// The process's. Never destroyed.
OutstandingUses& outstanding_uses() noexcept;

}  // namespace graphpool
