// timing.h: what the benchmarks of single calls share. They are plain HIP programs that time themselves and print one
// JSON object a figure; tests/support/ab.py runs them natively and under the library in turn.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench {

inline void check(hipError_t result) {
  if (result == hipSuccess) return;
  std::fprintf(stderr, "%s\n", hipGetErrorName(result));
  std::exit(1);
}

/// Nanoseconds a call: the median over batches, so that an interruption of one does not show.
template <typename Call>
double ns_per_call(int batches, int calls, Call&& call) {
  for (int i = 0; i < calls; ++i) call();
  std::vector<double> results;
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    results.push_back(elapsed.count() / calls);
  }
  const auto middle = results.begin() + batches / 2;
  std::nth_element(results.begin(), middle, results.end());
  return *middle;
}

inline void print(const char* figure, double ns) {
  std::printf("{\"figure\": \"%s\", \"unit\": \"ns\", \"value\": %.3f}\n", figure, ns);
}

}  // namespace bench
