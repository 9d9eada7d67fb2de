// stream_work.h: joins the counts of the program's outstanding work (work_counts.h) and the fences that wait for it
// (fences.h), and does what concerns both.
//
// Threads: any. Lock: g_streams_lock.
#pragma once

#include "shim/hip/next.h"
#include "shim/streams/fences.h"
#include "shim/streams/work_counts.h"

namespace graphpool {

struct StreamWork {
  constexpr StreamWork() = default;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;

  /// Keeps the stream's outstanding work known. Call it before the stream's destruction is forwarded.
  void before_destroy(hipStream_t stream) noexcept EXCLUDES(g_streams_lock);
  /// Forgets a stream that the program has destroyed and had given no work.
  void forget_unused(hipStream_t stream) noexcept EXCLUDES(g_streams_lock) {
    const LockGuard guard(g_streams_lock);
    counts.destroyed(stream, false);
  }
  /// Destroys an exec of the runtime's, the program's or ours. `device`: the exec's; without it the current one counts.
  /// If the exec may end late (Defect::kExecsEndLate), the next free of the device's memory waits by a free of the
  /// runtime's own, even on an idle device; deferred frees do not.
  hipError_t destroy_exec(hipGraphExec_t exec) noexcept;
  hipError_t destroy_exec(hipGraphExec_t exec, int device) noexcept;
  /// Forgets the streams and events of the device, which is about to be reset; its fences are passed.
  void device_reset(int device) noexcept EXCLUDES(g_streams_lock);

  WorkCounts counts;
  Fences fences{counts};
};

/// The process's own. Never destroyed: threads may use it until the process ends. Not inline: each file that includes
/// this would register the empty destructor when the library is loaded.
extern constinit union StreamWorkOfProcess {
  StreamWork work{};
  ~StreamWorkOfProcess() {}
} g_stream_work;
inline StreamWork& stream_work() noexcept { return g_stream_work.work; }
inline WorkCounts& work_counts() noexcept { return g_stream_work.work.counts; }
inline Fences& fences() noexcept { return g_stream_work.work.fences; }

}  // namespace graphpool
