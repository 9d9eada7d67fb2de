// epochs.h: calls after which recordings say nothing of what is captured (rules 31 and 38): settings are changed,
// memory becomes another kind, a device is reset.
//
// What is withheld in an open capture, or of a graph that is being built, is judged by the settings it began with: it
// becomes real before such a call is forwarded. An epoch begins where the call succeeded and may have changed
// something. Threads: any. Not here: the epoch and what was set last (settings.h), what recordings hold of memory
// (capture/operand.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/capture/capture.h"
#include "shim/hook_table.h"

namespace graphpool {

/// What is changed is not remembered.
hipError_t change_settings(Forward forward);
/// One value is set (SettingCall): only another one than last time changes anything.
hipError_t change_setting(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value,
                          Forward forward);
/// Memory may be of another kind afterwards, or come back as such: that matters where a recording holds nothing of it
/// but its address. 0 bytes: nobody knows how many.
hipError_t change_kind(const void* address, std::size_t bytes, Forward forward);

/// Rule 31: what was made on the device goes with it. Before the call is forwarded.
void drop_device(int device);

}  // namespace graphpool
