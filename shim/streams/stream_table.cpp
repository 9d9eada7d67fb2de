#include "shim/streams/stream_table.h"

#include <new>

namespace graphpool {

StreamEntry* StreamTable::enter(hipStream_t stream, int device) noexcept {
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

}  // namespace graphpool
