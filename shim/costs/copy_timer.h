// copy_timer.h: what copying takes on the device, measured by copies that a staged launch makes anyway.
//
// Why: only the device knows when a copy began and when it was done. So two events stand around the copies in of one
// launch, in the program's stream. They are asked about when a later binding comes; nothing waits for them (rule 16).
// Small copies are not measured: what they take is mostly their submission, which is a cost of its own.
//
// The life of one: make() with a ring that was chosen by cost -> begin(), end() at its first launch -> collect() at
// bindings until the events have passed. Its events exist from make() on, so a launch makes nothing.
//
// Errors: none; what fails is not measured. Threads: one at a time (its ring's). Units: bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>

#include "shim/base/units.h"

namespace graphpool {

struct StreamState;

class CopyTimer {
 public:
  static constexpr std::uint64_t kLeastBytes = 8 * kMiB;
  /// In a process; the cost is their average.
  static constexpr std::uint32_t kMeasurements = 4;

  /// For copies of so many bytes on the current device. Null where they are too small, enough has been measured, or
  /// there is no event to be had.
  static std::unique_ptr<CopyTimer> make(std::uint64_t bytes);
  ~CopyTimer();
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

  bool unused() const noexcept { return state_ == State::kUnused; }
  /// The copies are enqueued next, on this stream. False: they are not measured. Pre-condition: the stream does not
  /// capture.
  bool begin(hipStream_t stream) noexcept;
  /// They are enqueued.
  void end(hipStream_t stream) noexcept;
  /// Takes the measurement if it is complete. True when there is nothing more to wait for.
  bool collect() noexcept;

  /// The device has been reset: the events are gone, and are not to be destroyed.
  void forget() noexcept;

 private:
  enum class State : std::uint8_t { kUnused, kBegun, kEnded, kDone };

  explicit CopyTimer(std::uint64_t bytes) noexcept : bytes_(bytes) {}

  const std::uint64_t bytes_;
  hipEvent_t first_ = nullptr, last_ = nullptr;
  std::shared_ptr<StreamState> stream_;  ///< where they are recorded: not asked when that is gone
  State state_ = State::kUnused;
};

}  // namespace graphpool
