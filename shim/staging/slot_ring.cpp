#include "shim/staging/slot_ring.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/costs/cost_model.h"
#include "shim/hip/next.h"
#include "shim/hip/null_stream.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/edges.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

/// What nothing in the graph comes after, or `head` where the graph has no operation.
std::vector<hipGraphNode_t> ends_of(const std::vector<Operation>& operations, const std::vector<hipGraphNode_t>& nodes,
                                    const std::vector<hipGraphNode_t>& head) {
  std::vector<bool> followed(operations.size(), false);
  for (const auto& dependencies : dependencies_of(operations))
    for (const std::uint32_t index : dependencies) followed[index] = true;
  std::vector<hipGraphNode_t> ends;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] != nullptr && !followed[i]) ends.push_back(nodes[i]);
  return ends.empty() ? head : ends;
}

/// The rings there are.
struct Rings {
  RankedMutex<LockRank::kRings> lock;
  ForkWatcher forks GUARDED_BY(lock);
  std::vector<SlotRing*> all GUARDED_BY(lock);

  void count() noexcept REQUIRES(lock) {
    g_rings.store(all.size(), std::memory_order_release);
    forks.watch(!all.empty());
  }
  void add(SlotRing* ring) {
    const LockGuard guard(lock);
    all.push_back(ring);
    count();
  }
  void remove(SlotRing* ring) noexcept {
    const LockGuard guard(lock);
    std::erase(all, ring);
    count();
  }
};

Rings& rings() noexcept {
  static Rings* const instance = new Rings;
  return *instance;
}

struct Ends {
  void* dst;
  const void* src;
};

Ends ends_of_copy(const StagePlan::Copy& copy, bool in, const SlotSet& slots, const std::vector<char*>& bases) {
  char* const slot = static_cast<char*>(slots.address(copy.buffer)) + copy.offset;
  char* const program = bases[copy.buffer] + copy.offset;
  return in ? Ends{slot, program} : Ends{program, slot};
}

}  // namespace

SlotRing::SlotRing(const std::vector<Operation>& operations, const StagePlan& plan, Binding canonical,
                   std::uint32_t patch_budget, const std::atomic<bool>& may_be_at_home)
    : operations_(operations),
      plan_(plan),
      canonical_(std::move(canonical)),
      patch_budget_(patch_budget),
      may_be_at_home_(may_be_at_home),
      holds_memory_(std::any_of(operations.begin(), operations.end(),
                                [](const Operation& operation) { return may_hold_memory(operation.signature.kind); })),
      sets_(plan.sets()) {}

hipError_t SlotRing::make(const std::vector<Operation>& operations, const StagePlan& plan, Binding canonical,
                          std::vector<char*> bases, std::uint32_t patch_budget, const std::atomic<bool>& may_be_at_home,
                          std::unique_ptr<SlotRing>* ring) {
  std::unique_ptr<SlotRing> made(new SlotRing(operations, plan, std::move(canonical), patch_budget, may_be_at_home));
  for (Set& set : made->sets_) {
    const hipError_t result = made->make_set(bases, set);
    if (result != hipSuccess) return result;
  }
  made->bases_ = std::move(bases);
  made->whole_ = plan.whole(made->bases_);
  made->memory_freed_ = made->sets_.front().memory_freed;
  if (plan.open()) {
    // What copying takes decides whether there is a ring at all.
    const SavedDevice device;
    device.set(plan.device());
    made->copy_timer_ = CopyTimer::make(plan.copied_in_bytes());
  }
  rings().add(made.get());
  *ring = std::move(made);
  return hipSuccess;
}

SlotRing::~SlotRing() {
  rings().remove(this);
  const LastErrorScope last_error;
  for (Set& set : sets_) {
    destroy(set);
    destroy(set.plain);
  }
  destroy(home_);
}

void SlotRing::forget() noexcept {
  std::vector<Set> sets;  // their slots are given back without the lock
  std::unique_ptr<Timeline> timeline;
  const LockGuard guard(order_lock_);
  sets.swap(sets_);
  last_ = nullptr;
  at_home_ = false;
  timeline = std::move(home_.timeline);
  home_.fused = {};
  home_.done = nullptr;
  home_.last_on = 0;
  if (copy_timer_ != nullptr) copy_timer_->forget();
}

