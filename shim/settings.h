// settings.h: settings of a device that change what a capture means are an epoch (rule 38): function attributes,
// limits, cache and shared-memory configuration, stream attributes, peer and pool access.
//
// Why not with every call: programs set the same value before each step. What was set last is remembered, and only
// another value begins an epoch. One number for all devices: a capture may reach several.
// Threads: any. Not here: memory whose kind only its address tells (capture/operand.h).
#pragma once

#include <cstdint>

#include "shim/hook_table.h"

namespace graphpool {

/// Never comes back to a value it had.
std::uint64_t settings_epoch() noexcept;
void next_settings_epoch() noexcept;

/// Something was set that is not remembered: a new epoch, and whatever is set next differs.
void settings_changed() noexcept;
/// What was remembered counts for nothing any more: functions are going.
void forget_settings() noexcept;
/// A function has got a second handle: from now on what is set by one handle makes the others' values unknown.
void functions_have_several_handles() noexcept;

/// One call that sets one value. Made before the call is forwarded; set() is called after it succeeded.
class SettingCall {
 public:
  /// `object`: a host stub or function handle; null: the calling thread's current device.
  SettingCall(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value) noexcept;
  ~SettingCall();
  SettingCall(const SettingCall&) = delete;
  SettingCall& operator=(const SettingCall&) = delete;

  /// False: the value is what was set last.
  bool differs() const noexcept;
  void set() noexcept;

 private:
  struct Remembered;

  /// The place of the value; null: it is not remembered. Under the lock.
  Remembered* place() const noexcept;

  EntryId function_;
  const void* object_;
  std::uint64_t attribute_, value_;
  std::uint64_t generation_ = 0;  ///< of the object: handles come back
  const void* family_ = nullptr;  ///< equal for handles of one function
  int device_;
  std::uint64_t serial_;
  bool overlaps_;  ///< another such call was under way when this one began

  friend struct SettingTable;
};

}  // namespace graphpool
