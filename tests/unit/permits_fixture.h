// permits_fixture.h: a table of permits on a fake machine, for the unit tests of shim/compile.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>

#include "shim/compile/permit_table.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {

inline constexpr ProcessMemory kNothing{};
/// Of a compiler that starts at once.
inline constexpr std::uint64_t kBurst = 25'000'000;

/// A holder that has used no processor for so long lends its permit.
inline constexpr std::uint64_t kIdleNs = 10'000'000'000;

class Permits : public testing::Test {
 protected:
  Permits() {
    FakeMachine::reset();
    memory_ = static_cast<SharedPermits*>(
        mmap(nullptr, sizeof(SharedPermits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    make_permits(*memory_, true);
    table_ = PermitTable(*memory_, FakeMachine::machine());
    limits_.most = 3;
    request_.size_class = "cc c 0K";
    request_.since_ns = FakeMachine::clock_ns;
  }

  Admission take(Permit& permit) { return table_.try_take(request_, limits_, &facts_, permit); }
  Permit taken() {
    Permit permit;
    EXPECT_EQ(take(permit), Admission::kGranted);
    return permit;
  }
  void finish(const Permit& permit, std::uint64_t peak_bytes) {
    table_.give_back(permit, {peak_bytes * 2, peak_bytes / 2 + 1, peak_bytes});
  }
  std::uint64_t expected_bytes(std::string_view size_class, std::uint64_t input_bytes = 0) {
    return memory_->sizes.expected_bytes(memory_->sizes.find(size_class), input_bytes);
  }

  /// Never unmapped: permits that a test still holds are on the list of mutexes that the kernel and the C library walk.
  SharedPermits* memory_ = nullptr;
  PermitTable table_;
  PermitLimits limits_;
  PermitRequest request_;
  MemoryFacts facts_;  // unknown
};

}  // namespace graphpool
