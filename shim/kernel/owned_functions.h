// owned_functions.h: knows which binary or module each function handle belongs to. A handle may come back as another
// owner's. Threads: its user locks (Functions). Functions that are not noexcept throw std::bad_alloc.
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

  /// Notes that the owner has the function, of the kernel that `info` says. Enters it in `functions`, the owner's list.
  /// A function that the owner has already, of the same kernel, keeps its generation.
  Status add(const void* owner, std::vector<const void*>* functions, const void* function, KernelInfo info);
  /// Forgets those of these functions that the owner still has: the owner goes.
  void forget(const std::vector<const void*>& functions, const void* owner) noexcept;
  /// The owner of the function. Null: there is none.
  const void* owner_of(const void* function) const noexcept;

 private:
  PointerTable& table_;
  SetKernels& set_kernels_;
  std::unordered_map<const void*, const void*> owners_;  ///< a module, or the handle of a binary
};

}  // namespace graphpool
