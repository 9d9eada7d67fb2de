// timeline.h: tells how far a device has come, by a count in signal memory that a stream raises behind its work. One
// atomic load tells; HIP is not asked.
//
// The words are 8 bytes of signal memory each (the size HIP asks for; probe values_are_written). They are never freed,
// because freeing waits for the device (rule 16): a word that is no longer used serves the next timeline of its device,
// once the last value written to it has arrived. It counts on from there, so its count never falls.
//
// Threads: one timeline is advanced under its owner's lock and read by any thread; the words are kept under a lock of
// their own (rank kSlots), not held over HIP calls. Not here: what waits for it (staging/last_launch.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace graphpool {

struct TimelineWord;

class Timeline {
 public:
  /// Returns null if the runtime has no signal memory or no memory left, or HIP fails. Leaves no error behind. Throws
  /// std::bad_alloc.
  static std::unique_ptr<Timeline> make(int device);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Enqueues the next value behind what is on the stream. Returns false if the runtime refuses: then no new value is
  /// to come, and the error is taken out of the program's sight.
  bool advance(hipStream_t stream) noexcept;

  /// Whether every value enqueued so far has been written; true after a reset of the device.
  bool reached() const noexcept;

 private:
  explicit Timeline(TimelineWord* word) noexcept : word_(word) {}

  TimelineWord* const word_;
};

/// Forgets the words of the device, which is about to be reset. Timelines over them count as reached.
void timelines_device_reset(int device) noexcept;

/// How many words were made and not lost to a reset.
std::size_t timeline_words() noexcept;

}  // namespace graphpool
