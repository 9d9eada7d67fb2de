#include "shim/kernel/module_variables.h"

#include <iterator>

namespace graphpool {

void ModuleVariables::add(const void* module, std::uintptr_t begin, std::size_t bytes) {
  std::erase_if(variables_, [&](const auto& each) { return each.first < begin + bytes && each.second.end > begin; });
  variables_[begin] = {begin + bytes, module};
}

void ModuleVariables::forget_module(const void* module) noexcept {
  std::erase_if(variables_, [module](const auto& each) { return each.second.module == module; });
}

const void* ModuleVariables::module_of(std::uintptr_t address) const noexcept {
  const auto behind = variables_.upper_bound(address);
  if (behind == variables_.begin()) return nullptr;
  const Variable& variable = std::prev(behind)->second;
  return address < variable.end ? variable.module : nullptr;
}

}  // namespace graphpool
