#include "shim/kernel/owned_functions.h"

namespace graphpool {

Status OwnedFunctions::add(const void* owner, std::vector<const void*>* functions, const void* function,
                           KernelInfo info) {
  const auto [known, added] = owners_.try_emplace(function, owner);
  PointerTable::Value value;
  if (!added && known->second == owner && info.name != nullptr && table_.find(function, &value)) {
    const KernelInfo before = unpack(value);
    if (before.name == info.name && (before.layout == info.layout || info.may_be_asked)) return Status::kOk;
  }
  if (added || known->second != owner) functions->push_back(function);
  known->second = owner;
  info.generation = set_kernels_.next_generation({owner, info.name}, function);
  if (!table_.put(function, pack(info))) {
    table_.erase(function);  // the handle becomes unknown: what the table has may be another kernel's
    return Status::kNoMemory;
  }
  return info.layout == nullptr ? Status::kNotFound : Status::kOk;
}

void OwnedFunctions::forget(const std::vector<const void*>& functions, const void* owner) noexcept {
  for (const void* function : functions) {
    const auto owned = owners_.find(function);
    if (owned == owners_.end() || owned->second != owner) continue;  // the handle has moved on
    table_.erase(function);
    owners_.erase(owned);
  }
}

const void* OwnedFunctions::owner_of(const void* function) const noexcept {
  const auto owned = owners_.find(function);
  return owned == owners_.end() ? nullptr : owned->second;
}

}  // namespace graphpool
