// capture_streams.h: keeps the streams and events of one capture, and what each stream's next operation comes behind.
//
// Operations are named by their index in the capture: a shell has no nodes. A stream's position here is its number in
// signatures. An event stands for the operations that its stream had come behind when it was recorded.
// Threads: one at a time (the capture's lock). Errors: std::bad_alloc.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shim/costs/keyed_row.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Indices of operations, in the runtime's order.
using OperationTail = std::vector<std::uint32_t>;

/// Adds the indices of `more` that `tail` lacks, behind its own.
void merge_tail(OperationTail& tail, const OperationTail& more);

/// Knows handles that were noted in a capture. add() and clear() need the capture's lock, may_have() does not: another
/// thread that takes that lock makes its owner wait (base/owner_lock.h).
class NotedHandles {
 public:
  void add(const void* handle) noexcept {
    std::atomic<std::uint64_t>& word = bits_[place_of(handle) / 64];
    word.store(word.load(std::memory_order_relaxed) | bit_of(handle), std::memory_order_release);
  }
  void clear() noexcept {
    for (std::atomic<std::uint64_t>& word : bits_) word.store(0, std::memory_order_relaxed);
  }
  /// Returns false only for handles that were not noted since the last clear().
  bool may_have(const void* handle) const noexcept {
    return (bits_[place_of(handle) / 64].load(std::memory_order_acquire) & bit_of(handle)) != 0;
  }

 private:
  static constexpr int kLogBits = 9;
  static std::uint64_t place_of(const void* handle) noexcept {
    return (reinterpret_cast<std::uintptr_t>(handle) >> 4) * 0x9E3779B97F4A7C15u >> (64 - kLogBits);
  }
  static std::uint64_t bit_of(const void* handle) noexcept { return std::uint64_t{1} << place_of(handle) % 64; }
  std::array<std::atomic<std::uint64_t>, (std::size_t{1} << kLogBits) / 64> bits_{};
};

struct CapturedStream {
  StreamKey key;
  hipStream_t handle;
  int device;
  OperationTail tail;
  bool left = false;                          ///< the runtime captures it no more, or in another capture
  bool issued_elsewhere = false;              ///< what was withheld of it reached the runtime by another stream
  bool fork_recorded = false;                 ///< fork_events() has recorded its event of the stream in this capture
  bool destroyed = false;                     ///< by the program; another stream may take its place
  StreamKey joined_from = 0;                  ///< the stream of the event that made it take part; 0: the origin
  hipEvent_t join_put_off = nullptr;          ///< the event of a join that the runtime is not told yet
  std::vector<hipGraphNode_t> named_nodes{};  ///< the handles that the program was given for `tail`

  /// Whether the calling thread can name it to the runtime.
  bool nameable() const noexcept { return !is_other_threads_own(key); }
  /// Whether the runtime still captures what the stream is given: each stream has a status of its own (probe
  /// capture_can_be_asked_for). Of a thread's own stream only that thread can ask.
  bool takes_part() const noexcept;
  /// Lets the stream's next operation come behind this one alone.
  void follow(std::uint32_t operation) {
    if (tail.size() == 1)
      tail.front() = operation;
    else
      tail.assign(1, operation);
  }
};

struct CapturedEvent {
  hipEvent_t handle;
  StreamKey stream;  ///< on which it was recorded
  OperationTail tail;
  bool recorded_in_shell;  ///< the runtime knows it without the nodes of `tail`
};

class CaptureStreams {
 public:
  /// How many streams have a number in signatures, which have 16 bits for it.
  static constexpr std::size_t kMost = 0xffff;

  CapturedStream* find(StreamKey key) noexcept { return streams_.find(key); }
  /// The stream on which the capture began.
  CapturedStream& origin() noexcept { return streams_.front(); }
  const CapturedStream& origin() const noexcept { return streams_.front(); }
  /// Whether nothing but the origin has taken part, and no event was recorded.
  bool only_origin() const noexcept { return streams_.size() == 1 && events_.size() == 0 && elsewhere_.empty(); }
  bool is_origin(StreamKey key) const noexcept { return streams_.front().key == key; }
  /// Adds a stream, in the place of a destroyed one of its device if there is one: a program may make and destroy many.
  CapturedStream& add(CapturedStream stream);
  /// The stream's number in signatures.
  std::size_t number(const CapturedStream& stream) noexcept {
    return static_cast<std::size_t>(&stream - streams_.data());
  }
  /// Forgets the stream, which is none of the capture any more, and what was recorded on it, as the runtime does.
  void forget(StreamKey key) noexcept;
  /// Whether others take part by an event that was recorded on this stream: when its part ends, the runtime ends
  /// theirs.
  bool joined_others(StreamKey key) noexcept;
  std::size_t size() const noexcept { return streams_.size(); }
  CapturedStream* data() noexcept { return streams_.data(); }
  CapturedStream& operator[](std::size_t number) noexcept { return streams_[number]; }
  auto begin() noexcept { return streams_.begin(); }
  auto end() noexcept { return streams_.end(); }

  CapturedEvent* find_event(hipEvent_t event) noexcept { return events_.find(event); }
  /// Notes that the event has been recorded on the stream: it stands for what the stream comes behind now. Where that
  /// is nothing, the event still stands for what it did before, if the runtime has Defect::kEventsKeepNodes. Returns
  /// its number in signatures.
  std::uint64_t record(hipEvent_t event, const CapturedStream& stream, bool in_shell);
  std::uint64_t number(const CapturedEvent& event) noexcept {
    return static_cast<std::uint64_t>(&event - events_.data());
  }
  /// Whether the event has been recorded in this capture, perhaps elsewhere since.
  bool has_noted(hipEvent_t event) noexcept { return find_event(event) != nullptr || noted_elsewhere(event); }
  /// Returns false only where has_noted() does. Needs no lock.
  bool may_have_noted(hipEvent_t event) const noexcept { return noted_.may_have(event); }
  /// Notes that it was recorded elsewhere: it stands for nothing here now, but the runtime has noted it here.
  void event_recorded_elsewhere(hipEvent_t event);
  /// Forgets the event: its handle may come back as another event.
  void event_destroyed(hipEvent_t event) noexcept;

  /// Forgets what streams and events come behind: the operations have no nodes.
  void forget_tails() noexcept;
  void clear() noexcept;

 private:
  bool noted_elsewhere(hipEvent_t event) const noexcept;

  KeyedRow<CapturedStream, &CapturedStream::key> streams_;  ///< the first one is the origin
  KeyedRow<CapturedEvent, &CapturedEvent::handle> events_;
  std::vector<hipEvent_t> elsewhere_;  ///< recorded here once, then elsewhere
  NotedHandles noted_;                 ///< of events
};

}  // namespace graphpool
