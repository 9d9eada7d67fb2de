// settings.h: settings of a device that change what a capture means are an epoch (rule 38): limits, cache and
// shared-memory configuration, stream attributes, peer and pool access. What is set of a function is not: it belongs to
// that function's operations (kernel/kernel_settings.h).
//
// Why not with every call: programs set the same value before each step. What was set last is remembered, and only
// another value begins an epoch. One number for all devices: a capture may reach several.
// Threads: any. Not here: memory whose kind only its address tells (operand.h).
#pragma once

#include <cstdint>

#include "shim/hip/hook_table.h"

namespace graphpool {

/// Never comes back to a value it had.
std::uint64_t settings_epoch() noexcept;
void next_settings_epoch() noexcept;

/// Something was set that is not remembered: a new epoch, and whatever is set next differs, of functions too.
void settings_changed() noexcept;
/// What was remembered of devices counts for nothing any more.
void forget_settings() noexcept;

/// While it lives a call that sets something is under way.
class SettingUnderWay {
 public:
  SettingUnderWay() noexcept;
  ~SettingUnderWay();
  SettingUnderWay(const SettingUnderWay&) = delete;
  SettingUnderWay& operator=(const SettingUnderWay&) = delete;

  /// False: there was another one beside it, and nobody knows which one the runtime made last.
  bool alone() const noexcept;

 private:
  std::uint64_t serial_;
  bool overlaps_;  ///< another such call was under way when this one began
};

/// One call that sets one value of the calling thread's current device. Made before the call is forwarded; set() is
/// called after it succeeded.
class SettingCall {
 public:
  SettingCall(EntryId function, std::uint64_t attribute, std::uint64_t value) noexcept;

  /// False: the value is what was set last.
  bool differs() const noexcept;
  void set() noexcept;

 private:
  struct Remembered;

  SettingUnderWay under_way_;
  EntryId function_;
  std::uint64_t attribute_, value_;
  int device_;

  friend struct SettingTable;
};

}  // namespace graphpool
