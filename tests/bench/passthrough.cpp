// passthrough.cpp: what one call costs. On a runtime that does nothing, the difference between the run under the
// library and the native one is what the library adds to a call it forwards.
#include "timing.h"

int main() {
  constexpr int kBatches = 41, kCalls = 20000;
  void* pointers[] = {nullptr};
  hipStream_t stream = nullptr;
  bench::check(hipStreamCreate(&stream));
  const auto launch_on = [&](const char* figure, hipStream_t where) {
    bench::print(
        figure,
        bench::ns_per_call(
            kBatches, kCalls,
            [&] { bench::check(hipModuleLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, where, pointers, nullptr)); }),
        "ns");
  };
  launch_on("launch", stream);
  launch_on("launch, null stream", nullptr);
  bench::print("malloc + free",
               bench::ns_per_call(kBatches, kCalls,
                                  [] {
                                    void* pointer = nullptr;
                                    bench::check(hipMalloc(&pointer, 4096));
                                    bench::check(hipFree(pointer));
                                  }),
               "ns");
  bench::print("query", bench::ns_per_call(kBatches, kCalls, [&] { bench::check(hipStreamQuery(stream)); }), "ns");
  return 0;
}