void SlotRing::destroy(Server& server) noexcept {
  destroy(server.fused);
  if (server.done != nullptr) static_cast<void>(next().hipEventDestroy(no_longer_private(server.done)));
}

void SlotRing::destroy(Exec& exec) noexcept {
  if (exec.exec != nullptr) static_cast<void>(stream_work().destroy_exec(exec.exec, calling_device()));
  if (exec.graph != nullptr) static_cast<void>(next().hipGraphDestroy(no_longer_private(exec.graph)));
  exec = {};
}

std::size_t SlotRing::slots() const noexcept { return sets_.size() * plan_.buffers(); }

std::size_t SlotRing::slot_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Set& set : sets_) bytes += set.slots->total_bytes();
  return bytes;
}

std::size_t SlotRing::execs() const noexcept {
  const auto made = [](const Exec& exec) { return std::size_t{exec.exec != nullptr}; };
  std::size_t execs = made(home_.fused);
  for (const Set& set : sets_) execs += made(set.fused) + made(set.plain);
  return execs;
}

// --- execs ---

hipError_t SlotRing::make_set(const std::vector<char*>& bases, Set& set) {
  hipError_t result = plan_.make_slots(&set.slots);
  if (result == hipSuccess) result = make_server(set);
  return result == hipSuccess ? build_fused(set, bases) : result;
}

hipError_t SlotRing::make_server(Server& server) const {
  const SavedDevice device;
  device.set(plan_.device());
  const hipError_t result =
      made_private(next().hipEventCreateWithFlags(&server.done, hipEventDisableTiming), &server.done);
  if (result != hipSuccess) {
    server.done = nullptr;
    return result;
  }
  if (counts_timeline()) server.timeline = Timeline::make(plan_.device());
  return result;
}

hipError_t SlotRing::instantiate(Exec& exec) const {
  const SavedDevice device;
  device.set(plan_.device());
  const hipError_t result = memory_room().retry_after_trim(plan_.device(), [&] {
    return made_private(next().hipGraphInstantiate(&exec.exec, exec.graph, nullptr, nullptr, 0), &exec.exec);
  });
  if (result != hipSuccess) exec.exec = nullptr;
  return result;
}

hipError_t SlotRing::build_fused(Set& set, const std::vector<char*>& bases) {
  Exec made;
  const std::uint64_t freed = memory_freed();
  std::vector<hipGraphNode_t> copies, nodes, tail;
  // One behind the other: a graph that is one list stays one, which runtimes launch faster.
  const auto add = [&](const std::vector<StagePlan::Copy>& all, bool in) {
    for (const StagePlan::Copy& copy : all) {
      const Ends ends = ends_of_copy(copy, in, *set.slots, bases);
      const std::size_t bytes = copy.bytes - (seeded_defect(Seeded::kCopyOutShort) && !in ? sizeof(int) : 0);
      hipGraphNode_t node = nullptr;
      const NodeCreation making;
      const hipError_t result = next().hipGraphAddMemcpyNode1D(&node, made.graph, tail.data(), tail.size(), ends.dst,
                                                               ends.src, bytes, hipMemcpyDeviceToDevice);
      if (result != hipSuccess) return result;
      copies.push_back(node);
      tail.assign(1, node);
    }
    return hipSuccess;
  };
  const SavedDevice device;
  device.set(plan_.device());
  hipError_t result = made_private(next().hipGraphCreate(&made.graph, 0), &made.graph);
  if (result != hipSuccess) return result;
  result = add(plan_.copies_in(), true);
  if (result == hipSuccess)
    result = add_all_to_graph(operations_, plan_.translated(canonical_, *set.slots), made.graph, tail, &nodes);
  if (result == hipSuccess) {
    tail = ends_of(operations_, nodes, tail);
    result = add(plan_.copies_out(), false);
  }
  const bool needs_event = !plan_.overlap() || set.timeline == nullptr;
  if (result == hipSuccess && needs_event) {
    hipGraphNode_t node = nullptr;
    const NodeCreation making;
    result = next().hipGraphAddEventRecordNode(&node, made.graph, tail.data(), tail.size(), set.done);
  }
  if (result == hipSuccess) result = instantiate(made);
  if (result != hipSuccess) {
    destroy(made);
    return result;
  }
  set.fused = made;
  set.copies = std::move(copies);
  set.bases = bases;
  set.memory_freed = freed;
  set.serves = true;
  set.done_in_graph = needs_event;
  set.patches = 0;
  return hipSuccess;
}

