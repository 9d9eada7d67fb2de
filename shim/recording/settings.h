// settings.h: counts the epochs of the devices' settings (rule 38). Settings that change what a capture means are
// limits, cache and shared-memory configuration, stream attributes, peer and pool access. Settings of a function begin
// no epoch: they belong to that function's operations (kernel/kernel_settings.h).
//
// Programs set the same value before each step. So what was set last is remembered, and only another value begins an
// epoch. All devices share one number, because a capture may reach several.
// Threads: any. Not here: memory whose kind only its address tells (operand.h).
#pragma once

#include <cstdint>

#include "shim/hip/hook_table.h"

namespace graphpool {

/// The number of the present epoch. It never comes back to a value it had.
std::uint64_t settings_epoch() noexcept;
void next_settings_epoch() noexcept;

/// Call it when something was set that is not remembered: begins an epoch, and forgets all settings, of functions too.
void settings_changed() noexcept;
/// Forgets what was set last on devices.
void forget_settings() noexcept;

/// While this object lives, a call that sets something is under way.
class SettingUnderWay {
 public:
  SettingUnderWay() noexcept;
  ~SettingUnderWay();
  SettingUnderWay(const SettingUnderWay&) = delete;
  SettingUnderWay& operator=(const SettingUnderWay&) = delete;

  /// False: another one was under way beside it, and nobody knows which one the runtime made last.
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
