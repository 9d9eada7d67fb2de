// stream_work.h: which streams have work that is not known to be complete, and how to wait for it without being seen.
//
// Why: hipFree waits for every stream of the memory's owner. When we keep the memory instead, the program must find the
// same order of things (pool.free = sync), or the memory must not be handed out before the device has passed that point
// (deferred). hipDeviceSynchronize and queries of the program's streams would invalidate captures (rule 17). So:
//
//   - bodies count what they enqueue: note_work(stream), after the call has been forwarded;
//   - make_fence(device) records an event of ours on each stream of the device whose count has moved since it was last
//     known idle, lets a stream of ours wait for these events, and records the fence's event there. Only that last
//     event is ever waited for or queried: HIP 6.3 refuses both for an event whose stream has begun a capture since.
//
// The device's null stream is not touched: an event in it would hold back every blocking stream. A blocking stream of
// ours takes its place: what is recorded there comes after all work of the null stream, and nothing waits for it. Only
// where the program's own call would have held them back, enter_null_stream() does.
// hipStreamPerThread names the caller's own stream, so work of another thread's cannot be fenced: make_fence says so,
// and the caller lets the program's own call do what it does.
//
// Order: who makes a fence says so and then looks for open captures; a capture counts as open before it looks for a
// fence that is being made, and waits for that (capture_begins). So no event of ours gets into one. Threads: any.
// note_work: one hash lookup and one increment, without a barrier in the thread that used the stream first; no lock
// once the stream is known. Lock rank kStreams, held over event records only, which do not wait. Units: counts of
// enqueued operations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/base/owned_count.h"
#include "shim/hip/next.h"

namespace graphpool {

inline constexpr int kMaxDevices = 64;

/// How much was enqueued somewhere, and how much of it is known to be complete.
struct WorkCount {
  OwnedCount submitted;
  std::atomic<std::uint64_t> completed{0};

  bool busy() const noexcept { return submitted.load() != completed.load(std::memory_order_acquire); }
};

/// A count to be taken as complete once something has been waited for.
struct WorkMark {
  std::atomic<std::uint64_t>* completed;
  std::uint64_t submitted;

  friend bool operator==(const WorkMark&, const WorkMark&) = default;
};

/// A point in a device's work. Owned by StreamWork; shared by all frees between two enqueued operations.
class Fence {
 public:
  int device() const noexcept { return device_; }

  Fence* next = nullptr;  ///< for a chain of fences to be recycled

 private:
  friend class StreamWork;
  int device_ = 0;
  bool all_ = true;           ///< made for the whole device, else for one stream
  std::uint64_t serial_ = 0;  ///< of that stream
  std::atomic<int> references_{0};
  hipEvent_t event_ = nullptr;  ///< null: nothing was outstanding
  std::atomic<bool> passed_{false};
  std::uint64_t epoch_ = 0;  ///< the device's resets before it was made
  std::vector<WorkMark> marks_;
};

/// Guards what StreamWork knows beside its counts.
inline constinit RankedMutex<LockRank::kStreams> g_streams_lock;

class StreamWork {
 public:
  /// Neither the null stream by one of its names nor hipStreamPerThread.
  static bool is_handle(hipStream_t stream) noexcept { return reinterpret_cast<std::uintptr_t>(stream) > 2; }
  static bool is_null(hipStream_t stream) noexcept { return !is_handle(stream) && stream != hipStreamPerThread; }

  constexpr StreamWork() = default;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;

  /// Something was enqueued on the stream (null, hipStreamLegacy and hipStreamPerThread too: the caller has resolved
  /// the null of _spt entries to hipStreamPerThread). Call it after the forwarded call has returned, whatever it
  /// returned: before it, a wait in another thread could take the count for complete.
  void note_work(hipStream_t stream) noexcept {
    if (is_handle(stream)) {
      if (StreamEntry* entry = find(stream)) {
        entry->work.submitted.add();
        if (!entry->listed.load()) list(entry);
        return;
      }
    } else if (stream != hipStreamPerThread) {
      null_.submitted.add();
      return;
    }
    note_other(stream);
  }

  /// Something was enqueued we do not know where, for instance by a function without a body. Until the next real free
  /// or synchronisation of a device, its frees are the runtime's.
  void note_work_anywhere() noexcept { anywhere_.submitted.add(); }

  /// How often something was enqueued, anywhere, so far. Slow.
  std::uint64_t submitted() const noexcept;

