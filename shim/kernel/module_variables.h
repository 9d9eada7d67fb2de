// module_variables.h: knows which module a device variable belongs to.
// Threads: its user locks (Functions). Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace graphpool {

class ModuleVariables {
 public:
  /// Notes that the module has a variable there. Forgets older variables of these bytes, whose module was unloaded
  /// unseen. Throws std::bad_alloc.
  void add(const void* module, std::uintptr_t begin, std::size_t bytes);
  void forget_module(const void* module) noexcept;
  /// The module whose variable the address is in. Null: it is in no variable that is known.
  const void* module_of(std::uintptr_t address) const noexcept;

 private:
  struct Variable {
    std::uintptr_t end;
    const void* module;
  };
  std::map<std::uintptr_t, Variable> variables_;  ///< by their beginnings; they do not overlap
};

}  // namespace graphpool
