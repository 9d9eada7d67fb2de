// kernel_fuzz_main.cpp: runs a fuzzer's entry without libFuzzer, so that what fuzzing found stays fixed on any machine:
// the seeds whole, cut at every byte, and changed by a fixed sequence of mutations. `--write FOLDER` writes the seeds
// there instead, as a corpus to start libFuzzer from.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
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

TEST(FuzzSeeds, WholeAndCutAtEveryByte) {
  for (const std::string& seed : graphpool::fuzz_seeds()) {
    for (std::size_t bytes = 0; bytes <= seed.size(); ++bytes) run(seed.substr(0, bytes));
  }
}

TEST(FuzzSeeds, Mutated) {
  std::mt19937_64 random(20260101);
  for (const std::string& seed : graphpool::fuzz_seeds()) {
    for (int i = 0; i < 5000; ++i) run(mutated(seed, &random));
  }
}

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--write") == 0) {
    int number = 0;
    for (const std::string& seed : graphpool::fuzz_seeds()) {
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(number++), std::ios::binary) << seed;
    }
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
