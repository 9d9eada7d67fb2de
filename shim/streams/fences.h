// fences.h: makes fences: points in a device's work that the library waits for, or asks about, without being seen.
//
// Why: hipFree waits for every stream of the memory's owner. When we keep the memory instead, hipFree must wait all the
// same (pool.free = "sync"), or the memory must not be handed out before the device has passed that point ("deferred").
// hipDeviceSynchronize and queries of the program's streams would invalidate captures (rule 17). So a fence records an
// event of ours on each stream that has work, lets a stream of ours wait for these events, and records its own event
// there. A fence's wait and query use that last event only: HIP 6.3 refuses both for an event whose stream has begun a
// capture since.
//
// The device's null stream is not touched: an event in it would hold back every blocking stream. A blocking stream of
// ours takes its place: what is recorded there comes after all work of the null stream, and nothing waits for it. Only
// enter_null_stream() records in the null stream: for a call of the program that would hold blocking streams back.
//
// Order: a thread that makes a fence says so (Making), and looks for open captures then. A capture counts as open
// before it looks for a fence that is being made, and waits for that (capture_begins). So no capture gets an event of
// ours.
//
// Threads: any. Lock: g_streams_lock. It is held over calls that record events, ask for one, make a stream wait, or
// make an event or a stream of ours. Not here: which streams have work (work_counts.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "shim/hip/next.h"
#include "shim/streams/devices.h"
#include "shim/streams/stream_table.h"
#include "shim/streams/work_count.h"
#include "shim/streams/work_counts.h"

namespace graphpool {

/// Owned by Fences. All frees between two enqueued operations share the fence of the whole device.
class Fence {
 public:
  int device() const noexcept { return device_; }

  Fence* next = nullptr;  ///< for a chain of fences to be recycled (fence_bin.h)

 private:
  friend class Fences;
  int device_ = 0;
  bool all_ = true;           ///< made for the whole device, else for one stream
  std::uint64_t serial_ = 0;  ///< of that stream (StreamEntry::serial)
  std::atomic<int> references_{0};
  hipEvent_t event_ = nullptr;  ///< null: nothing was outstanding
  std::atomic<bool> passed_{false};
  std::uint64_t epoch_ = 0;  ///< Device::epoch when it was made
  std::vector<WorkMark> marks_;
};

class Fences {
 public:
  constexpr explicit Fences(WorkCounts& counts) noexcept : counts_(counts) {}
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

  /// Makes a fence after everything enqueued on the device so far. Does not wait. Null: it cannot be made, because a
  /// capture is open, another thread's own stream or an unknown one is busy, work was lost with its stream, host memory
  /// ran out, or HIP failed (its error is taken out of the program's sight). Give the fence back with release().
  Fence* make(int device) noexcept EXCLUDES(g_streams_lock);
  /// Makes a fence after what was enqueued on one stream: a handle, null or hipStreamPerThread. Null: as above, but
  /// other threads' own streams do not matter.
  Fence* make_behind(int device, hipStream_t stream) noexcept EXCLUDES(g_streams_lock);

  /// Waits on the host, in the calling thread's present capture mode. Returns false if HIP fails. A reset of the device
  /// since lets the fence be passed.
  bool wait(Fence* fence) noexcept;
  /// Whether the device has passed it. Does not wait. A fence that HIP cannot answer for is never passed.
  bool passed(Fence* fence) noexcept;
  /// Whether the fence was made for this stream (null: the null stream of the device), so that what the stream does
  /// next comes after it anyway. False of a thread's own stream, and after a reset of the device.
  bool same_stream(const Fence* fence, int device, hipStream_t stream) const noexcept;

  void release(Fence* fence) noexcept EXCLUDES(g_streams_lock) {
    if (drop_reference(fence)) recycle(fence);
  }
  /// release() in two steps, for a caller that holds a lock of higher rank: true when recycle() is to follow.
  static bool drop_reference(Fence* fence) noexcept { return fence->references_.fetch_sub(1) == 1; }
  void recycle(Fence* fence) noexcept EXCLUDES(g_streams_lock);

  /// Whether everything enqueued on the stream, a handle or null, is known to be complete. Does not wait; may make an
  /// event, and for null a stream of ours. False while captures are open or work is outstanding nobody knows where, and
  /// for a stream that is not known (any more): its handle is not used.
  bool is_complete(int device, hipStream_t stream) noexcept EXCLUDES(g_streams_lock);
  /// Records an event in the null stream of the calling thread's device. As after any operation there, what blocking
  /// streams are given next comes behind what they all have now. For calls of the program that would enqueue something
  /// there, but which we serve in another way. Does not wait; captures may be open.
  void enter_null_stream() noexcept EXCLUDES(g_streams_lock);

  /// Returns when no fence is being made. Call it when a capture counts as open, before hipStreamBeginCapture is
  /// forwarded.
  void capture_begins() noexcept EXCLUDES(g_streams_lock);

  /// While one lives, we may record events. Make it with g_streams_lock held, and then look for open captures.
  class Making {
   public:
    explicit Making(Fences& fences) noexcept : making_(fences.making_) { making_.store(true); }
    ~Making() { making_.store(false); }
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

   private:
    std::atomic<bool>& making_;
  };
  /// Makes later fences come behind what the stream has now, because it is about to be destroyed. Returns false if that
  /// cannot be done. The caller has a Making.
  bool stays_fenced(int device, hipStream_t stream) noexcept REQUIRES(g_streams_lock);

  /// Forgets the events of the device, which is about to be reset, and lets its fences be passed.
  void device_reset(int device) noexcept REQUIRES(g_streams_lock);

 private:
  struct Device {
    hipStream_t waiter GUARDED_BY(g_streams_lock) = nullptr;      ///< non-blocking: waits for the events of the others
    hipStream_t after_null GUARDED_BY(g_streams_lock) = nullptr;  ///< blocking: comes after the null stream's work
    hipEvent_t scratch GUARDED_BY(g_streams_lock) =
        nullptr;  ///< recorded on a stream, then waited for by `waiter` or asked for, then free again
    std::vector<hipEvent_t> events GUARDED_BY(g_streams_lock);  ///< unused events of fences
    Fence* latest GUARDED_BY(g_streams_lock) = nullptr;
    std::atomic<std::uint64_t> epoch{0};  ///< resets so far
  };

  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }
  const Device& device_of(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }
  static bool prepare(Device& device) noexcept REQUIRES(g_streams_lock);
  static bool make_scratch(Device& device) noexcept REQUIRES(g_streams_lock);
  static bool make_after_null(Device& device) noexcept REQUIRES(g_streams_lock);
  static bool join(Device& device, hipStream_t stream) noexcept REQUIRES(g_streams_lock);
  static hipEvent_t record_behind(Device& device, const WorkCounts::Outstanding& work) REQUIRES(g_streams_lock);
  Fence* make_locked(int device, std::optional<hipStream_t> only) REQUIRES(g_streams_lock);
  void forget_latest(Device& device) noexcept REQUIRES(g_streams_lock);
  void recycle_locked(Fence* fence) noexcept REQUIRES(g_streams_lock);

  WorkCounts& counts_;
  std::atomic<bool> making_{false};
  std::array<Device, kMaxDevices> devices_{};
};

}  // namespace graphpool