  void created(hipStream_t stream, int device) noexcept;
  /// Before the stream's destruction is forwarded: its outstanding work stays known.
  void before_destroy(hipStream_t stream) noexcept;
  /// Destroys an exec of the runtime's, the program's or ours, on this device (else on the current one). Where it may
  /// end late (Defect::kExecsEndLate), the next free is to wait by a free of the runtime's own, even on an idle device.
  hipError_t destroy_exec(hipGraphExec_t exec) noexcept;
  hipError_t destroy_exec(hipGraphExec_t exec, int device) noexcept;
  bool execs_end(int device) const noexcept { return device_of(device).ending.busy(); }

  /// What the program's own synchronisation is about to establish: take it before the call, give it to idle() when the
  /// call has succeeded. hipFree counts as one of its memory's device.
  using Snapshot = std::vector<WorkMark>;
  Snapshot before_stream_sync(hipStream_t stream);
  Snapshot before_device_sync(int device);
  void idle(const Snapshot& snapshot) noexcept;

  /// Nothing on the device is known to be outstanding. A few loads where nothing is.
  bool is_idle(int device) noexcept;

  /// Whether the stream, a handle, has work that is not known to be complete. False for one that is not known.
  bool is_busy(hipStream_t stream) const noexcept {
    const StreamEntry* const entry = is_handle(stream) ? find(stream) : nullptr;
    return entry != nullptr && entry->work.busy();
  }

  /// A fence after everything enqueued on the device so far. Does not wait. Null when that cannot be made: a capture is
  /// open, another thread's per-thread stream or an unknown one is busy, or HIP failed (its error has been taken out of
  /// the program's sight). Give it back with release().
  Fence* make_fence(int device) noexcept;
  /// A fence after what was enqueued on one stream, a handle or null or hipStreamPerThread; null as above.
  Fence* make_stream_fence(int device, hipStream_t stream) noexcept;
  /// The device whose work that is; -1: not known.
  int device_of_stream(hipStream_t stream) const noexcept;
  /// Whether everything enqueued on the stream, a handle or null, is known to be complete. Neither waits nor allocates;
  /// false while captures are open, and of a stream that is not known (any more): its handle is not used.
  bool is_complete(int device, hipStream_t stream) noexcept;
  /// Leaves in the null stream of the calling thread's device what every operation does: what blocking streams are
  /// given next comes behind what they all have now. For calls of the program that enqueue something there which we do
  /// otherwise. Does not wait; captures may be open.
  void enter_null_stream() noexcept;
  /// Waits on the host, in the calling thread's present capture mode. False: HIP failed.
  bool wait(Fence* fence) noexcept;
  /// Has the device passed it? Does not wait. A fence that HIP cannot answer for is never passed.
  bool passed(Fence* fence) noexcept;
  /// Whether the fence was made for this stream (null: that of the device), so that what the stream does next comes
  /// after it anyway.
  bool same_stream(const Fence* fence, int device, hipStream_t stream) const noexcept;
  void release(Fence* fence) noexcept {
    if (drop_reference(fence)) recycle(fence);
  }
  /// release() in two steps, for a caller that holds a lock of higher rank: true when recycle() is to follow.
  static bool drop_reference(Fence* fence) noexcept { return fence->references_.fetch_sub(1) == 1; }
  void recycle(Fence* fence) noexcept;

  /// Called when a capture has been counted as open, before hipStreamBeginCapture is forwarded: returns when no fence
  /// is being made.
  void capture_begins() noexcept;

  /// The device is about to be reset: its streams and events are gone, its fences passed.
  void device_reset(int device) noexcept;

 private:
  struct StreamEntry {
    std::atomic<hipStream_t> stream{nullptr};
    std::atomic<int> device{0};
    std::atomic<std::uint64_t> serial{0};  ///< tells streams apart that had the same handle
    WorkCount work;
    std::atomic<bool> listed{false};  ///< in the device's list of busy streams
    std::atomic<StreamEntry*> next{nullptr};
  };
  /// Work without a stream handle: counted for all devices together, known complete for each.
  struct CommonCount {
    OwnedCount submitted;
    std::array<std::atomic<std::uint64_t>, kMaxDevices> completed{};

