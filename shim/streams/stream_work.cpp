#include "shim/streams/stream_work.h"

#include <algorithm>
#include <new>

#include "shim/hip/null_stream.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

constinit thread_local char t_thread_token __attribute__((tls_model("initial-exec"))) = 0;

namespace {

bool valid_device(int device) noexcept { return device >= 0 && device < kMaxDevices; }

bool is_per_thread(hipStream_t stream) noexcept { return stream == hipStreamPerThread; }

}  // namespace

void StreamWork::complete(const std::vector<WorkMark>& marks) noexcept {
  for (const WorkMark& mark : marks) {
    std::uint64_t known = mark.completed->load();
    while (known < mark.submitted && !mark.completed->compare_exchange_weak(known, mark.submitted)) {
    }
  }
}

void StreamWork::note_other(hipStream_t stream) noexcept {
  if (is_per_thread(stream)) {
    // In this order: whoever sees the count sees this owner or a later one.
    const void* before = per_thread_owner_.exchange(&t_thread_token);
    if (before != nullptr && before != &t_thread_token) per_thread_shared_.store(true);
    per_thread_.submitted.add();
    return;
  }
  // A stream made before we were active, or by a way we do not see.
  int device = -1;
  {
    PrivateCalls private_calls;
    if (!has(EntryId::hipStreamGetDevice) ||
        !PrivateCalls::worked([&] { return next().hipStreamGetDevice(stream, &device); }))
      device = current_device();
  }
  if (!valid_device(device)) {
    note_work_anywhere();
    return;
  }
  created(stream, device);
  if (StreamEntry* entry = find(stream)) {
    entry->work.submitted.add();
    if (!entry->listed.load()) list(entry);
  } else {
    note_work_anywhere();
  }
}

void StreamWork::list(StreamEntry* entry) noexcept {
  const LockGuard guard(g_streams_lock);
  try {
    list_locked(entry);
  } catch (const std::bad_alloc&) {
    note_work_anywhere();
  }
}

void StreamWork::list_locked(StreamEntry* entry) {
  if (entry->listed.load() || entry->stream.load() == nullptr) return;
  Device& device = device_of(entry->device.load());
  device.busy.push_back(entry);
  entry->listed.store(true);
  device.busy_count.store(device.busy.size());
}

/// Takes streams that are known idle out of the list of busy ones.
void StreamWork::tidy_busy(Device& device) noexcept {
  auto keep = device.busy.begin();
  for (StreamEntry* entry : device.busy) {
    if (entry->stream.load() != nullptr) {
      if (entry->work.busy()) {
        *keep++ = entry;
        continue;
      }
      // note_work counts first and looks at `listed` then. Where there is a barrier in between, one of the two sees the
      // other; where another thread adds without one, the stream stays listed.
      entry->listed.store(false);
      if (entry->work.busy() || !entry->work.submitted.only_caller_adds_plainly()) {
        entry->listed.store(true);
        *keep++ = entry;
      }
    }
  }
  device.busy.erase(keep, device.busy.end());
  device.busy_count.store(device.busy.size());
}

StreamWork::StreamEntry* StreamWork::enter_locked(hipStream_t stream, int device) noexcept {
  std::atomic<StreamEntry*>& head = buckets_[bucket(stream)];
  StreamEntry* unused = nullptr;
  for (StreamEntry* entry = head.load(); entry != nullptr; entry = entry->next.load()) {
    if (entry->stream.load() == stream) {
      if (entry->device.load() == device) return entry;
      entry->stream.store(nullptr);  // a new stream at the address of one destroyed past us
    }
    if (entry->stream.load() == nullptr && !entry->listed.load()) unused = entry;
  }
  if (unused == nullptr) {
    if (unused_left_ == 0) {
      unused_ = new (std::nothrow) StreamEntry[kEntriesAtOnce];
      if (unused_ == nullptr) return nullptr;
      unused_left_ = kEntriesAtOnce;
    }
    unused = &unused_[--unused_left_];
    unused->next.store(head.load());
    head.store(unused, std::memory_order_release);
  }
  unused->device.store(device);
  unused->serial.store(++last_serial_);
  unused->work.completed.store(unused->work.submitted.load());
  unused->stream.store(stream, std::memory_order_release);
  return unused;
}

