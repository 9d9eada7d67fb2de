// rtc_scan.h: finds the kernels of a preprocessed source and takes out what C++ cannot say.
//
// The compiler itself computes the layout of the arguments (kernel_prelude.inc); all it must be told is which functions
// are kernels. Seen are kernels at namespace scope, explicit instantiations of kernel templates, and the launch bounds.
// `extern __shared__ T name[];` inside a function becomes a pointer to the block's dynamic memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cpuhip {

struct ScannedKernel {
  std::string name;   ///< qualified, as an expression at global scope
  std::string bound;  ///< text of the first launch bound; "0" without one
};

struct ScannedSource {
  std::string text;
  std::vector<ScannedKernel> kernels;
  /// Launch bounds of kernel templates by qualified name; only numbers (others may depend on template parameters).
  std::map<std::string, std::string> template_bounds;
};

ScannedSource scan_source(std::string_view preprocessed);

}  // namespace cpuhip
