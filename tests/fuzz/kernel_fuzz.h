// kernel_fuzz.h: what the fuzzers of shim/kernel share. Each defines the two functions below; libFuzzer drives the
// first, kernel_fuzz_main.cpp drives it over seeds and their mutations as an ordinary test and writes the seeds out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "shim/kernel/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace graphpool {

/// Well-formed inputs to start from.
std::vector<std::string> fuzz_seeds();

/// Whatever the input was: a kernel that claims to be known has a layout that can be used.
inline void check(const KernelSet& kernels) {
  std::vector<std::byte> segment;
  for (const auto& [name, kernel] : kernels.kernels()) {
    if (!kernel.known) continue;
    if (!ArgumentLayout::is_valid(kernel.arguments)) std::abort();
    const ArgumentLayout layout(kernel.arguments);
    segment.assign(layout.bytes(), std::byte{1});
    if (!layout.equal(segment.data(), segment.data())) std::abort();
    std::size_t words = 0;
    const auto count = [&words](std::size_t, std::size_t, std::uint64_t) { ++words; };
    layout.for_each_pointer(segment.data(), count);
    layout.for_each_value_word(segment.data(), count);
    if (words > layout.bytes() / sizeof(void*) + kernel.arguments.size()) std::abort();
  }
}

}  // namespace graphpool
