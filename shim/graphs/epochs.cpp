#include "shim/graphs/epochs.h"

#include <algorithm>
#include <vector>

#include "shim/capture/fork_events.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/operand.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/timeline.h"

namespace graphpool {
namespace {

constexpr const char* kFunctionSet = "an attribute of its function was set";

void make_all_real(const char* reason) {
  materialise_open_captures(reason);
  graphs().deferred.end_builds(reason);
}

/// Whether the attribute only says what is preferred: HIP makes the same of an operation whatever its value is.
bool is_preference(KernelSetting setting) noexcept {
  return setting.which == hipFuncAttributePreferredSharedMemoryCarveout ||
         setting.which == KernelSetting::kCacheConfig || setting.which == KernelSetting::kSharedMemoryConfig;
}

/// Makes operations of the kernel real that were judged by what is set now, and that might be refused after this.
void make_real_what_breaks(const void* handle, KernelSetting setting, std::uint64_t value) {
  if (is_preference(setting)) return;
  const bool limit = setting.which == hipFuncAttributeMaxDynamicSharedMemorySize;
  const std::vector<const void*> handles = functions().handles_of_same_kernel(handle);
  const auto breaks = [&](const Operation& operation) {
    const Signature& signature = operation.signature;
    const void* const kernel = kernel_of(signature);
    return kernel != nullptr && (!limit || shared_bytes_of(signature) > value) &&
           std::find(handles.begin(), handles.end(), kernel) != handles.end();
  };
  materialise_captures_with(breaks, kFunctionSet);
  graphs().deferred.make_real_with(breaks, kFunctionSet);
  graphs().unstaged.make_with(breaks);
}

/// Whether a copy or fill may name a variable of this module: it has memory of HIP that is neither a known allocation
/// of the program's nor a variable of another module. Only these need it while they are made; to kernels it is an
/// address.
bool may_name_variable(const Operation& operation, const void* module) {
  const auto unknown = [module](std::uint64_t operand_class) {
    if (is_known_class(operand_class)) return false;
    auto* const address = reinterpret_cast<void*>(operand_class);
    if (const void* const owner = functions().module_of_variable(address)) return owner == module;
    if (block_table().find(address) != nullptr) return false;
    const PrivateCalls private_calls;
    hipDeviceptr_t base = nullptr;
    std::size_t bytes = 0;
    return PrivateCalls::worked([&] { return next().hipMemGetAddressRange(&base, &bytes, address); });
  };
  const bool has_classes = with_kind(operation.signature.kind, [](auto kind) { return kind.has_classes(); });
  return has_classes && (unknown(operation.signature.dst_class) || unknown(operation.signature.src_class));
}

}  // namespace

hipError_t change_settings(Forward forward) {
  make_all_real("settings were changed");
  const hipError_t result = forward();
  if (result == hipSuccess) settings_changed();
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t change_setting(EntryId function, std::uint64_t attribute, std::uint64_t value, Forward forward) {
  SettingCall call(function, attribute, value);
  if (call.differs()) make_all_real("a setting was changed");
  const hipError_t result = forward();
  if (result == hipSuccess) call.set();
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t change_kernel_setting(const void* handle, KernelSetting setting, std::uint64_t value, Forward forward) {
  if (!functions().knows_kernel(handle)) return change_settings(forward);
  const SettingUnderWay call;
  if (!functions().has_setting(handle, setting, value)) make_real_what_breaks(handle, setting, value);
  const hipError_t result = forward();
  if (result == hipSuccess && !functions().set(handle, setting, value, call.alone())) settings_changed();
  return result;
}

hipError_t change_function_setting(const void* handle, std::uint64_t which, std::uint64_t value, Forward forward) {
  return change_kernel_setting(handle, {static_cast<std::uint32_t>(which), calling_device()}, value, forward);
}

hipError_t change_kind(const void* address, std::size_t bytes, Forward forward) {
  const bool judged = recordings_judged(address, bytes);
  if (judged) make_all_real("memory of the capture becomes another kind");
  const hipError_t result = forward();
  if (judged && result == hipSuccess) next_settings_epoch();
  if (captures_open()) note_capture_doubt();
  return result;
}

void module_leaves(const void* module) {
  const std::vector<const void*> handles = functions().handles_of_module(module);
  const auto ends = [&](const Operation& operation) {
    const void* const kernel = kernel_of(operation.signature);
    return kernel != nullptr && std::find(handles.begin(), handles.end(), kernel) != handles.end();
  };
  const auto names = [&](const Operation& operation) {
    return ends(operation) || may_name_variable(operation, module);
  };
  end_comparing_with(names, "a module was unloaded during the capture");
  graphs().before_module_is_unloaded(names, ends, "a module was unloaded");
  functions().on_module_unloaded(module);
}

void drop_device(int device) {
  materialise_open_captures("a device was reset");
  fork_events().device_reset();
  graphs().before_memory_is_freed(nullptr, 0, "a device was reset");
  launches_device_reset(device);
  graphs().device_reset(device);  // before the pool: they give their slots back
  timelines_device_reset(device);
  device_memory().device_reset(device);
  settings_changed();
}

}  // namespace graphpool
