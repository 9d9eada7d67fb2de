#include "shim/graphs/staged_launch.h"

#include "shim/base/log.h"
#include "shim/base/trace.h"
#include "shim/graphs/stream_judge.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/staging/staging.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

std::shared_ptr<const OutstandingUses::Bases> written_memory(ProgramExec& exec) {
  if (exec.written == nullptr) {
    auto bases = std::make_shared<OutstandingUses::Bases>();
    if (exec.recording != nullptr)
      wholly_staged(exec.recording->operations, exec.binding, bases.get());
    else
      bases->push_back(nullptr);  // the program's own: not known any more
    exec.written = std::move(bases);
  }
  return exec.written;
}

std::optional<hipError_t> StagedLaunch::make(UnstagedLaunch* unstaged) {
  for (;;) {
    switch (try_once(unstaged)) {
      case Next::kAnswered:
        return answer_;
      case Next::kBegun:
        if (order_ == Order::kLost) [[unlikely]]
          log_once(LogLevel::kWarn, "launch out of order",
                   "a launch could not be ordered behind the earlier launch of its exec: a stream of theirs is being "
                   "captured, or HIP made no event");
        return {};
      case Next::kMakeRoom:
        memory_room().make_room();
        made_room_ = true;
        break;
      case Next::kLeaveRing:
        if (const hipError_t result = leave_ring(); result != hipSuccess) return result;
        break;
      case Next::kWait:
        if (!wait_for_set()) return hipErrorNotReady;
        break;
    }
  }
}

StagedLaunch::Next StagedLaunch::try_once(UnstagedLaunch* unstaged) {
  const LockGuard guard(exec_.lock);
  if (exec_.variant == nullptr) return launch_nothing();
  come_behind();
  const bool on_copies = exec_.works_on == WorksOn::kCopies;
  if (!exec_.staged()) {
    if (on_copies) return answer(hipErrorNotReady);
    begin_unstaged(exec_, asked_.stream, unstaged);
    return Next::kBegun;
  }
  const Next next = launch_ring();
  return next == Next::kLeaveRing && on_copies ? answer(hipErrorNotReady) : next;
}

/// Answers for a graph without operations: there is nothing to run, and some runtimes crash on it (probe
/// empty_graph_runs).
StagedLaunch::Next StagedLaunch::launch_nothing() noexcept {
  const hipError_t judged = judge_stream(stream_);
  if (judged == hipSuccess && is_null_stream(stream_)) fences().enter_null_stream();
  return answer(judged);
}

/// Rule 3: also behind what another variant still runs. Where the stream cannot be told, nothing waits (rule 16).
void StagedLaunch::come_behind() {
  if (exec_.before == nullptr) return;
  if (!exec_.before->order_before(key_, stream_) && !behind_ring_) order_ = Order::kLost;
  exec_.before.reset();
}

StagedLaunch::Next StagedLaunch::launch_ring() {
  // In a capture the runtime may run the launch at once and capture the copies, or the other way about. A ring's events
  // are its device's: they cannot be recorded in a stream of another device.
  if (may_be_capturing(stream_) || !is_stream_of(exec_.variant->plan->device(), stream_)) return Next::kLeaveRing;
  const SlotRing* const ring = exec_.variant->ring.get();
  const bool on_copies = exec_.works_on == WorksOn::kCopies;
  graph_ = exec_.recording->number;
  const bool copied_whole = uses_tracked() && !ring->whole().empty();
  if (copied_whole && !ring->direct() && !on_copies && outstanding_uses().elsewhere(ring->whole(), asked_.stream, ring))
    return Next::kLeaveRing;
  const hipError_t pending = pending_error();
  hipError_t result = hipSuccess;
  const RingOutcome outcome = replay(&result);
  if (outcome == RingOutcome::kBusy) return Next::kWait;
  if (outcome == RingOutcome::kNotReplayed && result == hipErrorOutOfMemory && !made_room_) return Next::kMakeRoom;
  if (outcome == RingOutcome::kNotReplayed && result == hipErrorStreamCaptureInvalidated && !on_copies) {
    // Some runtimes leave a stream in this state when its capture has ended: it takes launches, but no copies.
    clear_error(pending);
    return Next::kLeaveRing;
  }
  // What it writes without a slot, because staging is open and not chosen, counts too.
  if (result == hipSuccess && uses_tracked() && outstanding_uses().several(asked_.stream))
    outstanding_uses().used(asked_.stream, *written_memory(exec_), ring);
  return answer(result);
}

/// Enqueues copies and graph. What is enqueued here neither waits nor calls back.
StagedLaunch::RingOutcome StagedLaunch::replay(hipError_t* result) {
  RingCounts counts;
  TraceSpan traced(TraceKind::kCopies);
  const auto if_running =
      waits_on_ == WaitsOn::kDevice ? LastLaunch::IfRunning::kOnDevice : LastLaunch::IfRunning::kAsPlanned;
  const RingLaunch launched = exec_.variant->ring->launch(key_, stream_, asked_.native, if_running, &counts);
  *result = launched.result;
  const bool busy = launched.reached == RingLaunch::Reached::kBusy;
  if (busy) traced.drop();
  tell_trace(counts.without_copies != 0 ? "nothing to copy" : "copied", graph_, counts.bytes);
  if (busy) return RingOutcome::kBusy;
  if (*result == hipSuccess || counts.submissions != 0)
    exec_.variant->launches.add(key_, stream_, next_launch());
  else
    exec_.variant->launches.add_failed(key_, next_launch());
  exec_.count_launch();
  const LockGuard guard(g_recordings_lock);
  exec_.recording->statistics.staged += counts;
  exec_.recording->statistics.ring_waits += wait_.waited() ? 1 : 0;
  return launched.reached == RingLaunch::Reached::kGraph ? RingOutcome::kReplayed : RingOutcome::kNotReplayed;
}

hipError_t StagedLaunch::leave_ring() {
  const RingExit::Left left = exit_.leave(exec_, key_, stream_);
  behind_ring_ = behind_ring_ || left.ordered;
  return left.result;
}

bool StagedLaunch::on_copies() const noexcept {
  const LockGuard guard(exec_.lock);
  return exec_.works_on == WorksOn::kCopies;
}

/// Returns false if the ring works on copies and no set came free in time.
bool StagedLaunch::wait_for_set() {
  if (wait_.again()) {
    if (!noted_) noted_.emplace("a free slot set", graph_);
    return true;
  }
  if (on_copies()) return false;
  const RingExit::Left left = exit_.stop_waiting(exec_, key_, stream_);
  behind_ring_ = behind_ring_ || left.ordered;
  waits_on_ = left.result == hipSuccess ? WaitsOn::kHost : WaitsOn::kDevice;
  return true;
}

}  // namespace graphpool