hipError_t SlotRing::build_plain(Set& set) {
  Exec made;
  std::vector<hipGraphNode_t> nodes;
  hipError_t result = build_graph(operations_, plan_.translated(canonical_, *set.slots), &made.graph, &nodes);
  if (result == hipSuccess) result = instantiate(made);
  if (result != hipSuccess)
    destroy(made);
  else
    set.plain = made;
  return result;
}

/// The graph over the program's buffers and the event behind it. Nothing is given up for it: without it launches copy.
bool SlotRing::build_home() {
  Exec made;
  const std::uint64_t freed = memory_freed();
  std::vector<hipGraphNode_t> nodes;
  const SavedDevice device;
  device.set(plan_.device());
  if (home_.done == nullptr && make_server(home_) != hipSuccess) return false;
  hipError_t result = build_graph(operations_, plan_.translated(canonical_, bases_), &made.graph, &nodes);
  if (result == hipSuccess) {
    const std::vector<hipGraphNode_t> ends = ends_of(operations_, nodes, {});
    hipGraphNode_t node = nullptr;
    const NodeCreation making;
    result = next().hipGraphAddEventRecordNode(&node, made.graph, ends.data(), ends.size(), home_.done);
  }
  if (result == hipSuccess)
    result = made_private(next().hipGraphInstantiate(&made.exec, made.graph, nullptr, nullptr, 0), &made.exec);
  if (result != hipSuccess) {
    made.exec = nullptr;
    destroy(made);
    return false;
  }
  home_.fused = made;
  home_.done_in_graph = true;
  home_.bases = bases_;
  home_.memory_freed = freed;
  return true;
}

hipError_t SlotRing::patch(Set& set, const std::vector<char*>& bases, RingCounts* counts) {
  const SavedDevice device;
  device.set(plan_.device());
  const std::uint64_t freed = memory_freed();
  auto node = set.copies.begin();
  for (const bool in : {true, false})
    for (const StagePlan::Copy& copy : in ? plan_.copies_in() : plan_.copies_out()) {
      const hipGraphNode_t at = *node++;
      if (bases[copy.buffer] == set.bases[copy.buffer] && set.memory_freed == freed) continue;
      const Ends ends = ends_of_copy(copy, in, *set.slots, bases);
      const hipError_t result = next().hipGraphExecMemcpyNodeSetParams1D(set.fused.exec, at, ends.dst, ends.src,
                                                                         copy.bytes, hipMemcpyDeviceToDevice);
      if (result != hipSuccess) return result;
      ++set.patches;
      ++counts->patched;
    }
  set.bases = bases;
  set.memory_freed = freed;
  return hipSuccess;
}

/// Whether the fused exec works on these buffers as they are since so much memory was freed. What other threads
/// have freed meanwhile is not these.
bool SlotRing::has(const Server& server, const std::vector<char*>& bases, std::uint64_t freed) noexcept {
  return server.fused.exec != nullptr && server.bases == bases && server.memory_freed >= freed;
}

/// Whether it does, or may be given them now.
bool SlotRing::follows(const Set& set, const std::vector<char*>& bases, std::uint64_t freed) const {
  return has(set, bases, freed) ||
         (set.fused.exec != nullptr && patch_is_exact(NodeClass::kDeviceCopy, runtime_version()) && complete(set));
}

hipError_t SlotRing::follow(Set& set, const std::vector<char*>& bases, RingCounts* counts) {
  const bool worn = set.patches + set.copies.size() > patch_budget_;
  hipError_t result = worn ? hipErrorUnknown : patch(set, bases, counts);
  if (result == hipSuccess) return result;
  destroy(set.fused);  // half patched, or to be replaced
  if (worn) result = build_fused(set, bases);
  return result == hipSuccess || set.plain.exec != nullptr ? hipSuccess : build_plain(set);
}

