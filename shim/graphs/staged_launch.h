// staged_launch.h: makes a single launch of an exec that is staged, that has nothing to do, or whose launches must come
// behind those of the variant before.
//
// It enqueues copy in, replay and copy out in the program's stream (staging/slot_ring.h). If no slot set is free the
// launch waits, `graph.ring_timeout` at most. If it cannot go through slots then, or for another reason, the exec
// leaves its ring (ring_exit.h), and the launch is one on the program's own memory.
// Errors are HIP's. Threads: each object serves one launch.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <optional>

#include "shim/base/back_off.h"
#include "shim/base/waits.h"
#include "shim/graphs/launch_verifier.h"
#include "shim/graphs/ring_exit.h"
#include "shim/graphs/unstaged_launch.h"

namespace graphpool {

class StagedLaunch {
 public:
  StagedLaunch(RingExit& exit, const AskedLaunch& asked, const GraphSettings& settings)
      : exit_(exit),
        asked_(asked),
        exec_(asked.exec),
        key_(stream_key(asked.stream)),
        stream_(plain_handle(asked.stream)),
        wait_(settings.ring_timeout) {}

  /// Makes the launch and returns its result; or nothing: then `unstaged` is begun, and the caller must make it.
  /// hipErrorNotReady: the ring was to work on copies, and no slot set serves the launch; nothing was enqueued.
  std::optional<hipError_t> make(UnstagedLaunch* unstaged);

 private:
  enum class Next : std::uint8_t { kAnswered, kBegun, kMakeRoom, kLeaveRing, kWait };
  /// Whether the launch comes behind all earlier ones of its exec.
  enum class Order : std::uint8_t { kKept, kLost };
  /// Where it waits for a slot set.
  enum class WaitsOn : std::uint8_t { kHost, kDevice };
  enum class RingOutcome : std::uint8_t { kBusy, kNotReplayed, kReplayed };

  Next answer(hipError_t result) noexcept {
    answer_ = result;
    return Next::kAnswered;
  }
  Next try_once(UnstagedLaunch* unstaged) EXCLUDES(exec_.lock);
  Next launch_nothing() noexcept;
  Next launch_ring() REQUIRES(exec_.lock);
  RingOutcome replay(hipError_t* result) REQUIRES(exec_.lock) EXCLUDES(g_recordings_lock);
  void come_behind() REQUIRES(exec_.lock);
  hipError_t leave_ring() EXCLUDES(exec_.lock);
  bool wait_for_set() EXCLUDES(exec_.lock);
  bool on_copies() const noexcept EXCLUDES(exec_.lock);

  RingExit& exit_;
  const AskedLaunch& asked_;
  ProgramExec& exec_;
  const StreamKey key_;
  const hipStream_t stream_;
  BackOff wait_;
  std::optional<NotedWait> noted_;
  std::uint64_t graph_ = 0;  ///< number of its recording
  hipError_t answer_ = hipSuccess;
  Order order_ = Order::kKept;
  WaitsOn waits_on_ = WaitsOn::kHost;
  bool behind_ring_ = false;  ///< the stream comes behind what the ring has launched
  bool made_room_ = false;    ///< of device memory
};

}  // namespace graphpool
