// owned_functions.h: which binary or module each function handle belongs to. Handles come back as another owner's.
// Threads: guarded by its user (Functions). Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <unordered_map>
#include <vector>

#include "shim/base/pointer_table.h"
#include "shim/base/status.h"
#include "shim/kernel/kernel_info.h"
#include "shim/kernel/set_kernels.h"

namespace graphpool {

class OwnedFunctions {
 public:
  OwnedFunctions(PointerTable& table, SetKernels& set_kernels) noexcept : table_(table), set_kernels_(set_kernels) {}

  /// The owner has the function, of the kernel that `info` says. Enters it in `functions`, the owner's list. A function
  /// its owner already has, of the same kernel, keeps its generation.
  Status add(const void* owner, std::vector<const void*>* functions, const void* function, KernelInfo info);
  /// The owner, which has these, goes.
  void forget(const std::vector<const void*>& functions, const void* owner) noexcept;
  /// Null: nobody has it.
  const void* owner_of(const void* function) const noexcept;

 private:
  PointerTable& table_;
  SetKernels& set_kernels_;
  std::unordered_map<const void*, const void*> owners_;  ///< a module, or the handle of a binary
};

}  // namespace graphpool
