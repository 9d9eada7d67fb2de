// bounded_wait.h: has those waits of `verify` that could depend on what the program does next: each lasts
// kLongestVerifyWait at most. Threads: any, without a lock held.
#pragma once

#include <chrono>

#include "shim/streams/stream_work.h"
#include "shim/verify/both_ways.h"

namespace graphpool {

inline constexpr std::chrono::seconds kLongestVerifyWait{1};

/// Waits for the fence and gives it back. False: it was not passed in time, or `fence` is null.
bool wait_for(Fence* fence);
/// Waits, and returns whether the device has no work in the end.
bool wait_until_idle(int device);

/// Freeing shadows waits for the device: if that takes too long, drop() leaves them for free_left().
class BoundedShadows : public Shadows {
 public:
  explicit BoundedShadows(int device) noexcept : device_(device) {}
  BoundedShadows(const BoundedShadows&) = delete;
  BoundedShadows& operator=(const BoundedShadows&) = delete;
  ~BoundedShadows() { drop(); }
  void drop() noexcept;

 private:
  const int device_;
};

}  // namespace graphpool
