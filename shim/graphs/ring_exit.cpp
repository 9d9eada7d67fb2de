#include "shim/graphs/ring_exit.h"

#include <chrono>
#include <new>
#include <utility>

#include "shim/base/log.h"
#include "shim/graphs/stream_judge.h"
#include "shim/hip/restore.h"
#include "shim/memory/shared_memory.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

RingExit::Left RingExit::leave(ProgramExec& exec, StreamKey key, hipStream_t stream) {
  if (stream_is_gone(stream)) return {judge_stream(stream)};
  HeldRecording recording;
  Binding binding;
  {
    const LockGuard guard(exec.lock);
    if (!exec.staged()) return {};  // another launch was first
    recording = hold(*exec.recording);
    binding = exec.binding;
  }
  Served own;
  hipError_t result = supply_.obtain_unstaged(exec, *recording, binding, {}, &own);
  // Natively nothing is made here that could fail: what failed once is tried once more before the program sees it.
  if (result != hipSuccess) result = supply_.obtain_unstaged(exec, *recording, binding, {}, &own);
  if (result == hipSuccess) return put_in_place(exec, own, key, stream);
  return {become_own(exec)};
}

/// Makes the exec the program's own: what it names may be freed by now, or the recording not be trusted any more. One
/// launch at a time does so. Another one finds the exec as it was, or the program's own, and tries again.
hipError_t RingExit::become_own(ProgramExec& exec) {
  {
    const LockGuard guard(exec.lock);
    if (!exec.staged() || exec.becoming_own) return hipSuccess;
    exec.becoming_own = true;
    exec.leave("a staged exec could not be made without staging");
  }
  const auto done = [&exec](hipError_t result) {
    const LockGuard guard(exec.lock);
    exec.becoming_own = false;
    return result;
  };
  try {
    return done(own_.taint(exec));
  } catch (const std::bad_alloc&) {
    static_cast<void>(done(hipErrorOutOfMemory));
    throw;
  }
}

RingExit::Left RingExit::put_in_place(ProgramExec& exec, const Served& own, StreamKey key, hipStream_t stream) {
  Left left;
  const LockGuard guard(exec.lock);
  Variant* const ring = exec.variant;
  if (ring->ring == nullptr || exec.becoming_own) {  // another launch was first
    const LockGuard recordings(g_recordings_lock);
    if (own.variant != ring) store_.disown(*own.variant);
    return left;
  }
  {
    const LockGuard recordings(g_recordings_lock);  // another launch may be looking for an exec of its own
    exec.variant = own.variant;
  }
  exec.way = own.way;
  ring->launches.seal();
  if (!ring->plan->overlap()) {
    exec.before = ring->launches.copy();
    // Work can come behind a ring even if the stream of its last launch is being captured now.
    const LastErrorScope last_error;
    left.ordered = !may_be_capturing(stream) && ring->ring->order_behind_last(key, stream);
  }
  const LockGuard recordings(g_recordings_lock);
  store_.give(*ring, nullptr);
  return left;
}

RingExit::Left RingExit::stop_waiting(ProgramExec& exec, StreamKey key, hipStream_t stream) {
  const auto limit_ms = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.ring_timeout).count();
  HeldRecording recording;
  {
    const LockGuard guard(exec.lock);
    if (!exec.staged()) return {};  // another launch was first
    recording = hold(*exec.recording);
  }
  const Left left = leave(exec, key, stream);
  log_error("no slot set of a staged graph came free in %lld ms: %s", static_cast<long long>(limit_ms),
            left.result == hipSuccess ? "it takes the program's own path from now on"
                                      : "no memory for the program's own path, so it waits");
  const LockGuard guard(g_recordings_lock);
  ++(*recording).statistics.ring_timeouts;
  return left;
}

/// Earlier launches still end on their slots. Nothing can be waited for here: their kernels may themselves wait for the
/// process that has the handle now.
hipError_t RingExit::leave_shared_memory(ProgramExec& exec, StreamArgument stream) {
  const ExecUse use(limit_, &exec);
  const std::uint64_t version = SharedMemory::version();
  bool shared = false;
  {
    const LockGuard guard(exec.lock);
    shared =
        exec.recording != nullptr && exec.staged() && reaches_shared_memory(exec.recording->operations, exec.binding);
    if (shared) {
      const LockGuard recordings(g_recordings_lock);
      exec.recording->not_staged = kSharedMemory;
    }
  }
  const hipError_t result = shared ? leave(exec, stream_key(stream), plain_handle(stream)).result : hipSuccess;
  if (result == hipSuccess) exec.shared_seen.store(version, std::memory_order_relaxed);
  return result;
}

}  // namespace graphpool
