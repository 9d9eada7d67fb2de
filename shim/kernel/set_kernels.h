// set_kernels.h: knows what is set of kernels (rule 38), and makes the generations of their handles, which say so.
//
// What is set of a kernel by one of its handles is set for all of them: the number of the kernel's state is in the
// generation of each (kernel_info.h). Threads: its user locks (Functions). Functions that are not noexcept throw
// std::bad_alloc.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/base/pointer_table.h"
#include "shim/kernel/kernel_settings.h"

namespace graphpool {

/// A kernel: what an owner (a binary's handle, or a module) has by this name.
struct KernelKey {
  const void* owner;
  const char* name;  ///< kept for good

  auto operator<=>(const KernelKey&) const = default;
};

class SetKernels {
 public:
  explicit SetKernels(PointerTable& table) noexcept : table_(table) {}

  /// Whether the handle stands for the kernel now: a handle may come back as another kernel's.
  using StandsFor = FunctionRef<bool(const void* handle, const KernelKey& kernel)>;
  using HandlesOf = FunctionRef<std::vector<const void*>(const KernelKey& kernel)>;

  bool has(const KernelKey& kernel, KernelSetting setting, std::uint64_t value) const noexcept;
  /// Notes what was set of the kernel. Returns false if there is no number left.
  bool set(const KernelKey& kernel, KernelSetting setting, std::uint64_t value, bool certain, StandsFor stands_for,
           HandlesOf handles_of);
  /// Forgets what was set of the kernels of an owner that is gone.
  void forget_owner(const void* owner) noexcept;
  void forget_all(StandsFor stands_for) noexcept;

  /// Returns a new generation for a handle that stands for the kernel from now on.
  std::uint64_t next_generation(const KernelKey& kernel, const void* handle);

 private:
  /// A kernel of which something was set.
  struct SetKernel {
    KernelSettings settings;
    std::vector<const void*> handles;
  };

  void put_number(const void* handle, std::uint64_t number) noexcept;

  PointerTable& table_;
  std::map<KernelKey, SetKernel> kernels_;
  std::uint64_t last_generation_ = 0;
};

}  // namespace graphpool