hipError_t SlotRing::bind(std::vector<char*> bases, RingCounts* counts) {
  if (seeded_defect(Seeded::kBuffersNotFollowed)) return hipSuccess;
  const LastErrorScope last_error;
  const std::uint64_t freed = memory_freed();
  const bool stayed = bases == bases_;
  const hipError_t result = serve(std::move(bases), freed, counts);
  if (result == hipSuccess) settle(stayed, freed);
  if (copy_timer_ != nullptr && copy_timer_->collect()) copy_timer_.reset();
  return result;
}

hipError_t SlotRing::work_on(std::vector<char*> bases, RingCounts* counts) {
  const LastErrorScope last_error;
  const std::uint64_t freed = memory_freed();
  const hipError_t result = serve(std::move(bases), freed, counts);
  at_home_ = home_serves(freed);
  return result;
}

/// Every set serves these buffers from now on.
hipError_t SlotRing::serve(std::vector<char*> bases, std::uint64_t freed, RingCounts* counts) {
  if (bases == bases_ && memory_freed_ == freed) return hipSuccess;
  std::vector<bool> patched;
  for (Set& set : sets_) {
    patched.push_back(follows(set, bases, freed));
    if (patched.back() || set.plain.exec != nullptr) continue;
    const hipError_t result = build_plain(set);
    if (result != hipSuccess) return result;
  }
  hipError_t result = hipSuccess;
  for (std::size_t i = 0; i < sets_.size() && result == hipSuccess; ++i)
    if (patched[i] && !has(sets_[i], bases, freed)) result = follow(sets_[i], bases, counts);
  if (result == hipSuccess) {
    bases_ = std::move(bases);
    whole_ = plan_.whole(bases_);
    memory_freed_ = freed;
  }
  for (Set& set : sets_) set.serves = has(set, bases_, freed);
  return result;
}

/// Whether launches of this binding need no copies. Memory that was freed matters where nodes hold on to it.
bool SlotRing::home_serves(std::uint64_t freed) const noexcept {
  if (seeded_defect(Seeded::kHomeNotFollowed) && home_.fused.exec != nullptr) return true;
  return has(home_, bases_, holds_memory_ ? freed : 0);
}

/// The program has bound these buffers: home is made, used or given up.
void SlotRing::settle(bool stayed, std::uint64_t freed) {
  if (plan_.overlap() || !may_be_at_home_.load(std::memory_order_relaxed)) return;
  stayed_ = stayed ? stayed_ + 1 : 1;
  at_home_ = home_serves(freed);
  if (at_home_) return;
  if (home_.fused.exec != nullptr) {
    stayed_ = 1;
    if (!complete(home_)) return;  // it goes with a later binding
    destroy(home_.fused);
    wanted_stays_ = std::min(2 * wanted_stays_, kMostBindingsAtHome);
  }
  if (stayed_ < wanted_stays_) return;
  stayed_ = 0;  // where it cannot be made now it is not tried at each binding
  at_home_ = build_home();
}

// --- launches ---

/// Whether the last launch is known to be complete. Never waits.
bool SlotRing::complete(const Server& server) const {
  const LockGuard guard(order_lock_);
  return complete_locked(server);
}

bool SlotRing::complete_locked(const Server& server) const {
  if (server.last_on == 0) return true;
  if (server.timeline != nullptr) return server.timeline->reached();
  if (launch_waited_for(*server.state, plan_.device(), server.number)) return true;
  if (server.passed != nullptr) return server.passed->complete();
  if (!server.recorded) return false;
  // Asking for an event whose stream is capturing would invalidate the capture.
  const CaptureGate gate;
  if (captures_open()) return false;
  const LastErrorScope last_error;
  return next().hipEventQuery(server.done) == hipSuccess;
}

/// An event behind the last launch, where it has none, or that failed: behind what its stream has now is behind it too.
/// But a stream of a thread's own is another one here, and one that is gone has no name any more.
bool SlotRing::record(Server& server) noexcept {
  if (server.recorded) return true;
  const LastErrorScope last_error;
  const CaptureGate gate;
  return server.last_stream != hipStreamPerThread && stream_lives(*server.state) &&
         !may_be_capturing(server.last_stream) &&
         next().hipEventRecord(server.done, recorded_on(server.last_stream)) == hipSuccess;
}

