// device.h: the devices of the process and the calling thread's current one.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace cpuhip {

class Stream;
class Worker;

constexpr int kMaxDevices = 16;

class Device {
 public:
  explicit Device(int ordinal) : ordinal_(ordinal) {}

  int ordinal() const { return ordinal_; }
  /// The hardware queue of a new stream (CPUHIP_QUEUES): a new one of its priority's, or the one with the fewest
  /// streams.
  std::shared_ptr<Worker> queue_for(int priority);
  Stream& null_stream();
  /// The first asynchronous error: returned by every later call that touches the device, until a reset.
  std::atomic<hipError_t> sticky{hipSuccess};
  /// Makes an error of asynchronous work sticky when it is of that kind.
  void note(hipError_t result);

  /// Peer access enabled by the program from this device to others: one bit a device.
  std::atomic<std::uint32_t> peers{0};
  bool reaches(int other) const { return other == ordinal_ || ((peers.load(std::memory_order_relaxed) >> other) & 1u); }

  /// False where the device has not so much left: config().memory_bytes, for all processes that share it.
  bool take_memory(std::size_t bytes);
  void give_memory(std::size_t bytes);
  /// The same of what hipMemGetInfo does not tell, so that what programs read of it is theirs alone.
  bool take_untold_memory(std::size_t bytes) {
    if (!take_memory(bytes)) return false;
    untold_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  void give_untold_memory(std::size_t bytes) {
    untold_.fetch_sub(bytes, std::memory_order_relaxed);
    give_memory(bytes);
  }
  std::size_t used_bytes() const { return held_bytes() - untold_.load(std::memory_order_relaxed); }
  /// What this process has of the device's memory, told or not.
  std::size_t held_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// What hipMemGetInfo tells is free: nobody's, and what it does not tell of this process.
  std::size_t free_bytes() const;

  /// Orders the enqueueing of work on the device's streams; guards `streams` and what each stream did last.
  std::mutex order_mutex;
  std::vector<Stream*> streams;  ///< all but the null stream
  std::atomic<unsigned> flags{0};

 private:
  const int ordinal_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> untold_{0};
  std::atomic<Stream*> null_stream_{nullptr};
  std::mutex queue_mutex_;
  std::map<int, std::vector<std::shared_ptr<Worker>>> queues_;  ///< by priority
};

/// `ordinal` must be below device_count().
Device& device(int ordinal);
Device& current_device();
int device_count();
/// Makes a device the calling thread's; false when there is none of that number.
bool set_device(int ordinal);

/// Whether this process is a fork of one that used devices: it has the handles, but none of the workers.
bool forked();

/// Runs a body with another device current, and restores it.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) : before_(current_device().ordinal()) { set_device(ordinal); }
  ~DeviceScope() { set_device(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const int before_;
};

}  // namespace cpuhip
