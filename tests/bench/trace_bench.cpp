// trace_bench.cpp: what an event of the trace costs the thread that notes it, and what the same place costs while
// nothing is traced.
#include "figures.h"
#include "shim/base/trace.h"

namespace {

using namespace graphpool;

void span(benchmark::State& state, bool on) {
  if (on && !trace_on()) begin_trace(TraceUse::kFile);
  for (auto _ : state) {
    const TraceSpan traced(TraceKind::kLaunch);
    tell_trace("same", 1);
    benchmark::ClobberMemory();
  }
}
// In this order: a trace that has begun goes on.
BENCHMARK_CAPTURE(span, off, false);
BENCHMARK_CAPTURE(span, on, true);

}  // namespace

int main(int argc, char** argv) { return bench::run_all(argc, argv); }
