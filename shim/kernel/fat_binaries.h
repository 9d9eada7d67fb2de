// fat_binaries.h: has the binaries of compiled programs, and the host stubs of their kernels.
//
// A registration reads no binary. One thread reads it, without a lock, when one of its stubs is first asked for.
// Threads: its user locks (Functions). Functions that are not noexcept throw std::bad_alloc.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "shim/base/pointer_table.h"
#include "shim/base/status.h"
#include "shim/kernel/kernel_facts.h"
#include "shim/kernel/kernel_info.h"
#include "shim/kernel/owned_functions.h"
#include "shim/kernel/registrations.h"
#include "shim/kernel/set_kernels.h"

namespace graphpool {

class FatBinaries {
 public:
  FatBinaries(PointerTable& table, KernelFacts& facts, SetKernels& set_kernels, OwnedFunctions& functions) noexcept
      : table_(table), facts_(facts), set_kernels_(set_kernels), functions_(functions) {}

  /// Enters a fat binary, or a stub of one. The first registration of a stub wins, as in HIP. Reads no binary.
  void enter(const Registration& registration);
  void forget(void** handle) noexcept;

  /// A binary that is being read. By the time it has been read, its handle may be another binary's.
  struct Reading {
    void** handle;
    std::uint64_t number;
    const void* image;  ///< null: it cannot be read
  };
  bool is_read(void** handle) const noexcept;
  /// Whether some thread is reading the binary that has this stub. Pre-condition: one has it.
  bool binary_of_is_read(const void* stub) const { return is_read(binary_of_stub_.at(stub)); }
  /// Begins to read the binary that has this stub. Pre-condition: one has it.
  Reading begin_reading(const void* stub);
  /// Ends the reading. `kernels`: what was read; null: nothing could be read.
  void end_reading(const Reading& reading, const KernelSet* kernels);
  /// Is notified when a binary has been read.
  std::condition_variable_any was_read;

  /// Notes that `function` stands for the stub's kernel. `info`: what is known of the stub.
  Status add_function(const void* stub, const KernelInfo& info, const void* function);

  /// The handle of the binary that has this stub. Null: none has it.
  const void* owner_of(const void* stub) const noexcept;
  /// The owner's stubs, and functions that stand or stood for one of them. None if the owner is no binary.
  std::vector<const void*> handles_of(const void* owner) const;

 private:
  struct Binary {
    const void* image = nullptr;
    bool readable = false;
    std::uint64_t reader = 0;            ///< number of the reading; 0: nobody reads it
    std::vector<const void*> stubs;      ///< those this binary registered first
    std::vector<const void*> functions;  ///< handles that stand for one of them
  };

  PointerTable& table_;
  KernelFacts& facts_;
  SetKernels& set_kernels_;
  OwnedFunctions& functions_;
  std::unordered_map<void**, Binary> binaries_;
  std::unordered_map<const void*, void**> binary_of_stub_;
  std::uint64_t last_reader_ = 0;
};

}  // namespace graphpool
