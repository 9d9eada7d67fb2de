// figures.h: Google Benchmark's results as the lines scripts/bench reads: one JSON object a figure on stdout.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <vector>

namespace bench {

/// The time an iteration takes under the benchmark's name, and each of its counters under "name, counter". A benchmark
/// that reported an error ends the program with 1.
class FigureReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) {
        std::fprintf(stderr, "%s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        failed_ = true;
        continue;
      }
      std::printf("{\"figure\": \"%s\", \"unit\": \"ns\", \"value\": %.3f}\n", run.benchmark_name().c_str(),
                  run.GetAdjustedCPUTime());
      for (const auto& [name, counter] : run.counters) {
        std::printf("{\"figure\": \"%s, %s\", \"unit\": \"1\", \"value\": %.3f}\n", run.benchmark_name().c_str(),
                    name.c_str(), counter.value);
      }
    }
  }

  int exit_code() const noexcept { return failed_ ? 1 : 0; }

 private:
  bool failed_ = false;
};

inline int run_all(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  FigureReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.exit_code();
}

}  // namespace bench
