// kernel_fuzz_main.cpp: runs a fuzzer's entry without libFuzzer, so that what fuzzing found stays fixed on any machine:
// the seeds whole, cut at every byte, and changed by a fixed sequence of mutations; then the files named as arguments.
// `--write FOLDER` writes the seeds there instead, as a corpus to start libFuzzer from.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/kernel_fuzz.h"

namespace {

void run(const std::string& input) {
  // A copy of the exact size: a sanitizer then sees a read past the end.
  const std::vector<std::uint8_t> copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

std::string mutated(std::string input, std::mt19937_64* random) {
  constexpr char kInteresting[] = {'\x00', '\x01', '\x7f', '\x80', '\xff', '\xdd', '\xdf', '\xdb'};
  for (auto changes = 1 + (*random)() % 6; changes > 0 && !input.empty(); --changes) {
    const std::size_t at = (*random)() % input.size();
    switch ((*random)() % 4) {
      case 0:
        input[at] = static_cast<char>((*random)());
        break;
      case 1:
        input[at] = kInteresting[(*random)() % sizeof kInteresting];
        break;
      case 2:
        input.erase(at, 1 + (*random)() % 8);
        break;
      default:
        input.insert(at, input.substr((*random)() % input.size(), 1 + (*random)() % 16));
        break;
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> seeds = graphpool::fuzz_seeds();
  if (argc == 3 && std::strcmp(argv[1], "--write") == 0) {
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
    }
    return 0;
  }
  std::size_t runs = 0;
  std::mt19937_64 random(20260101);
  for (const std::string& seed : seeds) {
    for (std::size_t bytes = 0; bytes <= seed.size(); ++bytes, ++runs) run(seed.substr(0, bytes));
    for (int i = 0; i < 5000; ++i, ++runs) run(mutated(seed, &random));
  }
  for (int i = 1; i < argc; ++i, ++runs) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read '%s'\n", argv[i]);
      return 1;
    }
    run({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  }
  std::fprintf(stderr, "%zu inputs\n", runs);
  return 0;
}
