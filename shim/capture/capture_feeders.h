// capture_feeders.h: keeps which threads feed a capture, as signatures name them, and the current device of the one
// that feeds it now.
//
// Threads: one at a time (the capture's lock).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/hip/restore.h"
#include "shim/streams/calling_thread.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

class CaptureFeeders {
 public:
  /// How many threads have a number in signatures, which have 16 bits for it.
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  /// Notes that the calling thread has begun the capture.
  void start() {
    threads_.assign(1, calling_thread());
    present_ = 0;
  }
  void clear() noexcept {
    threads_.clear();
    stream_ = 0;
    device_ = -1;
  }

  /// Whether the calling thread is the one that fed the capture last.
  bool caller_is_present() const noexcept { return threads_[present_] == t_thread; }
  /// Whether the capture was fed last by another thread than the caller, and by this stream.
  bool another_fed(StreamKey stream) const noexcept {
    return stream_ == stream && threads_[present_] != calling_thread();
  }
  /// Notes that the calling thread feeds this stream now. Returns false if it did not feed the capture last.
  bool feed(StreamKey stream) {
    stream_ = stream;
    if (caller_is_present()) [[likely]]
      return true;
    const auto found = std::find(threads_.begin(), threads_.end(), calling_thread());
    present_ = static_cast<std::uint16_t>(found - threads_.begin());
    if (found == threads_.end()) threads_.push_back(calling_thread());
    device_ = -1;
    return false;
  }
  /// Notes that the calling thread, which fed the capture last, feeds this stream now.
  void feed_again(StreamKey stream) noexcept { stream_ = stream; }
  std::size_t count() const noexcept { return threads_.size(); }
  /// The number of the thread that feeds the capture now.
  std::uint16_t number() const noexcept { return present_; }

  /// The calling thread's current device (rule 14). Asks the runtime when another thread begins to feed the capture,
  /// and after a call that could change the device. Such calls are counted while a capture is open.
  int device() noexcept {
    const std::uint64_t changes = g_device_changes.load(std::memory_order_acquire);
    if (device_ < 0 || changes != device_changes_) know_device(calling_device(), changes);
    return device_;
  }
  bool device_known() const noexcept {
    return device_ >= 0 && g_device_changes.load(std::memory_order_acquire) == device_changes_;
  }
  /// Returns what device() would. Call it only where device_known().
  int known_device() const noexcept { return device_; }
  /// Sets the device that was current when g_device_changes was `changes`.
  void know_device(int device, std::uint64_t changes) noexcept {
    device_ = device;
    device_changes_ = changes;
  }

 private:
  std::vector<std::uintptr_t> threads_;  ///< by calling_thread(), in the order in which they came
  std::uint16_t present_ = 0;            ///< the position of the thread that fed the capture last
  StreamKey stream_ = 0;                 ///< the stream that it fed
  int device_ = -1;                      ///< its current device; -1: not asked yet
  std::uint64_t device_changes_ = 0;     ///< g_device_changes when that was asked
};

}  // namespace graphpool
