// permit_bench.cpp: a call's compile permit taken and given back while nobody else compiles, in private memory and in
// memory that all processes of the machine share.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "shim/compile/permit_wait.h"
#include "shim/compile/shared_memory.h"
#include "tests/bench/figures.h"

namespace {

using namespace graphpool;

void permit(benchmark::State& state, Scope scope) {
  char folder[] = "/tmp/permit-bench-XXXXXX";
  SharedPermits* const memory = mkdtemp(folder) == nullptr ? nullptr : open_permits(scope, folder);
  if (memory == nullptr) return state.SkipWithError("no memory for permits");
  PermitTable table(*memory, machine());
  const PermitSettings settings;
  PermitCounters counters;
  PermitRequest request;
  request.size_class = "cc c 0K";
  request.kind = HolderKind::kCall;
  for (auto _ : state) {
    Permit held;
    wait_for_permit(table, machine(), settings, request, {}, counters, held);
    table.give_back(held, {});
  }
  if (std::system(("rm -r " + std::string(folder)).c_str()) != 0) state.SkipWithError("the folder stays");
}
BENCHMARK_CAPTURE(permit, process, Scope::kProcess);
BENCHMARK_CAPTURE(permit, node, Scope::kNode);

}  // namespace

int main(int argc, char** argv) { return bench::run_all(argc, argv); }
