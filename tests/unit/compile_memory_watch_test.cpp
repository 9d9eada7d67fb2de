// compile_memory_watch_test.cpp: memory left, on trees of files as real systems have them.
#include <gtest/gtest.h>

#include <tuple>

#include "shim/compile/control_group.h"
#include "shim/compile/memory_watch.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {
namespace {

class MemoryWatch : public testing::Test {
 protected:
  MemoryWatch() {
    FakeMachine::reset();
    FakeMachine::meminfo(16 << 20, 8 << 20);
  }
  MemoryFacts facts() { return read_memory(FakeMachine::machine()); }
  std::string& file(const std::string& path) { return FakeMachine::files[path]; }
};

TEST_F(MemoryWatch, WithoutControlGroupsItIsWhatTheMachineHas) {
  EXPECT_EQ(facts().allowed_bytes, 16 * kGiB);
  EXPECT_EQ(facts().available_bytes, 8 * kGiB);
  EXPECT_EQ(facts().pressure_percent, 0u);
}

TEST_F(MemoryWatch, WithoutAnythingNothingIsKnown) {
  FakeMachine::files.clear();
  EXPECT_EQ(facts().allowed_bytes, 0u);
}

TEST_F(MemoryWatch, VersionTwoCountsTheGroupAndThoseAbove) {
  file("/proc/self/cgroup") = "0::/user.slice/job\n";
  file("/proc/self/mountinfo") =
      "20 1 0:19 / /proc rw - proc proc rw\n30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
  file("/sys/fs/cgroup/user.slice/job/memory.max") = "max\n";
  file("/sys/fs/cgroup/user.slice/job/memory.current") = "1\n";
  EXPECT_EQ(facts().available_bytes, 8 * kGiB) << "no limit";
  file("/sys/fs/cgroup/user.slice/memory.max") = std::to_string(4 * kGiB) + "\n";
  file("/sys/fs/cgroup/user.slice/memory.current") = std::to_string(3 * kGiB) + "\n";
  file("/sys/fs/cgroup/user.slice/memory.stat") = "anon 5\nfile 7\ninactive_file " + std::to_string(kGiB) + "\n";
  EXPECT_EQ(facts().allowed_bytes, 4 * kGiB);
  EXPECT_EQ(facts().available_bytes, 2 * kGiB) << "cache that can be dropped is free";
  file("/sys/fs/cgroup/user.slice/job/memory.high") = std::to_string(kGiB) + "\n";
  EXPECT_EQ(facts().allowed_bytes, kGiB) << "memory.high limits too";
}

TEST_F(MemoryWatch, VersionOne) {
  file("/proc/self/cgroup") = "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n";
  file("/proc/self/mountinfo") =
      "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes") = std::to_string(3 * kGiB);
  file("/sys/fs/cgroup/memory/job/memory.usage_in_bytes") = std::to_string(2 * kGiB);
  file("/sys/fs/cgroup/memory/job/memory.stat") = "cache 1\ntotal_inactive_file " + std::to_string(kGiB / 2) + "\n";
  file("/sys/fs/cgroup/memory/memory.limit_in_bytes") = "9223372036854771712\n";
  EXPECT_EQ(facts().allowed_bytes, 3 * kGiB);
  EXPECT_EQ(facts().available_bytes, 3 * kGiB / 2);
}

TEST_F(MemoryWatch, InAContainerTheMountPointIsTheGroup) {
  file("/proc/self/cgroup") = "0::/docker/abc\n";
  file("/proc/self/mountinfo") = "30 1 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  file("/sys/fs/cgroup/memory.max") = std::to_string(kGiB);
  file("/sys/fs/cgroup/memory.current") = "0\n";
  EXPECT_EQ(facts().available_bytes, kGiB);
  // The kernel names a path that is not mounted here.
  file("/proc/self/mountinfo") = "30 1 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  EXPECT_EQ(facts().available_bytes, kGiB);
}

TEST_F(MemoryWatch, AGroupWhoseNameBeginsLikeTheMountedOnesIsAnother) {
  file("/proc/self/cgroup") = "0::/docker/abcd\n";
  file("/proc/self/mountinfo") = "30 1 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
  file("/sys/fs/cgroupd/memory.max") = std::to_string(kGiB);
  file("/sys/fs/cgroupd/memory.current") = "0\n";
  EXPECT_EQ(facts().available_bytes, 8 * kGiB);
}

