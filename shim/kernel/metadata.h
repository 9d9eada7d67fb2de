// metadata.h: reads AMDGPU code object metadata (a msgpack map in an ELF note): kernels and their explicit arguments.
//
// Format: LLVM's AMDGPUUsage, "Code Object V3 Metadata" and later. Pure parsing of untrusted bytes: it makes no HIP
// call, lets no exception out, and takes memory in proportion to the input. Not here: finding the note (code_object.h).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/kernel/argument_layout.h"

namespace graphpool {

/// What the metadata says of one kernel. Hidden arguments are left out: the runtime fills them in.
struct KernelDescription {
  std::vector<Argument> arguments;
  bool known = true;  ///< false: the arguments make no sense, or two code objects disagree about them
  /// It is known to reach memory by its arguments only: no variables of the module, no printf, no heap.
  bool self_contained = true;
};

/// Kernels by name. A kernel of several code objects (one for each architecture) must have one layout.
class KernelSet {
 public:
  /// Adds a kernel. If the name is there with other arguments, the kernel becomes unknown. Throws std::bad_alloc.
  void add(std::string name, KernelDescription kernel);

  /// Notes that there are variables, which every kernel so far may reach.
  void note_variables() noexcept;

  /// Null: there is no such kernel.
  const KernelDescription* find(std::string_view name) const noexcept;

  const std::map<std::string, KernelDescription, std::less<>>& kernels() const noexcept { return kernels_; }

 private:
  std::map<std::string, KernelDescription, std::less<>> kernels_;
};

/// Adds the kernels of one metadata note. kMalformed: it is no such map; kernels read before the fault stay in the set.
Status read_metadata(std::span<const std::byte> note, KernelSet* kernels) noexcept;

}  // namespace graphpool