void StreamWork::created(hipStream_t stream, int device) noexcept {
  if (!is_handle(stream) || !valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  (void)enter_locked(stream, device);
}

void StreamWork::before_destroy(hipStream_t stream) noexcept {
  if (!is_handle(stream)) return;
  PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Fencing fencing(*this);
  StreamEntry* entry = find(stream);
  if (entry == nullptr) return;
  Device& device = device_of(entry->device.load());
  if (entry->work.busy()) {
    SavedDevice current(entry->device.load());
    const bool joined = !captures_open() && current.ok() && prepare(device) && join(device, stream);
    (joined ? device.left : device.lost).submitted.add();
  }
  entry->stream.store(nullptr);
  tidy_busy(device);
  entry->listed.store(false);
}

hipError_t StreamWork::destroy_exec(hipGraphExec_t exec) noexcept {
  return destroy_exec(exec, has_defect(Defect::kExecsEndLate) ? calling_device() : -1);
}

hipError_t StreamWork::destroy_exec(hipGraphExec_t exec, int device) noexcept {
  const hipError_t result = next().hipGraphExecDestroy(no_longer_private(exec));
  if (result == hipSuccess && valid_device(device) && has_defect(Defect::kExecsEndLate))
    device_of(device).ending.submitted.add();
  return result;
}

StreamWork::Snapshot StreamWork::before_stream_sync(hipStream_t stream) {
  Snapshot marks;
  if (is_handle(stream)) {
    if (StreamEntry* entry = find(stream)) marks.push_back({&entry->work.completed, entry->work.submitted.load()});
    return marks;
  }
  const int device = current_device();
  if (!valid_device(device)) return marks;
  if (!is_per_thread(stream)) {
    marks.push_back(null_.mark(device));
  } else if (per_thread_owner_.load() == &t_thread_token && !per_thread_shared_.load()) {
    marks.push_back(per_thread_.mark(device));
  }
  return marks;
}

StreamWork::Snapshot StreamWork::before_device_sync(int device) {
  Snapshot marks;
  if (!valid_device(device)) return marks;
  const LockGuard guard(g_streams_lock);
  Device& state = device_of(device);
  for (StreamEntry* entry : state.busy) marks.push_back({&entry->work.completed, entry->work.submitted.load()});
  for (CommonCount* count : {&null_, &per_thread_, &anywhere_}) marks.push_back(count->mark(device));
  for (WorkCount* count : {&state.left, &state.lost, &state.ending})
    marks.push_back({&count->completed, count->submitted.load()});
  return marks;
}

void StreamWork::idle(const Snapshot& snapshot) noexcept { complete(snapshot); }

std::uint64_t StreamWork::submitted() const noexcept {
  std::uint64_t sum = null_.submitted.load() + per_thread_.submitted.load() + anywhere_.submitted.load();
  for (const auto& bucket : buckets_)
    for (const StreamEntry* entry = bucket.load(std::memory_order_acquire); entry != nullptr;
         entry = entry->next.load(std::memory_order_acquire))
      sum += entry->work.submitted.load();
  return sum;
}

bool StreamWork::is_idle(int device) noexcept {
  if (!valid_device(device)) return false;
  Device& state = device_of(device);
  if (null_.busy(device) || per_thread_.busy(device) || anywhere_.busy(device) || state.left.busy() ||
      state.lost.busy())
    return false;
  if (state.busy_count.load() == 0) return true;
  const LockGuard guard(g_streams_lock);
  tidy_busy(state);
  return std::none_of(state.busy.begin(), state.busy.end(),
                      [](const StreamEntry* entry) { return entry->work.busy(); });
}

/// Makes what fences need. The device is current.
bool StreamWork::prepare(Device& device) noexcept {
  if (device.waiter == nullptr && !PrivateCalls::worked([&] {
        return made_private(next().hipStreamCreateWithFlags(&device.waiter, hipStreamNonBlocking), &device.waiter);
      })) {
    device.waiter = nullptr;
    return false;
  }
  return make_scratch(device);
}

bool StreamWork::make_scratch(Device& device) noexcept {
  if (device.scratch == nullptr && !PrivateCalls::worked([&] {
        return made_private(next().hipEventCreateWithFlags(&device.scratch, hipEventDisableTiming), &device.scratch);
      }))
    device.scratch = nullptr;
  return device.scratch != nullptr;
}

/// Lets the waiter wait for what is on the stream. A wait takes the event as it is now, so it is free again at once.
bool StreamWork::join(Device& device, hipStream_t stream) noexcept {
  const hipEvent_t scratch = device.scratch;
  const hipStream_t waiter = device.waiter;
  return PrivateCalls::worked([&] { return next().hipEventRecord(scratch, recorded_on(stream)); }) &&
         PrivateCalls::worked([&] { return next().hipStreamWaitEvent(waiter, scratch, 0); });
}

bool StreamWork::make_after_null(Device& device) noexcept {
  if (device.after_null == nullptr && !PrivateCalls::worked([&] {
        return made_private(next().hipStreamCreateWithFlags(&device.after_null, hipStreamDefault), &device.after_null);
      }))
    device.after_null = nullptr;
  return device.after_null != nullptr;
}

bool StreamWork::join_null(Device& device) noexcept {
  return make_after_null(device) && join(device, device.after_null);
}

Fence* StreamWork::make_locked(int device, hipStream_t only, bool all) {
  Device& state = device_of(device);
  if (captures_open() || anywhere_.busy(device) || state.lost.busy()) return nullptr;

  // The counts are read before anything is recorded: what is enqueued later is not covered.
  std::vector<WorkMark> marks;
  std::vector<StreamEntry*> streams;
  bool own_busy = false, null_busy = false, left_busy = false;
  if (all) {
    tidy_busy(state);
    own_busy = per_thread_.busy(device);
    if (own_busy) marks.push_back(per_thread_.mark(device));
    null_busy = null_.busy(device);
    if (null_busy) marks.push_back(null_.mark(device));
    left_busy = state.left.busy();
    if (left_busy) marks.push_back({&state.left.completed, state.left.submitted.load()});
    for (StreamEntry* entry : state.busy) {
      if (!entry->work.busy()) continue;
      marks.push_back({&entry->work.completed, entry->work.submitted.load()});
      streams.push_back(entry);
    }
  } else if (is_per_thread(only)) {
    own_busy = true;
  } else if (!is_handle(only)) {
    null_busy = true;
  } else {
    StreamEntry* entry = find(only);
    if (entry == nullptr) return nullptr;
    marks.push_back({&entry->work.completed, entry->work.submitted.load()});
    streams.push_back(entry);
  }
  if (own_busy && all && (per_thread_shared_.load() || per_thread_owner_.load() != &t_thread_token)) return nullptr;

  if (state.latest != nullptr && all && state.latest->marks_ == marks) {
    state.latest->references_.fetch_add(1);
    return state.latest;
  }

  SavedDevice current(device);
  if (!current.ok() || !prepare(state)) return nullptr;
  hipEvent_t event = nullptr;
  if (!own_busy && !null_busy && !left_busy && streams.empty()) {
    event = nullptr;
  } else {
    for (StreamEntry* entry : streams)
      if (!join(state, entry->stream.load())) return nullptr;
    if (own_busy && !join(state, hipStreamPerThread)) return nullptr;
    if (null_busy && !join_null(state)) return nullptr;
    if (!state.events.empty()) {
      event = state.events.back();
      state.events.pop_back();
    } else if (!PrivateCalls::worked([&] {
                 return made_private(next().hipEventCreateWithFlags(&event, hipEventDisableTiming), &event);
               })) {
      return nullptr;
    }
    if (!PrivateCalls::worked([&, waiter = state.waiter] { return next().hipEventRecord(event, waiter); })) {
      state.events.push_back(event);
      return nullptr;
    }
  }
  auto* fence = new Fence;
  fence->device_ = device;
  fence->all_ = all;
  if (!all) fence->serial_ = !streams.empty() ? streams.front()->serial.load() : null_busy ? kNullSerial : kNoSerial;
  fence->event_ = event;
  fence->passed_.store(event == nullptr);
  fence->epoch_ = state.epoch.load();
  fence->marks_ = std::move(marks);
  fence->references_.store(1);
  if (all && event != nullptr) {
    if (state.latest != nullptr && drop_reference(state.latest)) recycle_locked(state.latest);
    state.latest = fence;
    fence->references_.fetch_add(1);
  }
  return fence;
}

Fence* StreamWork::make_fence(int device) noexcept {
  if (!valid_device(device)) return nullptr;
  PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Fencing fencing(*this);
  try {
    return make_locked(device, nullptr, true);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Fence* StreamWork::make_stream_fence(int device, hipStream_t stream) noexcept {
  if (!valid_device(device)) return nullptr;
  if (is_handle(stream) && find(stream) == nullptr) note_work(stream);
  PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Fencing fencing(*this);
  try {
    return make_locked(device, stream, false);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

int StreamWork::device_of_stream(hipStream_t stream) const noexcept {
  if (!is_handle(stream)) return current_device();
  const StreamEntry* const entry = find(stream);
  return entry == nullptr ? -1 : entry->device.load();
}

bool StreamWork::is_complete(int device, hipStream_t stream) noexcept {
  if (!valid_device(device) || is_per_thread(stream)) return false;
  const PrivateCalls private_calls;
  const SavedDevice current(device);
  // No capture begins meanwhile, so the event may be asked.
  const LockGuard guard(g_streams_lock);
  const Fencing fencing(*this);
  Device& state = device_of(device);
  if (captures_open() || anywhere_.busy(device) || !current.ok() || !make_scratch(state)) return false;
  if (!is_handle(stream)) {
    if (!make_after_null(state)) return false;
    stream = state.after_null;
  } else if (find(stream) == nullptr) {
    return false;  // another thread has destroyed it
  }
  const hipEvent_t scratch = state.scratch;
  return PrivateCalls::worked([&] { return next().hipEventRecord(scratch, stream); }) &&
         PrivateCalls::worked([&] { return next().hipEventQuery(scratch); });
}

void StreamWork::enter_null_stream() noexcept {
  const PrivateCalls private_calls;
  const int device = current_device();
  if (!valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  Device& state = device_of(device);
  if (!make_scratch(state) && !make_scratch(state)) return;
  static_cast<void>(
      PrivateCalls::answered([scratch = state.scratch] { return next().hipEventRecord(scratch, nullptr); }));
}

bool StreamWork::wait(Fence* fence) noexcept {
  if (!fence->passed_.load()) {
    if (fence->epoch_ != device_of(fence->device_).epoch.load()) return true;
    if (!PrivateCalls::worked([&] { return next().hipEventSynchronize(fence->event_); })) return false;
    fence->passed_.store(true);
  }
  complete(fence->marks_);
  return true;
}

bool StreamWork::passed(Fence* fence) noexcept {
  if (!fence->passed_.load()) {
    if (fence->epoch_ != device_of(fence->device_).epoch.load()) return true;
    const hipError_t pending = pending_error();
    const hipError_t error = next().hipEventQuery(fence->event_);
    // From HIP 7 on hipGetLastError does not keep hipErrorNotReady, and what the program has there stays.
    if (error == hipErrorNotReady && next().hipPeekAtLastError() != hipErrorNotReady) return false;
    if (error != hipSuccess) {
      clear_error(pending);
      return false;
    }
    fence->passed_.store(true);
    complete(fence->marks_);
  }
  return true;
}

bool StreamWork::same_stream(const Fence* fence, int device, hipStream_t stream) const noexcept {
  if (fence->all_ || fence->epoch_ != device_of(fence->device_).epoch.load()) return false;
  if (is_per_thread(stream)) return false;
  if (!is_handle(stream)) return fence->serial_ == kNullSerial && fence->device_ == device;
  const StreamEntry* entry = find(stream);
  return entry != nullptr && entry->serial.load() == fence->serial_;
}

void StreamWork::recycle(Fence* fence) noexcept {
  const LockGuard guard(g_streams_lock);
  recycle_locked(fence);
}

void StreamWork::recycle_locked(Fence* fence) noexcept {
  Device& state = device_of(fence->device_);
  if (fence->event_ != nullptr && fence->epoch_ == state.epoch.load()) {
    try {
      state.events.push_back(fence->event_);
    } catch (const std::bad_alloc&) {
      // One event is lost until the device is reset.
    }
  }
  delete fence;
}

void StreamWork::capture_begins() noexcept {
  if (!fencing_.load()) return;
  const LockGuard until_made(g_streams_lock);
}

void StreamWork::device_reset(int device) noexcept {
  if (!valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  Device& state = device_of(device);
  state.epoch.fetch_add(1);
  if (state.latest != nullptr && drop_reference(state.latest)) recycle_locked(state.latest);
  state.latest = nullptr;
  state.waiter = nullptr;
  state.after_null = nullptr;
  state.scratch = nullptr;
  state.events.clear();
  for (auto& head : buckets_) {
    for (StreamEntry* entry = head.load(); entry != nullptr; entry = entry->next.load()) {
      if (entry->stream.load() == nullptr || entry->device.load() != device) continue;
      entry->stream.store(nullptr);
      entry->listed.store(false);
    }
  }
  state.busy.clear();
  state.busy_count.store(0);
  for (CommonCount* count : {&null_, &per_thread_, &anywhere_}) complete({count->mark(device)});
  for (WorkCount* count : {&state.left, &state.lost, &state.ending})
    complete({{&count->completed, count->submitted.load()}});
}

}  // namespace graphpool
