// copy_timer.h: measures how long copies take on the device, by the copies in of a staged launch.
//
// Why: only the device knows when a copy began and when it was done. So two events are recorded around the copies in of
// one launch, in the program's stream. Where an exec makes its copies itself, they are made once more, before it
// (SlotRing::launch_fused). A later binding asks for the events; nothing waits for them (rule 16). Small copies
// are not measured: most of their time is their submission, which is another cost (Cost::kCopy).
//
// The life of a timer: make() with a ring that was chosen by cost -> begin(), end() at a launch -> collect() at
// bindings until the device has passed the events. They exist from make() on, so a launch makes nothing.
//
// Errors: none; after a failure nothing is measured. Threads: one at a time (its ring's). Units: bytes.
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
  /// Once a process has measured so often, no timer is made.
  static constexpr std::uint32_t kMeasurements = 4;

  /// Makes a timer for copies of so many bytes on the current device. Null: too small, enough measured, or HIP failed.
  static std::unique_ptr<CopyTimer> make(std::uint64_t bytes);
  ~CopyTimer();
  CopyTimer(const CopyTimer&) = delete;
  CopyTimer& operator=(const CopyTimer&) = delete;

  bool unused() const noexcept { return state_ == State::kUnused; }
  /// Call it before the copies go on this stream, which does not capture. Returns false if they are not measured.
  bool begin(hipStream_t stream) noexcept;
  /// Call it when the copies are enqueued, if begin() returned true.
  void end(hipStream_t stream) noexcept;
  /// Takes the measurement if the device has passed both events. Returns true if nothing more is to be waited for,
  /// false before end(), too.
  bool collect() noexcept;

  /// Forgets the events, which a reset of the device has destroyed.
  void forget() noexcept;

 private:
  enum class State : std::uint8_t { kUnused, kBegun, kEnded, kDone };

  explicit CopyTimer(std::uint64_t bytes) noexcept : bytes_(bytes) {}

  const std::uint64_t bytes_;
  hipEvent_t first_ = nullptr, last_ = nullptr;
  std::shared_ptr<StreamState> stream_;  ///< where the events are recorded; they are not asked for once it is destroyed
  State state_ = State::kUnused;
};

}  // namespace graphpool
