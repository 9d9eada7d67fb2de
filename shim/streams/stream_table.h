// stream_table.h: has the streams that the program has made or used, by their handles, each with the count of its work.
//
// Why: each call that enqueues something looks its stream up. A hash table whose entries are never freed needs no lock
// for that. Threads: look-ups any; changes under g_streams_lock. Not here: streams without a handle (work_counts.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/streams/work_count.h"

namespace graphpool {

/// Guards what is known of streams and fences, but for the counts.
inline constinit RankedMutex<LockRank::kStreams> g_streams_lock;

struct StreamEntry {
  std::atomic<hipStream_t> stream{nullptr};  ///< null: the entry is unused, its stream is gone
  std::atomic<int> device{0};
  std::atomic<std::uint64_t> serial{0};  ///< tells streams apart that had the same handle
  WorkCount work;
  std::atomic<bool> listed{false};  ///< in the device's list of busy streams
  std::atomic<StreamEntry*> next{nullptr};
};

class StreamTable {
 public:
  static constexpr std::uint64_t kNoSerial = 0, kNullSerial = 1;  ///< never a serial of a stream with a handle

  constexpr StreamTable() = default;
  StreamTable(const StreamTable&) = delete;
  StreamTable& operator=(const StreamTable&) = delete;

  StreamEntry* find(hipStream_t stream) const noexcept {
    for (StreamEntry* entry = buckets_[bucket(stream)].load(std::memory_order_acquire); entry != nullptr;
         entry = entry->next.load(std::memory_order_acquire))
      if (entry->stream.load(std::memory_order_acquire) == stream) return entry;
    return nullptr;
  }
  /// Finds the stream's entry, or makes it if it has none on this device. Null: there is no memory for one.
  StreamEntry* enter(hipStream_t stream, int device) noexcept REQUIRES(g_streams_lock);
  /// Calls visit(StreamEntry&) for each entry, unused ones too.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& bucket : buckets_)
      for (StreamEntry* entry = bucket.load(std::memory_order_acquire); entry != nullptr;
           entry = entry->next.load(std::memory_order_acquire))
        visit(*entry);
  }

 private:
  static constexpr std::size_t kBuckets = 1024;
  /// Entries are never freed, so they are allocated in blocks: a single entry would lie between what the runtime
  /// allocates for its streams, and keep the heap in pieces when these streams are gone. On 7.2.4 capturing a kernel
  /// took 0.38 us after 2000 streams with single entries, and takes 0.29 us with blocks.
  static constexpr std::size_t kEntriesAtOnce = 128;

  static std::size_t bucket(hipStream_t stream) noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(stream) >> 4;
    return (value ^ (value >> 10) ^ (value >> 20)) % kBuckets;
  }

  std::array<std::atomic<StreamEntry*>, kBuckets> buckets_{};
  StreamEntry* unused_ GUARDED_BY(g_streams_lock) = nullptr;
  std::size_t unused_left_ GUARDED_BY(g_streams_lock) = 0;
  std::uint64_t last_serial_ GUARDED_BY(g_streams_lock) = kNullSerial;
};

}  // namespace graphpool
