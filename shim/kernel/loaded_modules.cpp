#include "shim/kernel/loaded_modules.h"

#include <algorithm>
#include <iterator>

#include "shim/base/seeded_defect.h"

namespace graphpool {

Status LoadedModules::add(const void* module, Status read, const KernelSet& kernels, const char* file) {
  forget(module);  // if the handle has come back, nobody saw the unload
  Module& added = modules_[module];
  if (file != nullptr) added.file = facts_.keep_name(file);
  if (read != Status::kOk) return read;
  for (const auto& [name, kernel] : kernels.kernels()) added.layouts.emplace(name, facts_.layout_of(&kernel));
  return Status::kOk;
}

void LoadedModules::forget(const void* module) noexcept {
  if (seeded_defect(Seeded::kUnloadLeavesFunctions)) return;
  const auto unloaded = modules_.find(module);
  if (unloaded == modules_.end()) return;
  functions_.forget(unloaded->second.functions, module);
  set_kernels_.forget_owner(module);
  variables_.forget_module(module);
  modules_.erase(unloaded);
}

Status LoadedModules::add_function(const void* module, const char* name, const void* function) {
  Module& owner = modules_[module];  // made here if the module was loaded before we were active
  const auto layout = owner.layouts.find(name);
  const bool known = layout != owner.layouts.end();
  const KernelInfo info{known ? layout->second : nullptr, facts_.keep_name(name), 0, !known};
  return functions_.add(module, &owner.functions, function, info);
}

void LoadedModules::add_variable(const void* module, std::uintptr_t begin, std::size_t bytes) {
  static_cast<void>(modules_[module]);  // made here if the module was loaded before we were active
  variables_.add(module, begin, bytes);
}

std::vector<const void*> LoadedModules::handles_of(const void* module) const {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return {};
  std::vector<const void*> all;
  std::copy_if(found->second.functions.begin(), found->second.functions.end(), std::back_inserter(all),
               [&](const void* each) { return functions_.owner_of(each) == module; });
  return all;
}

const char* LoadedModules::file_of(const void* function) const noexcept {
  const void* const owner = functions_.owner_of(function);
  if (owner == nullptr) return nullptr;
  const auto module = modules_.find(owner);
  return module == modules_.end() ? nullptr : module->second.file;
}

}  // namespace graphpool
