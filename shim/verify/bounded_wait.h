// bounded_wait.h: waits of `verify`, each for kLongestWait at most: what it waits for could depend on what the program
// does next. Threads: any, without a lock held.
#pragma once

#include <chrono>

#include "shim/streams/stream_work.h"
#include "shim/verify/both_ways.h"

namespace graphpool {

inline constexpr std::chrono::seconds kLongestVerifyWait{1};

/// Gives the fence back. False: it has not been passed in time, or nobody can tell. Null: nobody can tell.
bool wait_for(Fence* fence);
/// Whether the device has no work in the end.
bool wait_until_idle(int device);

/// Freeing shadows waits for the device: where that takes too long, they are left.
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