/// To be done before the stream of the last launch is captured. Where it cannot be, a launch has to wait until it is
/// not captured any more.
void SlotRing::pass_on(Server& server) noexcept {
  if (server.passed != nullptr || complete_locked(server) || !record(server)) return;
  try {
    server.passed = PassedEvent::make(server.done, plan_.device());
  } catch (const std::bad_alloc&) {
  }
}

/// The same before the stream of the last launch goes: `done` is not asked any more until it is recorded again. Where
/// it cannot be passed on, only who waits for the device can tell.
void SlotRing::leave_stream(Server& server) noexcept {
  const SavedDevice current(plan_.device());
  if (complete_locked(server)) {
    server.last_on = 0;
    return;
  }
  if (current.ok() && !may_be_capturing(server.last_stream)) pass_on(server);
  server.recorded = false;
}

void SlotRing::before_destroy(StreamKey first, StreamKey count) noexcept {
  const auto on_it = [&](const Server& server) {
    return server.last_on - first < count && stream_lives(*server.state);
  };
  const LockGuard guard(order_lock_);
  for (Set& set : sets_)
    if (on_it(set)) leave_stream(set);
  if (on_it(home_)) leave_stream(home_);
}

void rings_before_destroy(StreamKey first, StreamKey count) noexcept {
  if (g_rings.load(std::memory_order_acquire) == 0) return;
  Rings& all = rings();
  const LockGuard guard(all.lock);
  for (SlotRing* const ring : all.all) ring->before_destroy(first, count);
}

void SlotRing::before_capture(StreamKey stream) noexcept {
  const LockGuard guard(order_lock_);
  for (Set& set : sets_)
    if (set.last_on == stream && stream_lives(*set.state)) pass_on(set);
  if (home_.last_on == stream && stream_lives(*home_.state)) pass_on(home_);
}

void all_rings_before_capture(StreamKey stream) noexcept {
  Rings& all = rings();
  const LockGuard guard(all.lock);
  for (SlotRing* const ring : all.all) ring->before_capture(stream);
}

/// Orders the stream behind the last launch of a set, or at home.
hipError_t SlotRing::order(Server* before, StreamKey key, hipStream_t stream, bool on_device, RingCounts* counts,
                           bool* busy) {
  if (before == nullptr) return hipSuccess;
  const LockGuard guard(order_lock_);
  return order_locked(*before, key, stream, on_device, counts, busy);
}

hipError_t SlotRing::order_locked(Server& before, StreamKey key, hipStream_t stream, bool on_device, RingCounts* counts,
                                  bool* busy) {
  if (before.last_on == 0) return hipSuccess;
  if (before.last_on == key && stream_lives(*before.state)) return hipSuccess;
  if (complete_locked(before)) return hipSuccess;
  if (plan_.overlap() && !on_device) {
    *busy = true;
    // While a capture is open, an event that it might be of is not asked.
    if (before.timeline == nullptr && captures_open() && !may_be_capturing(before.last_stream)) pass_on(before);
    return hipSuccess;
  }
  hipEvent_t event = nullptr;
  if (before.passed != nullptr) {
    event = before.passed->get();
    if (event == nullptr) return hipSuccess;
  } else if (record(before)) {
    event = before.done;
  } else {
    *busy = !on_device;  // only time can tell
    return hipSuccess;
  }
  const hipError_t pending = pending_error();
  const hipError_t result = next().hipStreamWaitEvent(stream, event, 0);
  if (result == hipErrorStreamCaptureIsolation) {
    // The event's stream is capturing now: HIP lets nobody wait for it, whenever it was recorded.
    clear_error(pending);
    *busy = !on_device;
    return hipSuccess;
  }
  ++counts->submissions;
  return result;
}

