#include "shim/staging/slot_ring.h"

#include <algorithm>
#include <new>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/staging/rings.h"

namespace graphpool {
namespace {

/// Makes the call. Returns hipErrorOutOfMemory where host memory runs out in it.
template <typename Call>
hipError_t or_no_memory(const Call& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return hipErrorOutOfMemory;
  }
}

}  // namespace

SlotRing::SlotRing(RingGraph graph, std::uint32_t patch_budget, const std::atomic<bool>& may_be_direct)
    : graph_(std::move(graph)),
      patch_budget_(patch_budget),
      may_be_direct_(may_be_direct),
      sets_(graph_.plan.sets()),
      direct_(graph_) {}

hipError_t SlotRing::make(RingGraph graph, std::vector<char*> bases, std::uint32_t patch_budget,
                          const std::atomic<bool>& may_be_direct, std::unique_ptr<SlotRing>* ring) {
  const StagePlan& plan = graph.plan;
  std::unique_ptr<SlotRing> made(new SlotRing(std::move(graph), patch_budget, may_be_direct));
  const std::uint64_t freed = memory_freed();
  for (RingSet& set : made->sets_) {
    const hipError_t result = set.make(made->graph_, bases);
    if (result != hipSuccess) return result;
  }
  made->bases_ = std::move(bases);
  made->whole_ = plan.whole(made->bases_);
  made->memory_freed_ = freed;
  if (plan.open()) {
    // How long copies take decides whether the graph stays staged.
    const SavedDevice device;
    device.set(plan.device());
    made->copy_timer_ = CopyTimer::make(plan.copied_in_bytes());
  }
  add_ring(made.get());
  *ring = std::move(made);
  return hipSuccess;
}

SlotRing::~SlotRing() {
  remove_ring(this);
  const LastErrorScope last_error;
  for (RingSet& set : sets_) {
    set.fused.destroy();
    set.plain.destroy();
  }
  direct_.destroy();
}

void SlotRing::forget() noexcept {
  remove_ring(this);  // no other thread looks at the launches while they go
  for (RingSet& set : sets_) {
    set.fused.forget();
    set.plain.forget();
    set.last.forget();
  }
  sets_.clear();
  last_ = nullptr;
  direct_.forget();
  if (copy_timer_ != nullptr) copy_timer_->forget();
}

std::size_t SlotRing::slots() const noexcept { return sets_.size() * graph_.plan.buffers(); }

std::size_t SlotRing::slot_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const RingSet& set : sets_) bytes += set.slots->total_bytes();
  return bytes;
}

std::size_t SlotRing::execs() const noexcept {
  std::size_t execs = direct_ ? 1 : 0;
  for (const RingSet& set : sets_) execs += (set.fused ? 1 : 0) + (set.plain ? 1 : 0);
  return execs;
}

void SlotRing::before_capture(StreamKey stream) noexcept {
  for (RingSet& set : sets_) set.last.before_capture(stream);
  direct_.last().before_capture(stream);
}

void SlotRing::before_destroy(StreamKey first, StreamKey count) noexcept {
  for (RingSet& set : sets_) set.last.before_destroy(first, count);
  direct_.last().before_destroy(first, count);
}

// --- buffers ---

hipError_t SlotRing::bind(std::vector<char*> bases, RingCounts* counts) {
  if (seeded_defect(Seeded::kBuffersNotFollowed)) return hipSuccess;
  const LastErrorScope last_error;
  const std::uint64_t freed = memory_freed();
  const bool stayed = bases == bases_;
  const hipError_t result = or_no_memory([&] { return serve(std::move(bases), freed, counts); });
  const bool may_be_direct = !graph_.plan.overlap() && may_be_direct_.load(std::memory_order_relaxed);
  if (result == hipSuccess && may_be_direct)
    static_cast<void>(or_no_memory([&] {
      direct_.settle(graph_, bases_, stayed, freed);
      return hipSuccess;
    }));
  if (copy_timer_ != nullptr && copy_timer_->collect()) copy_timer_.reset();
  return result;
}

hipError_t SlotRing::work_on(std::vector<char*> bases, RingCounts* counts) {
  const LastErrorScope last_error;
  const std::uint64_t freed = memory_freed();
  const hipError_t result = or_no_memory([&] { return serve(std::move(bases), freed, counts); });
  direct_.look_again(bases_, freed);
  return result;
}

/// Makes every set serve these buffers. If it throws, a set that has followed, or lost its exec, does not serve.
hipError_t SlotRing::serve(std::vector<char*> bases, std::uint64_t freed, RingCounts* counts) {
  const bool all_serve =
      std::all_of(sets_.begin(), sets_.end(), [](const RingSet& set) { return set.serves || set.plain; });
  if (bases == bases_ && memory_freed_ == freed && all_serve) return hipSuccess;
  std::vector<bool> can;
  for (RingSet& set : sets_) {
    can.push_back(set.can_follow(bases, freed));
    if (can.back() || set.plain) continue;
    const hipError_t result = set.build_plain(graph_);
    if (result != hipSuccess) return result;
  }
  auto whole = graph_.plan.whole(bases);
  hipError_t result = hipSuccess;
  for (std::size_t i = 0; i < sets_.size() && result == hipSuccess; ++i) {
    if (!can[i] || sets_[i].fused.current_for(bases, freed)) continue;
    sets_[i].serves = false;
    result = sets_[i].follow(graph_, bases, patch_budget_, counts);
  }
  if (result == hipSuccess) {
    bases_ = std::move(bases);
    whole_ = std::move(whole);
    memory_freed_ = freed;
  }
  for (RingSet& set : sets_) set.serves = set.fused.current_for(bases_, memory_freed_);
  return result;
}

