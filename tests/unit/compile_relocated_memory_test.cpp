// compile_relocated_memory_test.cpp: what relocations took is given back, and comes back as it was.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "shim/base/units.h"
#include "shim/compile/relocated_memory.h"
#include "tests/unit/relocated_library.h"

namespace graphpool {
namespace {

constexpr std::size_t kTableBytes = sizeof(relocated::Table);

std::size_t own_bytes() { return process_memory(machine(), getpid()).own_bytes; }

/// "r--p" of the mapping that holds an address.
std::string protection_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char protection[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, protection) != 3) continue;
    const auto place = reinterpret_cast<std::uintptr_t>(address);
    if (begin <= place && place < end) return protection;
  }
  return "";
}

/// The entries that are not what the loader made of them.
std::size_t wrong_entries() {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < relocated::kEntries; ++i)
    wrong += relocated::table().numbers[i] != relocated::numbers() + i;
  for (std::size_t i = 0; i < relocated::kFunctions; ++i)
    wrong += relocated::table().functions[i] != relocated::table().functions[0];
  return wrong;
}

class Relocated : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("Threads:") && line != "Threads:\t1") GTEST_SKIP() << "a sanitizer has a thread";
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
        GTEST_SKIP() << "a sanitizer has a handler of signals";
    }
  }
  RelocatedMemory memory_;
};

TEST_F(Relocated, IsGivenBackAndComesBackAsItWas) {
  ASSERT_EQ(wrong_entries(), 0u);
  ASSERT_EQ(protection_of(&relocated::table()), "r--p");
  const std::size_t before = own_bytes();
  const std::size_t dropped = memory_.drop(machine());
  EXPECT_GE(dropped, kTableBytes - 2 * 64 * kKiB);
  EXPECT_LE(own_bytes() + dropped, before + kTableBytes / 8) << "what is kept of it is small";
  EXPECT_GT(wrong_entries(), relocated::kEntries / 2) << "they are those of the file";
  EXPECT_LE(own_bytes() + dropped, before + kTableBytes / 8) << "to read them takes no memory of the process's own";
  memory_.restore();
  EXPECT_EQ(wrong_entries(), 0u);
  EXPECT_EQ(relocated::table().functions[relocated::kFunctions - 1](-3), 3);
  EXPECT_EQ(protection_of(&relocated::table()), "r--p");
  EXPECT_GE(own_bytes(), before - 64 * kKiB);
  EXPECT_EQ(memory_.drop(machine()), 0u) << "once";
}

TEST_F(Relocated, ComesBackAlsoWhereNobodyAsks) {
  {
    RelocatedMemory memory;
    EXPECT_GT(memory.drop(machine()), 0u);
  }
  EXPECT_EQ(wrong_entries(), 0u);
}

TEST_F(Relocated, StaysWhereAnotherThreadCouldReadIt) {
  std::atomic<bool> end{false};
  std::thread other([&] {
    while (!end) usleep(1000);
  });
  EXPECT_EQ(memory_.drop(machine()), 0u);
  end = true;
  other.join();
  EXPECT_EQ(wrong_entries(), 0u);
}

TEST_F(Relocated, StaysWhereAHandlerOfASignalCouldReadIt) {
  signal(SIGUSR2, [](int) {});
  EXPECT_EQ(memory_.drop(machine()), 0u);
  signal(SIGUSR2, SIG_IGN);
  EXPECT_EQ(memory_.drop(machine()), 0u) << "it is tried once";
  RelocatedMemory another;
  EXPECT_GT(another.drop(machine()), 0u);
  signal(SIGUSR2, SIG_DFL);
}

}  // namespace
}  // namespace graphpool
