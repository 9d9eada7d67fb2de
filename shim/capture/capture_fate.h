// capture_fate.h: keeps what has become of a capture: whether it can still give a recording, whether the runtime still
// captures it, and whether the program may know its graph.
//
// Threads: one at a time (the capture's lock).
#pragma once

#include <cstdint>

namespace graphpool {

class CaptureFate {
 public:
  /// Notes that the capture gives no recording, for this reason, a literal. The first reason stays.
  void reject(const char* reason) noexcept {
    if (rejected_ == nullptr) rejected_ = reason;
  }
  /// Returns the reason why the capture gives no recording, or null while it may give one.
  const char* rejected() const noexcept { return rejected_; }

  /// Notes that the runtime has invalidated the capture: all calls are forwarded from then on.
  void invalidate() noexcept {
    if (life_ == Life::kCaptures) life_ = Life::kInvalid;
  }
  bool invalid() const noexcept { return life_ != Life::kCaptures; }
  /// Notes that operations which had succeeded to the program are gone: the capture must end as invalidated.
  void lose() noexcept { life_ = Life::kLost; }
  bool lost() const noexcept { return life_ == Life::kLost; }

  /// Notes that the program may know the graph of the capture.
  void expose() noexcept { exposed_ = true; }
  bool exposed() const noexcept { return exposed_; }

  /// Notes that the runtime ran a kernel that was to be captured, in this capture or an earlier one.
  void leave_to_runtime() noexcept {
    ran_at_once_ = true;
    reject("the runtime runs a captured kernel at once");
  }
  bool ran_at_once() const noexcept { return ran_at_once_; }

 private:
  enum class Life : std::uint8_t { kCaptures, kInvalid, kLost };
  const char* rejected_ = nullptr;
  Life life_ = Life::kCaptures;
  bool exposed_ = false;
  bool ran_at_once_ = false;
};

}  // namespace graphpool
