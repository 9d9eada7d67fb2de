#include "shim/kernel/set_kernels.h"

#include "shim/base/seeded_defect.h"
#include "shim/kernel/kernel_info.h"

namespace graphpool {

bool SetKernels::has(const KernelKey& kernel, KernelSetting setting, std::uint64_t value) const noexcept {
  const auto known = kernels_.find(kernel);
  return known != kernels_.end() && known->second.settings.has(setting, value);
}

bool SetKernels::set(const KernelKey& kernel, KernelSetting setting, std::uint64_t value, bool certain,
                     StandsFor stands_for, HandlesOf handles_of) {
  const auto [place, added] = kernels_.try_emplace(kernel);
  SetKernel& known = place->second;
  if (added) known.handles = handles_of(kernel);
  const std::uint64_t before = known.settings.number();
  if (seeded_defect(Seeded::kSettingsIgnored)) return true;
  if (!known.settings.set(setting, value, certain)) return false;
  if (known.settings.number() == before) return true;
  std::erase_if(known.handles, [&](const void* each) { return !stands_for(each, kernel); });
  for (const void* const each : known.handles) put_number(each, known.settings.number());
  return true;
}

void SetKernels::forget_owner(const void* owner) noexcept {
  std::erase_if(kernels_, [owner](const auto& each) { return each.first.owner == owner; });
}

void SetKernels::forget_all(StandsFor stands_for) noexcept {
  for (const auto& [key, kernel] : kernels_)
    for (const void* const each : kernel.handles)
      if (stands_for(each, key)) put_number(each, 0);
  kernels_.clear();
}

void SetKernels::put_number(const void* handle, std::uint64_t number) noexcept {
  PointerTable::Value value;
  if (!table_.find(handle, &value)) return;
  value[2] = (value[2] & kRegistrationMask) | number << kSettingsShift;
  if (!table_.put(handle, value)) table_.erase(handle);  // no memory: the handle becomes unknown
}

std::uint64_t SetKernels::next_generation(const KernelKey& kernel, const void* handle) {
  ++last_generation_;
  const auto set = kernels_.find(kernel);
  if (set == kernels_.end()) return last_generation_;
  set->second.handles.push_back(handle);
  return last_generation_ | set->second.settings.number() << kSettingsShift;
}

}  // namespace graphpool
