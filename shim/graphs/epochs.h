// epochs.h: forwards calls after which recordings say nothing of what is captured (rules 31 and 38): settings are
// changed, memory becomes another kind, a device is reset.
//
// What is withheld in an open capture, or of a graph that is being built, is judged by the settings it began with: it
// becomes real before such a call is forwarded. An epoch begins where the call succeeded and may have changed
// something. Settings of a function concern its own later operations only. An operation that was withheld before can
// still be made as it was judged if the setting is only a preference, or a limit not below what the operation needs.
// Else what has such an operation becomes real. Threads: any. Not here: the epoch and what was set last
// (recording/settings.h), what recordings hold of memory (recording/operand.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/capture/capture.h"
#include "shim/hip/hook_table.h"
#include "shim/kernel/kernel_settings.h"

namespace graphpool {

/// Forwards a call that changes settings whose values the library does not remember.
hipError_t change_settings(Forward forward);
/// Forwards a call that sets one value of the calling thread's device (SettingCall). The call changes something only if
/// the value is another one than last time.
hipError_t change_setting(EntryId function, std::uint64_t attribute, std::uint64_t value, Forward forward);
/// Forwards a call that sets one value of the kernel that a host stub or function handle stands for. If that kernel is
/// not known, the call may change any: then this does what change_settings() does.
hipError_t change_kernel_setting(const void* handle, KernelSetting setting, std::uint64_t value, Forward forward);
/// Does the same for a value that concerns the calling thread's device only.
hipError_t change_function_setting(const void* handle, std::uint64_t which, std::uint64_t value, Forward forward);
/// Forwards a call after which memory may be of another kind, or come back as such. That matters where a recording
/// holds only the memory's address. 0 bytes: nobody knows how many.
hipError_t change_kind(const void* address, std::size_t bytes, Forward forward);

/// Call it before a module, or a library of kernels, is unloaded. Makes the graphs and execs that name a function of
/// it, or copy or fill memory that may be its variable's, while that is possible. Captures with such operations are the
/// runtime's. Recordings with its kernels go, and its functions are forgotten.
void module_leaves(const void* module);

/// Drops what was made on the device, which goes with it (rule 31). Call it before the reset is forwarded.
void drop_device(int device);

}  // namespace graphpool
