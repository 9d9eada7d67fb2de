// module_variables.h: which module a device variable belongs to.
// Threads: guarded by its user (Functions). Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace graphpool {

class ModuleVariables {
 public:
  /// The module has a variable there. What was known of these bytes before has been removed unseen. Throws
  /// std::bad_alloc.
  void add(const void* module, std::uintptr_t begin, std::size_t bytes);
  void forget_module(const void* module) noexcept;
  /// Null: the address is in no variable that is known.
  const void* module_of(std::uintptr_t address) const noexcept;

 private:
  struct Variable {
    std::uintptr_t end;
    const void* module;
  };
  std::map<std::uintptr_t, Variable> variables_;  ///< by their beginnings; they do not overlap
};

}  // namespace graphpool