    bool busy(int device) const noexcept {
      return submitted.load() != completed[static_cast<std::size_t>(device)].load();
    }
    WorkMark mark(int device) noexcept { return {&completed[static_cast<std::size_t>(device)], submitted.load()}; }
  };
  struct Device {
    hipStream_t waiter GUARDED_BY(g_streams_lock) = nullptr;      ///< non-blocking: waits for the events of the others
    hipStream_t after_null GUARDED_BY(g_streams_lock) = nullptr;  ///< blocking: comes after the null stream's work
    hipEvent_t scratch GUARDED_BY(g_streams_lock) =
        nullptr;  ///< recorded on a stream, then waited for by `waiter`, then free again
    std::vector<hipEvent_t> events GUARDED_BY(g_streams_lock);  ///< unused events of fences
    std::vector<StreamEntry*> busy
        GUARDED_BY(g_streams_lock);  ///< every stream whose count has moved since it was last known idle, and others
    std::atomic<std::size_t> busy_count{0};
    WorkCount left;                       ///< work of destroyed streams that `waiter` waits for
    WorkCount lost;                       ///< work of destroyed streams that nothing waits for
    WorkCount ending;                     ///< execs that were destroyed and may end late
    std::atomic<std::uint64_t> epoch{0};  ///< resets so far
    Fence* latest GUARDED_BY(g_streams_lock) = nullptr;
  };

  static constexpr std::size_t kBuckets = 1024;
  static constexpr std::uint64_t kNoSerial = 0, kNullSerial = 1;

  static std::size_t bucket(hipStream_t stream) noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(stream) >> 4;
    return (value ^ (value >> 10) ^ (value >> 20)) % kBuckets;
  }
  StreamEntry* find(hipStream_t stream) const noexcept {
    for (StreamEntry* entry = buckets_[bucket(stream)].load(std::memory_order_acquire); entry != nullptr;
         entry = entry->next.load(std::memory_order_acquire))
      if (entry->stream.load(std::memory_order_acquire) == stream) return entry;
    return nullptr;
  }
  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }
  const Device& device_of(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }
  void note_other(hipStream_t stream) noexcept;
  void list(StreamEntry* entry) noexcept;
  void list_locked(StreamEntry* entry) REQUIRES(g_streams_lock);
  void tidy_busy(Device& device) noexcept REQUIRES(g_streams_lock);
  StreamEntry* enter_locked(hipStream_t stream, int device) noexcept REQUIRES(g_streams_lock);
  bool prepare(Device& device) noexcept REQUIRES(g_streams_lock);
  bool make_scratch(Device& device) noexcept REQUIRES(g_streams_lock);
  bool make_after_null(Device& device) noexcept REQUIRES(g_streams_lock);
  bool join(Device& device, hipStream_t stream) noexcept REQUIRES(g_streams_lock);
  bool join_null(Device& device) noexcept REQUIRES(g_streams_lock);
  Fence* make_locked(int device, hipStream_t only, bool all) REQUIRES(g_streams_lock);
  void recycle_locked(Fence* fence) noexcept REQUIRES(g_streams_lock);
  static void complete(const std::vector<WorkMark>& marks) noexcept;

  std::array<std::atomic<StreamEntry*>, kBuckets> buckets_{};
  CommonCount null_;
  CommonCount per_thread_;
  CommonCount anywhere_;
  std::atomic<const void*> per_thread_owner_{nullptr};  ///< the last thread that used its own stream
  std::atomic<bool> per_thread_shared_{false};          ///< another one had before
  /// With the lock held: events of ours are about to be recorded, or not, because of what captures are open.
  class Fencing {
   public:
    explicit Fencing(StreamWork& work) noexcept : fencing_(work.fencing_) { fencing_.store(true); }
    ~Fencing() { fencing_.store(false); }
    Fencing(const Fencing&) = delete;
    Fencing& operator=(const Fencing&) = delete;

   private:
    std::atomic<bool>& fencing_;
  };

  std::atomic<bool> fencing_{false};
  /// Entries are allocated in blocks, because they are never freed. A single entry would lie between what the runtime
  /// allocates for its streams, and keep the heap in pieces when those are gone. On 7.2.4 capturing a kernel took 0.38
  /// us after 2000 streams with single entries, and takes 0.29 us with blocks.
  static constexpr std::size_t kEntriesAtOnce = 128;
  StreamEntry* unused_ GUARDED_BY(g_streams_lock) = nullptr;
  std::size_t unused_left_ GUARDED_BY(g_streams_lock) = 0;
  std::uint64_t last_serial_ GUARDED_BY(g_streams_lock) = kNullSerial;
  std::array<Device, kMaxDevices> devices_{};
};

/// The process's own. Never destroyed: threads may use it until the process ends.
inline constinit union StreamWorkOfProcess {
  StreamWork work{};
  ~StreamWorkOfProcess() {}
} g_stream_work;
inline StreamWork& stream_work() noexcept { return g_stream_work.work; }

}  // namespace graphpool
