#include "shim/graphs/staged_comparison.h"

#include <new>

#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

bool StagedComparison::prepare() {
  if (work_counts().is_idle(exec_.device)) Shadows::free_left();
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  device.set(exec_.device);
  return may_run_both_ways(recording_.operations, found_.binding, *found_.plan) &&
         shadows_.allocate(*found_.plan) == hipSuccess &&
         (real_path_ != nullptr ||
          verifier_.builder_.build(recording_, found_.binding, exec_.device, &real_path_) == hipSuccess);
}

hipError_t StagedComparison::launch() {
  if (!prepare()) {
    drop_before_launch(shadows_, real_path_);
    LaunchVerifier::say_not_compared(recording_, "cannot be run both ways; only its captures are compared");
    return selected_();
  }
  hipError_t copied = hipErrorUnknown;
  const hipError_t result = launch_real(&copied);
  if (result != hipSuccess) {
    verifier_.leave_for_later(recording_, shadows_, std::move(real_path_));
    return result;
  }
  real_path_->launches.add(stream_key(asked_.stream), stream_, next_launch());
  const bool complete = copied == hipSuccess ? compare() : wait_until_complete();
  if (!complete) {
    shadows_.leave();
    verifier_.keep_running(exec_, found_, std::move(real_path_));
  }
  return result;
}

/// Makes the program's launch, without staging. *copied: whether the shadows were made like the buffers before the
/// launch; no success where there is no ring any more.
hipError_t StagedComparison::launch_real(hipError_t* copied) {
  const LockGuard guard(exec_.lock);
  // The exec's launches are in order: the one without staging comes behind those before it, too.
  if (exec_.before != nullptr) static_cast<void>(exec_.before->order_before(stream_key(asked_.stream), stream_));
  if (SlotRing* const ring = exec_.variant->ring.get()) {
    bases_ = ring->bases();
    static_cast<void>(ring->order_behind_last(stream_key(asked_.stream), stream_));
    const LastErrorScope last_error;
    *copied = shadows_.copy_from(bases_, stream_);
  }
  return asked_.native(real_path_->exec);
}

bool StagedComparison::wait_until_complete() const {
  work_counts().note_work(stream_);
  return wait_for(fences().make_behind(exec_.device, stream_));
}

/// Lets the ring work on other buffers than the present ones. hipErrorNotReady: it works on neither, because the
/// program has given the exec another binding since its launch began to run. That stays.
hipError_t StagedComparison::bind_ring(const std::vector<char*>& present, const std::vector<char*>& buffers) {
  const LockGuard guard(exec_.lock);
  SlotRing* const ring = exec_.variant == nullptr ? nullptr : exec_.variant->ring.get();
  if (ring == nullptr || (ring->bases() != present && ring->bases() != buffers)) return hipErrorNotReady;
  RingCounts counts;
  return ring->work_on(buffers, &counts);
}

void StagedComparison::work_on(WorksOn memory) {
  const LockGuard guard(exec_.lock);
  exec_.works_on = memory;
}

/// Runs the graph on the shadows by its ring and compares. Returns whether all work was complete in time.
bool StagedComparison::compare() {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  hipError_t staged = bind_ring(bases_, shadows_.bases());
  if (staged == hipSuccess) {
    // Without staging the graph would work on the program's own buffers once more.
    work_on(WorksOn::kCopies);
    try {
      staged = selected_();
    } catch (const std::bad_alloc&) {
      staged = hipErrorOutOfMemory;  // the ring works on the program's buffers again, whatever happens
    }
    work_on(WorksOn::kProgramMemory);
  }
  const hipError_t bound = bind_ring(shadows_.bases(), bases_);
  const bool was_updated = bound == hipErrorNotReady;
  if (staged == hipSuccess) staged = bound;
  const bool was_launched = !was_updated && (staged != hipErrorNotReady || bound != hipSuccess);
  if (was_updated)
    LaunchVerifier::say_not_compared(recording_, "was updated while it ran; such launches are not compared");
  else if (!was_launched)
    LaunchVerifier::say_not_compared(recording_, "was not run both ways: no slot set came free in time");
  const bool complete = wait_until_complete();
  if (!was_launched) return complete;
  Shadows::Difference difference;
  if (staged == hipSuccess && complete) staged = shadows_.compare(bases_, stream_, &difference);
  if (staged == hipSuccess && !complete)
    LaunchVerifier::say_not_compared(recording_, "was not complete in time; such launches are not compared");
  else if (staged == hipSuccess && !difference.found)
    LaunchVerifier::found_same(recording_);
  else {
    LaunchVerifier::staging_differs(found_, difference, bases_);
    if (complete) LaunchVerifier::serve_by_real(exec_, found_, std::move(real_path_));
  }
  return complete;
}

}  // namespace graphpool
