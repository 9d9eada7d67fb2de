// Tests of shim/memory/slot_set.h.
#include <gtest/gtest.h>

#include <vector>

#include "shim/base/units.h"
#include "shim/memory/slot_set.h"
#include "shim/memory/vmm.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

class SlotSetTest : public testing::Test {
 protected:
  SlotSetTest() { forget(); }
  ~SlotSetTest() override {
    fake.hip->finish_when_waited = true;
    free_retired_slots(-1);
    forget();
  }
  static void forget() {
    for (int device = 0; device < fake::kDevices; ++device) {
      forget_vmm(device);
      stream_work().device_reset(device);
    }
  }
  std::unique_ptr<SlotSet> make(std::vector<SlotRequest> requests) {
    std::unique_ptr<SlotSet> set;
    EXPECT_EQ(SlotSet::create(requests, &set), hipSuccess);
    return set;
  }
  hipStream_t busy_stream() {
    hipStream_t stream = nullptr;
    EXPECT_EQ(next().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
    work_counts().created(stream, 0);
    fake::work(stream);
    work_counts().note_work(stream);
    return stream;
  }

  fake::Install fake;
};

std::uintptr_t value(void* address) { return reinterpret_cast<std::uintptr_t>(address); }

TEST_F(SlotSetTest, AlignedAndApart) {
  auto set = make({{100, 0}, {5000, 0}, {3 * kMiB, 0}, {kPageBytes, 0}});
  EXPECT_EQ(set->size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(value(set->address(i)) % kPageBytes, 0u);
  EXPECT_EQ(value(set->address(2)) % kLargePageBytes, 0u);
  for (std::size_t i = 0; i + 1 < 4; ++i)
    EXPECT_LE(value(set->address(i)) + round_up(set->bytes(i), kPageBytes), value(set->address(i + 1)));
  EXPECT_TRUE(set->is_vmm(0));
  EXPECT_EQ(fake.hip->mappings.size(), 1u) << "one chunk a device";
  EXPECT_LE(value(set->address(3)) + kPageBytes, fake.hip->mappings.begin()->first + set->total_bytes());
}

TEST_F(SlotSetTest, EachDeviceItsOwn) {
  auto set = make({{kMiB, 0}, {kMiB, 1}, {kMiB, 0}});
  EXPECT_EQ(fake.hip->mappings.size(), 2u);
  EXPECT_EQ(set->device(1), 1);
  EXPECT_EQ(fake::t_device, 0);
  EXPECT_GT(fake.hip->used_bytes[1], 0u);
}

TEST_F(SlotSetTest, rule_16_NothingIsMappedInACapture) {
  auto before = make({{100, 0}});
  EXPECT_TRUE(before->is_vmm(0));
  capture_opened();
  auto set = make({{200, 0}});
  EXPECT_FALSE(set->is_vmm(0));
  EXPECT_EQ(fake.hip->mappings.size(), 1u);
  capture_closed();
}

TEST_F(SlotSetTest, ClassicWhereThereIsNoVmm) {
  fake.hip->vmm = false;
  auto set = make({{100, 0}, {3 * kMiB, 0}});
  EXPECT_FALSE(set->is_vmm(0));
  EXPECT_EQ(value(set->address(1)) % kLargePageBytes, 0u);
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
  const auto& [base, allocation] = *fake.hip->allocations.begin();
  EXPECT_LE(value(set->address(1)) + 3 * kMiB, base + allocation.bytes);
  set.reset();
  EXPECT_TRUE(free_retired_slots(0));
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(SlotSetTest, rule_16_ClassicWhereMappingWouldWait) {
  fake.hip->version = 60300000;
  fake.hip->finish_when_waited = false;
  busy_stream();
  auto set = make({{100, 0}});
  EXPECT_FALSE(set->is_vmm(0));
  set.reset();
  EXPECT_FALSE(fake.hip->stuck) << "neither making nor dropping a set waits";
}

TEST_F(SlotSetTest, RetiredMemoryIsTakenOver) {
  hipStream_t stream = busy_stream();
  auto set = make({{kMiB, 0}, {100, 0}});
  void* const address = set->address(0);
  set.reset();
  EXPECT_GT(retired_slot_bytes(0), kMiB);
  auto other = make({{kMiB, 0}, {100, 0}});
  EXPECT_NE(other->address(0), address) << "the device may still use it";
  fake::finish(stream);
  auto third = make({{kMiB, 0}, {100, 0}});
  EXPECT_EQ(third->address(0), address);
  EXPECT_EQ(retired_slot_bytes(0), 0u);
  auto shape = make({{kMiB, 0}, {101, 0}});
  EXPECT_NE(shape->address(0), address);
}

TEST_F(SlotSetTest, RetiredMemoryIsFreedByDevice) {
  make({{kMiB, 0}}).reset();
  make({{kMiB, 1}}).reset();
  EXPECT_TRUE(free_retired_slots(1));
  EXPECT_EQ(retired_slot_bytes(1), 0u);
  EXPECT_GT(retired_slot_bytes(0), 0u);
  EXPECT_FALSE(free_retired_slots(1));
  EXPECT_TRUE(free_retired_slots(-1));
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(SlotSetTest, EveryCallFailedInTurn) {
  ASSERT_TRUE(vmm_works(0) && vmm_works(1));
  int injected = 0;
  for (const bool vmm : {true, false}) {
    forget_vmm(0);
    fake.hip->vmm = vmm;
    ASSERT_EQ(vmm_works(0), vmm);
    for (int n = 1;; ++n) {
      fake.hip->calls = 0;
      fake.hip->fail_at = n;
      fake.hip->fail_code = hipErrorOutOfMemory;
      fake.hip->failed.clear();
      const std::vector<SlotRequest> requests{{100, 0}, {kMiB, 1}};
      std::unique_ptr<SlotSet> set;
      const hipError_t error = SlotSet::create(requests, &set);
      fake.hip->fail_at = 0;
      EXPECT_EQ(set != nullptr, error == hipSuccess);
      EXPECT_EQ(fake::t_last_error, hipSuccess) << fake.hip->failed;
      set.reset();
      free_retired_slots(-1);
      EXPECT_FALSE(fake.hip->leaks()) << fake.hip->failed << " " << n;
      if (fake.hip->failed.empty()) break;
      ++injected;
    }
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 16);
}

TEST_F(SlotSetTest, OutOfMemory) {
  fake.hip->total_bytes = kMiB;
  std::unique_ptr<SlotSet> set;
  EXPECT_EQ(SlotSet::create(std::vector<SlotRequest>{{8 * kMiB, 0}}, &set), hipErrorOutOfMemory);
  EXPECT_EQ(set, nullptr);
  EXPECT_FALSE(fake.hip->leaks());
}

}  // namespace
}  // namespace graphpool
