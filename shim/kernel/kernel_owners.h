// kernel_owners.h: has the binaries and modules that own kernels, with the stubs and function handles of each, and what
// is set of their kernels.
//
// A kernel is what an owner has by one name. Several handles may stand for it, and what is set by one of them is set
// for all (rule 38). What is known of a handle is in the table that find() reads without a lock; only this class and
// its parts change that. Names and layouts that were ever used are kept for good; all else goes with its owner.
// Threads: its user locks (Functions). Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/base/pointer_table.h"
#include "shim/kernel/fat_binaries.h"
#include "shim/kernel/kernel_facts.h"
#include "shim/kernel/kernel_info.h"
#include "shim/kernel/kernel_settings.h"
#include "shim/kernel/loaded_modules.h"
#include "shim/kernel/owned_functions.h"
#include "shim/kernel/set_kernels.h"

namespace graphpool {

class KernelOwners {
 public:
  explicit KernelOwners(PointerTable& table) noexcept
      : table_(table),
        set_kernels_(table),
        functions_(table, set_kernels_),
        binaries(table, facts_, set_kernels_, functions_),
        modules(facts_, set_kernels_, functions_) {}
  KernelOwners(const KernelOwners&) = delete;
  KernelOwners& operator=(const KernelOwners&) = delete;

  // Kernels, by any handle of theirs. `name`: what find() said.

  std::vector<const void*> handles_of_kernel(const void* handle, const char* name) const;
  bool has_setting(const void* handle, const char* name, KernelSetting setting, std::uint64_t value) const noexcept;
  bool set(const void* handle, const char* name, KernelSetting setting, std::uint64_t value, bool certain);
  void forget_settings() noexcept;
  /// Notes the runtime's answer about a kernel with `may_be_asked`. `arguments` null: it had none. Returns what is
  /// known now.
  KernelInfo learn(const void* handle, const KernelInfo& asked, const std::vector<Argument>* arguments);

 private:
  const void* owner_of(const void* handle) const noexcept;
  bool stands_for(const void* handle, const KernelKey& kernel) const noexcept;
  std::vector<const void*> handles_of(const KernelKey& kernel) const;

  PointerTable& table_;
  KernelFacts facts_;
  SetKernels set_kernels_;
  OwnedFunctions functions_;

 public:
  FatBinaries binaries;
  LoadedModules modules;
};

}  // namespace graphpool
