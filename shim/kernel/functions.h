// functions.h: knows the program's kernels: host stubs of compiled programs and functions of loaded modules.
//
// Life of an entry: registrations are only noted (registrations.h); a binary's metadata is read when one of its stubs
// is first asked for. A module's is read when it is loaded, because the program may free the image afterwards. What is
// unregistered or unloaded is forgotten at once. A handle that comes back gets a new generation, so a recording never
// takes the new function for the old one. kernel_owners.h knows which handle stands for which kernel. Metadata is
// copied, never pointed to (rule 37). If metadata cannot be read or is not found, the runtime is asked
// (asked_kernels.h). If it does not tell, or metadata disagrees, the layout is unknown, and a capture with that kernel
// stays the program's own.
// Threads: everything from any thread. Lock: kKernels, never held over a call of HIP, dl* or logging; find() of a known
// function takes none, unless registrations wait. Bounded: names and layouts that were ever used are kept for good, at
// most KernelFacts::kMaxNames and LayoutPool::kMaxLayouts; all else goes with its binary or module. Never destroyed.
// Not here: HIP calls; handles are opaque addresses, so that newer kinds (hipLibrary_t, hipKernel_t) fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/base/pointer_table.h"
#include "shim/base/status.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/kernel_info.h"
#include "shim/kernel/kernel_settings.h"
#include "shim/kernel/registrations.h"

namespace graphpool {

class KernelOwners;
class KernelSet;

class Functions {
 public:
  constexpr Functions() = default;

  // Compiled programs. The hooks of __hip* add to `registrations` after the forwarded call.
  Registrations registrations;

  /// Call it before the forwarded call, because a handle may come back as soon as it is given back.
  /// Waits for a thread that is reading the binary: that must end before the binary is unmapped.
  void on_fat_binary_unregistered(void** handle) noexcept;

  // Modules. Called after the forwarded call succeeded, except unloading, which comes before it. The results are for a
  // debug line only: on anything but kOk the functions of the module have no known layout.

  Status on_module_loaded(const void* module, const void* image) noexcept;
  Status on_module_loaded(const void* module, const void* image, std::size_t image_bytes) noexcept;
  Status on_module_file_loaded(const void* module, const char* path) noexcept;
  void on_module_unloaded(const void* module) noexcept;
  /// The handles of a module's functions that were found.
  std::vector<const void*> handles_of_module(const void* module);
  /// Notes that the module has a variable there (hipModuleGetGlobal).
  void on_variable_found(const void* module, const void* address, std::size_t bytes) noexcept;
  /// The module whose variable the address is known to be in. Null: there is none.
  const void* module_of_variable(const void* address) noexcept;
  /// Notes a function of a module. If it was noted before as the same kernel, it keeps its generation.
  Status on_function_found(const void* module, const char* name, const void* function) noexcept;
  /// Notes that `function` stands for a stub's kernel (hipGetFuncBySymbol).
  Status on_function_of_stub(const void* stub, const void* function) noexcept;

  // Settings of kernels, by any handle of theirs. Called around the forwarded call.

  /// Whether the handle is known to stand for a certain kernel.
  bool knows_kernel(const void* handle) noexcept;
  /// Whether this value is known to be what was last set.
  bool has_setting(const void* handle, KernelSetting setting, std::uint64_t value) noexcept;
  /// Notes what was set. `certain`: the runtime is known to have this value now. Returns false if that cannot be
  /// remembered: then the caller forgets all settings.
  bool set(const void* handle, KernelSetting setting, std::uint64_t value, bool certain) noexcept;
  /// Forgets all that was set. The caller also raises settings_epoch(), so that recordings made until now do not match.
  void forget_settings() noexcept;
  /// All handles of the kernel that this one stands for.
  std::vector<const void*> handles_of_same_kernel(const void* handle);

  /// What is known of a host stub or a function handle. Reads a fat binary's metadata at first; later it takes a few
  /// ns.
  KernelInfo find(const void* stub_or_function) noexcept;
  /// Whether a handle still stands for the kernel that it stood for when find() answered this generation.
  bool still_there(const void* stub_or_function, std::uint64_t generation) noexcept;
  /// Whether the address is a host stub (and no function handle).
  bool is_stub(const void* address) noexcept;
  /// Notes the runtime's answer about a kernel with `may_be_asked`, which is not asked again. `arguments` null: it had
  /// none. Returns what is known now.
  KernelInfo learn(const void* stub_or_function, const KernelInfo& asked,
                   const std::vector<Argument>* arguments) noexcept;
  /// The file that the function's module was loaded from, kept for good. Null: none, or not known.
  const char* file_of(const void* function) noexcept;

  /// While version() stays the same, find() answers the same. kChanging: ask again.
  static constexpr std::uint64_t kChanging = 0;
  std::uint64_t version() const noexcept {
    if (registrations.waiting()) return kChanging;
    const std::uint64_t version = table_.version();
    return version % 2 == 0 ? version : kChanging;
  }

 private:
  void drain_registrations() noexcept REQUIRES(mutex_);
  KernelOwners& owners() REQUIRES(mutex_);
  KernelInfo find_slowly(const void* key);
  Status add_module(const void* module, Status read, const KernelSet& kernels, const char* file = nullptr) noexcept;

  RankedMutex<LockRank::kKernels> mutex_;
  PointerTable table_;                                                       ///< stubs and functions
  KernelOwners* owners_ GUARDED_BY(mutex_) PT_GUARDED_BY(mutex_) = nullptr;  ///< made at first use
};

/// The process's. Trivially destructible: never destroyed.
inline Functions& functions() noexcept {
  static constinit Functions all;
  return all;
}

}  // namespace graphpool
