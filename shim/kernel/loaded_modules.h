// loaded_modules.h: has the modules that the program has loaded, with their functions and variables.
// Threads: its user locks (Functions). Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/base/status.h"
#include "shim/kernel/kernel_facts.h"
#include "shim/kernel/module_variables.h"
#include "shim/kernel/owned_functions.h"
#include "shim/kernel/set_kernels.h"

namespace graphpool {

class LoadedModules {
 public:
  LoadedModules(KernelFacts& facts, SetKernels& set_kernels, OwnedFunctions& functions) noexcept
      : facts_(facts), set_kernels_(set_kernels), functions_(functions) {}

  /// Adds a module. `read`: whether it could be read. If not, its functions are known, but not their layouts.
  Status add(const void* module, Status read, const KernelSet& kernels, const char* file);
  void forget(const void* module) noexcept;
  Status add_function(const void* module, const char* name, const void* function);
  void add_variable(const void* module, std::uintptr_t begin, std::size_t bytes);

  const void* module_of_variable(std::uintptr_t address) const noexcept { return variables_.module_of(address); }
  /// The functions that the module has now.
  std::vector<const void*> handles_of(const void* module) const;
  /// The file that the function's module was loaded from. Null: none, or not known.
  const char* file_of(const void* function) const noexcept;

 private:
  struct Module {
    std::unordered_map<std::string, const ArgumentLayout*> layouts;
    std::vector<const void*> functions;
    const char* file = nullptr;  ///< that it was loaded from; null: none
  };

  KernelFacts& facts_;
  SetKernels& set_kernels_;
  OwnedFunctions& functions_;
  std::unordered_map<const void*, Module> modules_;
  ModuleVariables variables_;
};

}  // namespace graphpool