hipError_t SlotRing::copy(const Set& set, const std::vector<StagePlan::Copy>& copies, bool in, hipStream_t stream,
                          RingCounts* counts) const {
  const CostTimer timer;
  for (const StagePlan::Copy& each : copies) {
    const Ends ends = ends_of_copy(each, in, *set.slots, bases_);
    const hipError_t result = next().hipMemcpyAsync(ends.dst, ends.src, each.bytes, hipMemcpyDeviceToDevice, stream);
    if (result != hipSuccess) return result;
    counts->bytes += each.bytes;
    ++counts->submissions;
  }
  timer.stop(Cost::kCopy, copies.size());
  return hipSuccess;
}

/// Measured where that is wanted.
hipError_t SlotRing::copy_in(const Set& set, hipStream_t stream, RingCounts* counts) {
  const bool measured = copy_timer_ != nullptr && copy_timer_->begin(stream);
  const hipError_t result = copy(set, plan_.copies_in(), true, stream, counts);
  if (measured) copy_timer_->end(stream);
  return result;
}

hipError_t SlotRing::launch(StreamKey key, hipStream_t stream, NativeLaunch native, bool on_device, RingCounts* counts,
                            bool* busy, bool* replayed) {
  if (sets_.empty()) return hipErrorInvalidValue;  // they went with their device
  Set& set = sets_[next_];
  hipError_t result = order(plan_.overlap() ? &set : last_, key, stream, on_device, counts, busy);
  if (result != hipSuccess || *busy) return result;
  if (at_home()) {
    result = launch_fused(home_, key, stream, native, counts, replayed);
    if (result == hipSuccess) ++counts->without_copies;
    return result;
  }
  if (set.serves) {
    if (copy_timer_ != nullptr && copy_timer_->unused()) {
      // The exec makes the same copies again.
      const LastErrorScope last_error;
      static_cast<void>(copy_in(set, stream, counts));
    }
    result = launch_fused(set, key, stream, native, counts, replayed);
    if (result != hipSuccess) return result;
    counts->bytes += plan_.copied_bytes();
  } else {
    if (set.plain.exec == nullptr) return hipErrorOutOfMemory;  // bind() has said so
    result = copy_in(set, stream, counts);
    if (result == hipSuccess) result = native(set.plain.exec);
    if (result == hipSuccess) {
      *replayed = true;
      ++counts->submissions;
      result = copy(set, plan_.copies_out(), false, stream, counts);
    }
    launched(set, key, stream, false, counts);  // failed in the middle too: the set was touched
  }
  next_ = (next_ + 1) % sets_.size();
  return result;
}

hipError_t SlotRing::launch_fused(Server& server, StreamKey key, hipStream_t stream, NativeLaunch native,
                                  RingCounts* counts, bool* replayed) {
  const hipError_t result = native(server.fused.exec);
  if (result != hipSuccess) return result;
  *replayed = true;
  ++counts->submissions;
  launched(server, key, stream, true, counts);
  return result;
}

bool SlotRing::order_behind_last(StreamKey key, hipStream_t stream) {
  RingCounts counts;
  bool busy = false;
  return order(last_, key, stream, plan_.overlap(), &counts, &busy) == hipSuccess && !busy;
}

/// What a launch leaves behind for those that follow.
void SlotRing::launched(Server& server, StreamKey key, hipStream_t stream, bool fused, RingCounts* counts) {
  ++counts->launches;
  std::shared_ptr<PassedEvent> former;
  const LockGuard guard(order_lock_);
  former = std::move(server.passed);
  if (server.timeline != nullptr) {
    if (server.timeline->advance(stream))
      ++counts->submissions;
    else
      server.timeline.reset();  // this runtime does not write values: events only
  }
  server.recorded = fused && server.done_in_graph;
  if (!server.recorded && (!plan_.overlap() || server.timeline == nullptr)) {
    const LastErrorScope last_error;
    server.recorded = next().hipEventRecord(server.done, recorded_on(stream)) == hipSuccess;
    ++counts->submissions;
  }
  if (server.last_on != key || !stream_lives(*server.state)) server.state = stream_state(key);
  server.last_on = key;
  server.last_stream = stream;
  if (stream == hipStreamPerThread) static_cast<void>(watch_own_streams());
  server.number = next_launch();  // all of it is enqueued: who has waited before has not waited for it
  last_ = &server;
}

}  // namespace graphpool
