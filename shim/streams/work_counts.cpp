#include "shim/streams/work_counts.h"

#include <algorithm>
#include <new>

#include "shim/hip/restore.h"
#include "shim/streams/calling_thread.h"

namespace graphpool {

constinit thread_local char t_thread_token __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local std::uintptr_t t_thread = 0;

std::uintptr_t name_thread() noexcept {
  static constinit std::atomic<std::uintptr_t> threads{0};
  return t_thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
}

void WorkCounts::note_other(hipStream_t stream) noexcept {
  if (stream == hipStreamPerThread) {
    // In this order: whoever sees the count sees this owner or a later one.
    const std::uintptr_t before = per_thread_owner_.exchange(calling_thread());
    if (before != 0 && before != calling_thread()) per_thread_shared_.store(true);
    per_thread_.submitted.add();
    return;
  }
  // The stream was made before we were active, or in a way that we do not see.
  int device = -1;
  {
    const PrivateCalls private_calls;
    if (!has(EntryId::hipStreamGetDevice) ||
        !PrivateCalls::worked([&] { return next().hipStreamGetDevice(stream, &device); }))
      device = current_device();
  }
  if (!valid_device(device)) {
    note_work_anywhere();
    return;
  }
  created(stream, device);
  if (StreamEntry* const entry = streams_.find(stream)) {
    entry->work.submitted.add();
    if (!entry->listed.load()) list(entry);
  } else {
    note_work_anywhere();
  }
}

void WorkCounts::list(StreamEntry* entry) noexcept {
  const LockGuard guard(g_streams_lock);
  if (entry->listed.load() || entry->stream.load() == nullptr) return;
  Device& device = device_of(entry->device.load());
  try {
    device.busy.push_back(entry);
  } catch (const std::bad_alloc&) {
    note_work_anywhere();
    return;
  }
  entry->listed.store(true);
  device.busy_count.store(device.busy.size());
}

/// Takes streams that are known idle out of the list of busy ones.
void WorkCounts::tidy_busy(Device& device) noexcept {
  auto keep = device.busy.begin();
  for (StreamEntry* const entry : device.busy) {
    if (entry->stream.load() == nullptr) continue;
    if (entry->work.busy()) {
      *keep++ = entry;
      continue;
    }
    // note_work counts first and looks at `listed` then. With a barrier in between, one of the two threads sees the
    // other's change. If another thread adds without one, the stream stays listed.
    entry->listed.store(false);
    if (entry->work.busy() || !entry->work.submitted.only_caller_adds_plainly()) {
      entry->listed.store(true);
      *keep++ = entry;
    }
  }
  device.busy.erase(keep, device.busy.end());
  device.busy_count.store(device.busy.size());
}

void WorkCounts::created(hipStream_t stream, int device) noexcept {
  if (!is_stream_handle(stream) || !valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  const StreamEntry* const known = streams_.find(stream);
  // A stream with this handle was destroyed past us: nobody can be asked for its work any more.
  if (known != nullptr && known->device.load() != device) destroyed(stream, false);
  (void)streams_.enter(stream, device);
}

void WorkCounts::destroyed(hipStream_t stream, bool fenced) noexcept {
  StreamEntry* const entry = is_stream_handle(stream) ? streams_.find(stream) : nullptr;
  if (entry == nullptr) return;
  Device& device = device_of(entry->device.load());
  if (entry->work.busy()) (fenced ? device.left : device.lost).submitted.add();
  entry->stream.store(nullptr);
  tidy_busy(device);
  entry->listed.store(false);
}

WorkCounts::Snapshot WorkCounts::before_stream_sync(hipStream_t stream) {
  Snapshot marks;
  if (is_stream_handle(stream)) {
    if (StreamEntry* const entry = streams_.find(stream)) marks.push_back(entry->work.mark());
    return marks;
  }
  const int device = current_device();
  if (!valid_device(device)) return marks;
  if (is_null_stream(stream)) {
    marks.push_back(null_.mark(device));
  } else if (per_thread_owner_.load() == calling_thread() && !per_thread_shared_.load()) {
    marks.push_back(per_thread_.mark(device));
  }
  return marks;
}

WorkCounts::Snapshot WorkCounts::before_device_sync(int device) {
  Snapshot marks;
  if (!valid_device(device)) return marks;
  const LockGuard guard(g_streams_lock);
  Device& state = device_of(device);
  for (StreamEntry* const entry : state.busy) marks.push_back(entry->work.mark());
  for (CommonCount* const count : {&null_, &per_thread_, &anywhere_}) marks.push_back(count->mark(device));
  for (WorkCount* const count : {&state.left, &state.lost, &state.ending}) marks.push_back(count->mark());
  return marks;
}

std::uint64_t WorkCounts::submitted() const noexcept {
  std::uint64_t sum = null_.submitted.load() + per_thread_.submitted.load() + anywhere_.submitted.load();
  streams_.for_each([&](const StreamEntry& entry) { sum += entry.work.submitted.load(); });
  return sum;
}

bool WorkCounts::is_idle(int device) noexcept {
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

int WorkCounts::device_of_stream(hipStream_t stream) const noexcept {
  if (!is_stream_handle(stream)) return current_device();
  const StreamEntry* const entry = streams_.find(stream);
  return entry == nullptr ? -1 : entry->device.load();
}

std::optional<WorkCounts::Outstanding> WorkCounts::outstanding(int device) {
  Device& state = device_of(device);
  Outstanding found;
  tidy_busy(state);
  found.own = per_thread_.busy(device);
  if (found.own && (per_thread_shared_.load() || per_thread_owner_.load() != calling_thread())) return std::nullopt;
  if (found.own) found.marks.push_back(per_thread_.mark(device));
  found.null_stream = null_.busy(device);
  if (found.null_stream) found.marks.push_back(null_.mark(device));
  found.left = state.left.busy();
  if (found.left) found.marks.push_back(state.left.mark());
  for (StreamEntry* const entry : state.busy) {
    if (!entry->work.busy()) continue;
    found.marks.push_back(entry->work.mark());
    found.streams.push_back(entry->stream.load());
  }
  return found;
}

std::optional<WorkCounts::Outstanding> WorkCounts::outstanding_on(hipStream_t stream) {
  Outstanding found;
  if (stream == hipStreamPerThread) {
    found.own = true;
    return found;
  }
  if (is_null_stream(stream)) {
    found.null_stream = true;
    found.serial = StreamTable::kNullSerial;
    return found;
  }
  StreamEntry* const entry = streams_.find(stream);
  if (entry == nullptr) return std::nullopt;
  found.marks.push_back(entry->work.mark());
  found.streams.push_back(stream);
  found.serial = entry->serial.load();
  return found;
}

std::uint64_t WorkCounts::serial_of(hipStream_t stream) const noexcept {
  const StreamEntry* const entry = streams_.find(stream);
  return entry == nullptr ? StreamTable::kNoSerial : entry->serial.load();
}

void WorkCounts::device_reset(int device) noexcept {
  Device& state = device_of(device);
  streams_.for_each([device](StreamEntry& entry) {
    if (entry.stream.load() == nullptr || entry.device.load() != device) return;
    entry.stream.store(nullptr);
    entry.listed.store(false);
  });
  state.busy.clear();
  state.busy_count.store(0);
  for (CommonCount* const count : {&null_, &per_thread_, &anywhere_}) complete({count->mark(device)});
  for (WorkCount* const count : {&state.left, &state.lost, &state.ending}) complete({count->mark()});
}

}  // namespace graphpool
