// kernel_facts.h: keeps names of kernels and of modules' files, and layouts of arguments, for good, once they were
// used. Bounded: kMaxNames names, LayoutPool::kMaxLayouts layouts. Threads: its user locks (Functions). Throws
// std::bad_alloc.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "shim/kernel/argument_layout.h"
#include "shim/kernel/code_object.h"

namespace graphpool {

class KernelFacts {
 public:
  static constexpr std::size_t kMaxNames = std::size_t{1} << 16;

  /// Returns the name as it is kept. Null: it is new, and there are too many.
  const char* keep_name(const char* name) {
    if (names_.size() < kMaxNames) return names_.emplace(name).first->c_str();
    const auto known = names_.find(name);
    return known == names_.end() ? nullptr : known->c_str();
  }
  /// The layout of the kernel. Null: `kernel` is null, its arguments are not known, or its layout cannot be kept.
  const ArgumentLayout* layout_of(const KernelDescription* kernel) {
    return kernel == nullptr || !kernel->known ? nullptr : layouts_.intern(kernel->arguments, kernel->self_contained);
  }
  /// The layout of arguments as the runtime answered: each may hold addresses.
  const ArgumentLayout* layout_with_addresses(const std::vector<Argument>& arguments) {
    return layouts_.intern(arguments, false);
  }

 private:
  LayoutPool layouts_;
  std::unordered_set<std::string> names_;
};

}  // namespace graphpool
