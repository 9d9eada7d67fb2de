// kernel_owners.h: the binaries and modules that own kernels, with the stubs and function handles of each, and what is
// set of their kernels.
//
// A kernel is what an owner has by one name: several handles may stand for it, and what is set of it by one is set of
// all of them (rule 38). What is known of a handle stands in the table that find() reads without a lock; this class is
// the only one that changes it. Names and layouts that were ever used are kept for good; all else goes with its owner.
// Threads: guarded by its user (Functions). Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "shim/base/pointer_table.h"
#include "shim/base/status.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/kernel_info.h"
#include "shim/kernel/kernel_settings.h"
#include "shim/kernel/module_variables.h"
#include "shim/kernel/registrations.h"

namespace graphpool {

class KernelSet;
struct KernelDescription;

class KernelOwners {
 public:
  static constexpr std::size_t kMaxNames = std::size_t{1} << 16;

  explicit KernelOwners(PointerTable& table) noexcept : table_(table) {}

  // Compiled programs.

  /// A fat binary, or a stub of one. The first registration of a stub wins, as in HIP. Reads no binary.
  void enter(const Registration& registration);
  void forget_binary(void** handle) noexcept;
  /// A binary that is being read. Its handle may be another binary's by the time it has been read.
  struct Reading {
    void** handle;
    std::uint64_t number;
    const void* image;  ///< null: it cannot be read
  };
  bool is_read(void** handle) const noexcept;
  /// Whether some thread is reading the binary that has this stub.
  bool binary_of_is_read(const void* stub) const { return is_read(binary_of_stub_.at(stub)); }
  /// Begins to read the binary that has this stub.
  Reading begin_reading(const void* stub);
  /// `kernels`: what was read; null: nothing could be.
  void end_reading(const Reading& reading, const KernelSet* kernels);
  bool is_stub(const void* address) const noexcept { return binary_of_stub_.contains(address); }

  // Modules.

  /// `read`: whether the module could be read. If not its functions are known, their layouts are not.
  Status add_module(const void* module, Status read, const KernelSet& kernels, const char* file);
  void forget_module(const void* module) noexcept;
  Status add_function_of_module(const void* module, const char* name, const void* function);
  /// `info`: what is known of the stub.
  Status add_function_of_stub(const void* stub, const KernelInfo& info, const void* function);
  void add_variable(const void* module, std::uintptr_t begin, std::size_t bytes);
  const void* module_of_variable(std::uintptr_t address) const noexcept { return variables_.module_of(address); }
  std::vector<const void*> handles_of_module(const void* module) const;
  const char* file_of(const void* function) const noexcept;

  // Kernels, by any handle of theirs. `name`: as find() told it.

  std::vector<const void*> handles_of_kernel(const void* handle, const char* name) const;
  bool has_setting(const void* handle, const char* name, KernelSetting setting, std::uint64_t value) const noexcept;
  bool set(const void* handle, const char* name, KernelSetting setting, std::uint64_t value, bool certain);
  void forget_settings() noexcept;
  /// What the runtime answered of a kernel that may be asked for; null: it had no answer.
  KernelInfo learn(const void* handle, const KernelInfo& asked, const std::vector<Argument>* arguments);

  /// Woken when a binary has been read.
  std::condition_variable_any was_read;

 private:
  struct Binary {
    const void* image = nullptr;
    bool readable = false;
    std::uint64_t reader = 0;            ///< who is reading it; 0: nobody
    std::vector<const void*> stubs;      ///< those this binary registered first
    std::vector<const void*> functions;  ///< handles that stand for one of them
  };
  struct Module {
    std::unordered_map<std::string, const ArgumentLayout*> layouts;
    std::vector<const void*> functions;
    const char* file = nullptr;  ///< it was loaded from; null: none
  };
  struct KernelKey {
    const void* owner;
    const char* name;  ///< kept

    auto operator<=>(const KernelKey&) const = default;
  };
  /// A kernel of which something was set.
  struct SetKernel {
    KernelSettings settings;
    std::vector<const void*> handles;
  };

  const void* owner_of(const void* handle) const noexcept;
  bool stands_for(const void* handle, const KernelKey& kernel) const noexcept;
  std::vector<const void*> handles_of(const KernelKey& kernel) const;
  void forget_functions(const std::vector<const void*>& functions, const void* owner) noexcept;
  Status add_function(const void* owner, std::vector<const void*>* functions, const void* function, KernelInfo info);
  std::uint64_t next_generation(const KernelKey& kernel, const void* handle);
  void put_settings_number(const void* handle, std::uint64_t number) noexcept;
  const char* keep_name(const char* name);
  const ArgumentLayout* layout_of(const KernelDescription* kernel);

  PointerTable& table_;
  LayoutPool layouts_;
  std::unordered_set<std::string> names_;
  std::unordered_map<void**, Binary> binaries_;
  std::unordered_map<const void*, void**> binary_of_stub_;
  std::unordered_map<const void*, Module> modules_;
  std::unordered_map<const void*, const void*> owner_of_function_;  ///< a module, or the handle of a binary
  std::map<KernelKey, SetKernel> set_kernels_;
  ModuleVariables variables_;
  std::uint64_t last_generation_ = 0, last_reader_ = 0;
};

}  // namespace graphpool
