// kernel_lookup_bench.cpp: what each captured launch pays to learn its kernel's argument layout and to compare
// arguments.
#include <array>
#include <string>
#include <vector>

#include "figures.h"
#include "shim/kernel/functions.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

constexpr std::uintptr_t kFunctions = 1000;

const void* address(std::uintptr_t number) { return reinterpret_cast<const void*>(0x10000 + number * 64); }

void load_module() {
  static const std::string image = images::code_object(images::sample_kernels());
  static const Status loaded = functions().on_module_loaded(address(0), image.data(), image.size());
  if (loaded != Status::kOk) std::abort();
  for (std::uintptr_t i = 1; i <= kFunctions; ++i) {
    if (functions().on_function_found(address(0), "mixed", address(i)) != Status::kOk) std::abort();
  }
}

void find(benchmark::State& state) {
  load_module();
  std::uintptr_t number = 0;
  for (auto _ : state) {
    number = number % kFunctions + 1;
    benchmark::DoNotOptimize(functions().find(address(number)));
  }
}

void compare_params(benchmark::State& state) {
  load_module();
  const ArgumentLayout* layout = functions().find(address(1)).layout;
  std::array<std::array<std::byte, 32>, 4> values{};
  const std::array<void*, 4> params{&values[0], &values[1], &values[2], &values[3]};
  std::vector<std::byte> segment(layout->bytes());
  if (layout->pack(params.data(), segment.data()) != Status::kOk) std::abort();
  for (auto _ : state) benchmark::DoNotOptimize(layout->equal_params(params.data(), segment.data()));
}

BENCHMARK(find);
BENCHMARK(compare_params);

}  // namespace
}  // namespace graphpool

int main(int argc, char** argv) { return bench::run_all(argc, argv); }
