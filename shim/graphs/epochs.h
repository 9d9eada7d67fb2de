// epochs.h: calls after which recordings say nothing of what is captured (rules 31 and 38): settings are changed,
// memory becomes another kind, a device is reset.
//
// What is withheld in an open capture, or of a graph that is being built, is judged by the settings it began with: it
// becomes real before such a call is forwarded. An epoch begins where the call succeeded and may have changed
// something. What is set of a function concerns its own later operations only; an operation withheld until then can
// still be made as it was judged, unless a limit comes below it: only then what is withheld becomes real. Threads: any.
// Not here: the epoch and what was set last (recording/settings.h), what recordings hold of memory
// (recording/operand.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/capture/capture.h"
#include "shim/hip/hook_table.h"
#include "shim/kernel/kernel_settings.h"

namespace graphpool {

/// What is changed is not remembered.
hipError_t change_settings(Forward forward);
/// One value of the calling thread's device is set (SettingCall): only another one than last time changes anything.
hipError_t change_setting(EntryId function, std::uint64_t attribute, std::uint64_t value, Forward forward);
/// One value of the kernel that a host stub or function handle stands for is set. Where it is not known which kernel
/// that is, the call may change any: as change_settings().
hipError_t change_kernel_setting(const void* handle, KernelSetting setting, std::uint64_t value, Forward forward);
/// The same for the calling thread's device.
hipError_t change_function_setting(const void* handle, std::uint64_t which, std::uint64_t value, Forward forward);
/// Memory may be of another kind afterwards, or come back as such: that matters where a recording holds nothing of it
/// but its address. 0 bytes: nobody knows how many.
hipError_t change_kind(const void* address, std::size_t bytes, Forward forward);

/// A module, or a library of kernels, is about to be unloaded: what names a function of it, or memory that may be its
/// variable's, is made while it can be; recordings of it go, and its functions are forgotten.
void module_leaves(const void* module);

/// Rule 31: what was made on the device goes with it. Before the call is forwarded.
void drop_device(int device);

}  // namespace graphpool
