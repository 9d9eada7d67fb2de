// timing.h: what the benchmarks of calls share. They are plain HIP programs that time themselves and print one JSON
// object a figure; tests/support/ab.py runs them natively and under the library in turn.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace bench {

inline void check(hipError_t result) {
  if (result == hipSuccess) return;
  std::fprintf(stderr, "%s\n", hipGetErrorName(result));
  std::exit(1);
}

/// The upper one of two in the middle. Changes the order.
inline double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// CPU time of the calling thread so far: what other processes and the runtime's own threads do does not count.
inline double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
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
  return median(results);
}

inline void print(const char* figure, double value, const char* unit) {
  std::printf("{\"figure\": \"%s\", \"unit\": \"%s\", \"value\": %.3f}\n", figure, unit, value);
  std::fflush(stdout);
}

}  // namespace bench
