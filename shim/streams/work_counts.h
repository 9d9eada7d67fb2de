// work_counts.h: knows which streams have work that is not known to be complete.
//
// Bodies count what they enqueue: note_work(stream), after the call has been forwarded. What the program then waits for
// is complete. hipStreamPerThread names the caller's own stream. So of another thread's own stream it is only known
// that there is work.
//
// Threads: any. note_work: one hash look-up and one increment, without a barrier in the thread that used the stream
// first; no lock once the stream is listed as busy. Lock: g_streams_lock. Units: enqueued operations. Not here: how
// work is waited for (fences.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shim/hip/next.h"
#include "shim/streams/devices.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_table.h"
#include "shim/streams/work_count.h"

namespace graphpool {

class WorkCounts {
 public:
  constexpr WorkCounts() = default;
  WorkCounts(const WorkCounts&) = delete;
  WorkCounts& operator=(const WorkCounts&) = delete;

  /// Notes that something was enqueued on the stream (null, hipStreamLegacy and hipStreamPerThread too: the caller has
  /// resolved the null of _spt entries to hipStreamPerThread). Call it after the forwarded call has returned, whatever
  /// it returned: before it, a wait in another thread could take the count for complete.
  void note_work(hipStream_t stream) noexcept {
    if (is_stream_handle(stream)) {
      if (StreamEntry* entry = streams_.find(stream)) {
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
  /// Notes that something was enqueued, we do not know where: by a function without a body, for instance. Until the
  /// next real free or synchronisation of a device, frees of its memory are the runtime's.
  void note_work_anywhere() noexcept { anywhere_.submitted.add(); }
  /// Notes that an exec of the device was destroyed and may end late (Defect::kExecsEndLate).
  void note_exec_ends(int device) noexcept { device_of(device).ending.submitted.add(); }
  bool execs_end(int device) const noexcept { return device_of(device).ending.busy(); }

  /// How often something was enqueued, anywhere, so far. Slow.
  std::uint64_t submitted() const noexcept;

  void created(hipStream_t stream, int device) noexcept EXCLUDES(g_streams_lock);
  /// Notes that the stream goes: its handle is not used any more. `fenced`: a stream of ours waits for its work.
  void destroyed(hipStream_t stream, bool fenced) noexcept REQUIRES(g_streams_lock);

  /// The work that a synchronisation of the program's waits for: take it before the call, give it to idle() when the
  /// call has succeeded. hipFree counts as a synchronisation of its memory's device.
  using Snapshot = std::vector<WorkMark>;
  Snapshot before_stream_sync(hipStream_t stream);
  Snapshot before_device_sync(int device) EXCLUDES(g_streams_lock);
  static void idle(const Snapshot& snapshot) noexcept { complete(snapshot); }

  /// Whether all counted work of the device is known to be complete, but for execs_end(). Cost: a few loads if no
  /// stream is listed as busy.
  bool is_idle(int device) noexcept EXCLUDES(g_streams_lock);
  /// Whether the stream is known by its handle.
  bool is_known(hipStream_t stream) const noexcept { return streams_.find(stream) != nullptr; }
  /// Whether the stream, a handle, has work that is not known to be complete. False for one that is not known.
  bool is_busy(hipStream_t stream) const noexcept {
    const StreamEntry* const entry = is_stream_handle(stream) ? streams_.find(stream) : nullptr;
    return entry != nullptr && entry->work.busy();
  }
  /// The device of the stream; for a stream without a handle the current device. -1: not known.
  int device_of_stream(hipStream_t stream) const noexcept;

  // --- for fences ---

  /// The work that a fence is to come behind.
  struct Outstanding {
    std::vector<WorkMark> marks;  ///< complete once the fence is passed
    std::vector<hipStream_t> streams;
    std::uint64_t serial = StreamTable::kNoSerial;  ///< of the only stream
    bool own = false;                               ///< the calling thread's own stream
    bool null_stream = false;
    bool left = false;  ///< work of destroyed streams, which a stream of ours waits for

    bool any() const noexcept { return own || null_stream || left || !streams.empty(); }
  };
  /// Whether events can come behind all work of the device: none is lost with its stream, or on an unknown stream.
  bool can_be_fenced(int device) const noexcept REQUIRES(g_streams_lock) {
    return !anywhere_.busy(device) && !device_of(device).lost.busy();
  }
  /// All that is outstanding on the device. std::nullopt: another thread's own stream is busy.
  std::optional<Outstanding> outstanding(int device) REQUIRES(g_streams_lock);
  /// What is outstanding on the stream: a handle, null or hipStreamPerThread. std::nullopt: the handle is not known.
  std::optional<Outstanding> outstanding_on(hipStream_t stream) REQUIRES(g_streams_lock);
  /// Tells streams apart that had the same handle; StreamTable::kNoSerial: the handle is not known.
  std::uint64_t serial_of(hipStream_t stream) const noexcept;
  bool busy_anywhere(int device) const noexcept { return anywhere_.busy(device); }

  /// Forgets the streams of the device, which is about to be reset.
  void device_reset(int device) noexcept REQUIRES(g_streams_lock);

 private:
  struct Device {
    std::vector<StreamEntry*> busy GUARDED_BY(g_streams_lock);  ///< at least every stream that may be busy
    std::atomic<std::size_t> busy_count{0};
    WorkCount left;    ///< work of destroyed streams that a stream of ours waits for
    WorkCount lost;    ///< work of destroyed streams that nothing waits for
    WorkCount ending;  ///< execs that were destroyed and may end late
  };

  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }
  const Device& device_of(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }
  void note_other(hipStream_t stream) noexcept;
  void list(StreamEntry* entry) noexcept EXCLUDES(g_streams_lock);
  static void tidy_busy(Device& device) noexcept REQUIRES(g_streams_lock);

  StreamTable streams_;
  CommonCount null_;
  CommonCount per_thread_;
  CommonCount anywhere_;
  std::atomic<std::uintptr_t> per_thread_owner_{0};  ///< the last thread that used its own stream (calling_thread())
  std::atomic<bool> per_thread_shared_{false};       ///< several threads have used their own
  std::array<Device, kMaxDevices> devices_{};
};

}  // namespace graphpool