TEST_F(MemoryWatch, UseAboveTheLimitLeavesNothing) {
  file("/proc/self/cgroup") = "0::/\n";
  file("/proc/self/mountinfo") = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  file("/sys/fs/cgroup/memory.max") = "1000";
  file("/sys/fs/cgroup/memory.current") = "2000";
  EXPECT_EQ(facts().available_bytes, 0u);
}

TEST_F(MemoryWatch, VersionOneCountsGroupsAboveToo) {
  file("/proc/self/cgroup") = "4:memory:/a/b/c\n";
  file("/proc/self/mountinfo") = "32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  const std::string top = "/sys/fs/cgroup/memory";
  for (const auto& [folder, limit, usage] :
       {std::tuple("/a/b/c", 5, 1), std::tuple("/a/b", 7, 1), std::tuple("/a", 3, 2), std::tuple("", 9, 2)}) {
    file(top + folder + "/memory.limit_in_bytes") = std::to_string(limit * kGiB);
    file(top + folder + "/memory.usage_in_bytes") = std::to_string(usage * kGiB);
  }
  EXPECT_EQ(facts().allowed_bytes, 3 * kGiB);
  EXPECT_EQ(facts().available_bytes, kGiB);
}

TEST_F(MemoryWatch, ProcessorTimeThatGroupsAllow) {
  const auto quota = [] { return processor_quota(FakeMachine::machine()); };
  EXPECT_EQ(quota(), 0u);
  file("/proc/self/cgroup") = "0::/user.slice/job\n";
  file("/proc/self/mountinfo") = "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
  file("/sys/fs/cgroup/user.slice/job/cpu.max") = "max 100000\n";
  EXPECT_EQ(quota(), 0u) << "no limit";
  file("/sys/fs/cgroup/user.slice/cpu.max") = "250000 100000\n";
  EXPECT_EQ(quota(), 3u) << "of the group above, two and a half";
  file("/sys/fs/cgroup/user.slice/job/cpu.max") = "200000 100000\n";
  EXPECT_EQ(quota(), 2u);
  file("/sys/fs/cgroup/user.slice/job/cpu.max") = "10000 100000\n";
  EXPECT_EQ(quota(), 1u);
  FakeMachine::reset();
  file("/proc/self/cgroup") = "5:cpu,cpuacct:/x/y\n4:memory:/job\n0::/\n";
  file("/proc/self/mountinfo") = "31 1 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
  file("/sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us") = "-1\n";
  file("/sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us") = "100000\n";
  EXPECT_EQ(quota(), 0u);
  file("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us") = "400000\n";
  file("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us") = "100000\n";
  EXPECT_EQ(quota(), 4u);
}

TEST_F(MemoryWatch, PressureOfTheLastTenSeconds) {
  file("/proc/pressure/memory") = "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=3.00 avg60=0.00\n";
  EXPECT_EQ(facts().pressure_percent, 12u);
}

TEST(MachineText, NumbersBehindKeys) {
  EXPECT_EQ(number_after("a 1\nab  22 kB\n", "ab "), 22);
  EXPECT_EQ(number_after("a 1\n", "b "), -1);
}

TEST_F(MemoryWatch, CodeAndFilesAreNotAProcesssOwn) {
  FakeMachine::memory_of(77, 900, 500, 700);
  EXPECT_EQ(process_memory(FakeMachine::machine(), 77).own_bytes, 500 * kKiB) << "a kernel that does not tell";
  file("/proc/77/status") += "RssAnon:\t300 kB\nRssFile:\t150 kB\nRssShmem:\t50 kB\n";
  EXPECT_EQ(process_memory(FakeMachine::machine(), 77).own_bytes, 350 * kKiB);
  EXPECT_EQ(process_memory(FakeMachine::machine(), 77).peak_own_bytes, 550 * kKiB);
}

TEST(Machine, SeesItself) {
  const ProcessTimes times = process_times(machine(), getpid());
  EXPECT_GT(times.start_ticks, 0u);
  EXPECT_EQ(times.parent, getppid());
  const ProcessMemory memory = process_memory(machine(), getpid());
  EXPECT_GT(memory.own_bytes, 0u);
  EXPECT_GE(memory.peak_own_bytes, memory.own_bytes / 2);
  EXPECT_GT(memory.virtual_bytes, memory.own_bytes);
  EXPECT_EQ(process_times(machine(), 0x7ffffff).start_ticks, 0u);
  EXPECT_GE(machine().processors(), 1u);
  EXPECT_GT(read_memory(machine()).available_bytes, 0u);
}

}  // namespace
}  // namespace graphpool
