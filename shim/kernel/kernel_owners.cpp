#include "shim/kernel/kernel_owners.h"

namespace graphpool {

const void* KernelOwners::owner_of(const void* handle) const noexcept {
  const void* const binary = binaries.owner_of(handle);
  return binary != nullptr ? binary : functions_.owner_of(handle);
}

/// Whether the handle stands for the kernel now: a handle may come back as another kernel's.
bool KernelOwners::stands_for(const void* handle, const KernelKey& kernel) const noexcept {
  PointerTable::Value value;
  return table_.find(handle, &value) && unpack(value).name == kernel.name && owner_of(handle) == kernel.owner;
}

std::vector<const void*> KernelOwners::handles_of(const KernelKey& kernel) const {
  std::vector<const void*> all = binaries.handles_of(kernel.owner);
  const std::vector<const void*> functions = modules.handles_of(kernel.owner);
  all.insert(all.end(), functions.begin(), functions.end());
  std::erase_if(all, [&](const void* each) { return !stands_for(each, kernel); });
  return all;
}

std::vector<const void*> KernelOwners::handles_of_kernel(const void* handle, const char* name) const {
  const void* const owner = owner_of(handle);
  return owner == nullptr || name == nullptr ? std::vector<const void*>() : handles_of({owner, name});
}

bool KernelOwners::has_setting(const void* handle, const char* name, KernelSetting setting,
                               std::uint64_t value) const noexcept {
  return name != nullptr && set_kernels_.has({owner_of(handle), name}, setting, value);
}

bool KernelOwners::set(const void* handle, const char* name, KernelSetting setting, std::uint64_t value, bool certain) {
  const KernelKey key{owner_of(handle), name};
  if (key.owner == nullptr || name == nullptr) return false;
  return set_kernels_.set(
      key, setting, value, certain,
      [this](const void* each, const KernelKey& kernel) { return stands_for(each, kernel); },
      [this](const KernelKey& kernel) { return handles_of(kernel); });
}

void KernelOwners::forget_settings() noexcept {
  set_kernels_.forget_all([this](const void* each, const KernelKey& kernel) { return stands_for(each, kernel); });
}

KernelInfo KernelOwners::learn(const void* handle, const KernelInfo& asked, const std::vector<Argument>* arguments) {
  PointerTable::Value value;
  if (!table_.find(handle, &value)) return {};
  KernelInfo info = unpack(value);
  const bool same = (info.generation & kRegistrationMask) == (asked.generation & kRegistrationMask);
  if (!same || !info.may_be_asked) return info;
  info.may_be_asked = false;
  if (arguments != nullptr) info.layout = facts_.layout_with_addresses(*arguments);
  table_.put(handle, pack(info));
  return info;
}

}  // namespace graphpool