// --- launches ---

/// Enqueues the copies in, and measures them if the timer still wants that.
hipError_t SlotRing::copy_in(const RingSet& set, hipStream_t stream, RingCounts* counts) {
  const bool measured = copy_timer_ != nullptr && copy_timer_->begin(stream);
  const hipError_t result = set.copy(graph_.plan.copies_in(), true, bases_, stream, counts);
  if (measured && result == hipSuccess) copy_timer_->end(stream);
  return result;
}

RingLaunch SlotRing::launch(StreamKey key, hipStream_t stream, NativeLaunch native, LastLaunch::IfRunning if_running,
                            RingCounts* counts) {
  if (sets_.empty()) return {.result = hipErrorInvalidValue};  // the sets went with their device
  RingSet& set = sets_[next_];
  if (LastLaunch* const before = graph_.plan.overlap() ? &set.last : last_; before != nullptr) {
    const LastLaunch::Turn turn = before->order(key, stream, if_running);
    counts->submissions += turn.waits ? 1 : 0;
    if (turn.busy) return {.reached = RingLaunch::Reached::kBusy};
    if (turn.result != hipSuccess) return {.result = turn.result};
  }
  if (direct()) {
    const RingLaunch done = launch_whole(direct_.exec(), native, counts);
    if (done.result != hipSuccess) return done;
    launched(direct_.last(), key, stream, true, counts);
    ++counts->without_copies;
    return done;
  }
  if (!set.serves && !set.plain) return {.result = hipErrorOutOfMemory};  // bind() or work_on() has said so
  const RingLaunch done =
      set.serves ? launch_fused(set, key, stream, native, counts) : launch_plain(set, key, stream, native, counts);
  if (set.serves && done.result != hipSuccess) return done;
  next_ = (next_ + 1) % sets_.size();
  return done;
}

/// Launches an exec by `native`.
RingLaunch SlotRing::launch_whole(hipGraphExec_t exec, NativeLaunch native, RingCounts* counts) {
  const hipError_t result = native(exec);
  if (result != hipSuccess) return {.result = result};
  ++counts->submissions;
  return {.reached = RingLaunch::Reached::kGraph};
}

RingLaunch SlotRing::launch_fused(RingSet& set, StreamKey key, hipStream_t stream, NativeLaunch native,
                                  RingCounts* counts) {
  const std::uint64_t before = counts->submissions;
  if (copy_timer_ != nullptr && copy_timer_->unused()) {
    // These copies are for the timer only: the exec makes them again.
    const LastErrorScope last_error;
    static_cast<void>(copy_in(set, stream, counts));
  }
  const bool copied = counts->submissions != before;
  const RingLaunch done = launch_whole(set.fused.exec(), native, counts);
  if (done.result != hipSuccess) {
    if (copied) launched(set.last, key, stream, false, counts);  // whoever has the slots next comes behind the copies
    return done;
  }
  launched(set.last, key, stream, set.fused.records_event(), counts);
  counts->bytes += graph_.plan.copied_bytes();
  return done;
}

/// Launches the operations alone, with the copies around them. Even after a failure the set counts as used.
RingLaunch SlotRing::launch_plain(RingSet& set, StreamKey key, hipStream_t stream, NativeLaunch native,
                                  RingCounts* counts) {
  RingLaunch done{.result = copy_in(set, stream, counts)};
  if (done.result == hipSuccess) done = launch_whole(set.plain.exec(), native, counts);
  if (done.reached == RingLaunch::Reached::kGraph)
    done.result = set.copy(graph_.plan.copies_out(), false, bases_, stream, counts);
  launched(set.last, key, stream, false, counts);
  return done;
}

bool SlotRing::order_behind_last(StreamKey key, hipStream_t stream) {
  if (last_ == nullptr) return true;
  const auto if_running = graph_.plan.overlap() ? LastLaunch::IfRunning::kOnDevice : LastLaunch::IfRunning::kAsPlanned;
  const LastLaunch::Turn turn = last_->order(key, stream, if_running);
  return turn.result == hipSuccess && !turn.busy;
}

/// Notes what a launch leaves behind for those that follow. `recorded`: its exec records the event.
void SlotRing::launched(LastLaunch& last, StreamKey key, hipStream_t stream, bool recorded, RingCounts* counts) {
  ++counts->launches;
  counts->submissions += last.launched(key, stream, recorded);
  last_ = &last;
}

}  // namespace graphpool
