#include "shim/kernel/kernel_settings.h"

#include <algorithm>
#include <utility>

namespace graphpool {

bool KernelSettings::has(KernelSetting setting, std::uint64_t value) const noexcept {
  const auto found = now_.find(setting);
  return found != now_.end() && found->second.certain && found->second.value == value;
}

bool KernelSettings::set(KernelSetting setting, std::uint64_t value, bool certain) {
  if (has(setting, value) && certain) return true;
  if (last_number_ + 1 >= kMostNumbers) return false;
  State next = now_;
  next[setting] = {value, certain};
  const bool known = std::all_of(next.begin(), next.end(), [](const auto& each) { return each.second.certain; });
  if (!known) {
    number_ = ++last_number_;
  } else {
    if (numbers_.size() >= kMostStates) numbers_.clear();
    const auto [entry, added] = numbers_.try_emplace(next, last_number_ + 1);
    if (added) ++last_number_;
    number_ = entry->second;
  }
  now_ = std::move(next);
  return true;
}

}  // namespace graphpool
