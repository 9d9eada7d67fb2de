// malloc_pair.cpp: what allocating and freeing device memory costs, by size: one pair at a time, and the allocations of
// a step made and then freed. On the CPU runtime with fresh memory left as the kernel gives it: filling it would hide
// everything else.
#include <string>

#include "timing.h"

namespace {

void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  bench::check(hipMalloc(&pointer, bytes));
  return pointer;
}

}  // namespace

int main() {
  constexpr int kBatches = 9, kStep = 16;
  constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
  for (const std::size_t bytes : {4 * kKiB, 64 * kKiB, 2 * kMiB, 16 * kMiB, 128 * kMiB, 1024 * kMiB}) {
    const std::string size =
        bytes < kMiB ? std::to_string(bytes / kKiB) + " KiB" : std::to_string(bytes / kMiB) + " MiB";
    const int calls = bytes < kMiB ? 1000 : 100;
    bench::print(size.c_str(), bench::ns_per_call(kBatches, calls, [bytes] { bench::check(hipFree(allocate(bytes))); }),
                 "ns");
    const double step_ns = bench::ns_per_call(kBatches, calls / kStep + 1, [bytes] {
      void* blocks[kStep];
      for (void*& block : blocks) block = allocate(bytes);
      for (void* block : blocks) bench::check(hipFree(block));
    });
    bench::print((size + ", " + std::to_string(kStep) + " live at once").c_str(), step_ns / kStep, "ns");
  }
  return 0;
}
