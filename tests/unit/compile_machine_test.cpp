// compile_machine_test.cpp: what files of /proc say.
#include <gtest/gtest.h>

#include "shim/compile/machine.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {
namespace {

/// Processes of a user in many groups have a long line before those about memory.
TEST(ProcessMemory, IsFoundBehindManyGroups) {
  FakeMachine::reset();
  FakeMachine::memory_of(getpid(), 400, 200, 300);
  std::string& status = FakeMachine::files["/proc/" + std::to_string(getpid()) + "/status"];
  std::string groups = "Groups:\t";
  for (int i = 0; i < 1000; ++i) groups += std::to_string(1'000'000'000 + i) + ' ';
  status.insert(status.find("VmPeak:"), groups + '\n');
  const ProcessMemory memory = process_memory(FakeMachine::machine(), getpid());
  EXPECT_EQ(memory.own_bytes, 200 * kKiB);
  EXPECT_EQ(memory.virtual_bytes, 400 * kKiB);
}

}  // namespace
}  // namespace graphpool
