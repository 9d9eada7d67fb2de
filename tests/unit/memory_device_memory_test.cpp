// Tests of shim/memory/device_memory.h.
#include <unistd.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

TEST_F(DeviceMemoryTest, AfterADeviceErrorEverythingIsForwarded) {
  char* ptr = get(100);
  char* kept = get(200);
  drop(kept);
  testing::internal::CaptureStderr();
  memory.note_error(hipErrorInvalidValue);
  memory.note_error(hipErrorNotInitialized);  // of no device
  EXPECT_TRUE(memory.kept.keeping().on());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  memory.note_error(hipErrorIllegalAddress);
  memory.note_error(hipErrorIllegalAddress);
  EXPECT_FALSE(memory.kept.keeping().on());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "graphpool[" + std::to_string(getpid()) +
                "]: warning: a call failed with error 700: no memory is kept until the device is reset\n");
  fake.hip->fail["hipMalloc"] = fake.hip->fail["hipFree"] = hipErrorIllegalAddress;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 200), hipErrorIllegalAddress);
  EXPECT_EQ(free(ptr), hipErrorIllegalAddress);
  fake.hip->fail.clear();
  memory.device_reset(0);
  EXPECT_TRUE(memory.kept.keeping().on());
}

TEST_F(DeviceMemoryTest, rule_39_DisableGivesEverythingBack) {
  char* live = get(100);
  drop(get(200));
  memory.kept.keeping().switch_off();
  memory.room.release_all();
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
  EXPECT_EQ(free(live), hipSuccess);
  EXPECT_FALSE(fake.hip->leaks());
  drop(get(100));
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(DeviceMemoryTest, rule_31_DeviceResetDropsTheDevice) {
  char* live = get(100);
  char* kept = get(200);
  drop(kept);
  fake::t_device = 1;
  char* other = get(100);
  fake::t_device = 0;
  use_vmm();
  get(300);
  hipStream_t stream = busy_stream();
  memory.device_reset(0);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(table.find(live), nullptr);
  EXPECT_EQ(table.find(kept), nullptr);
  EXPECT_NE(table.find(other), nullptr);
  EXPECT_TRUE(fake.hip->mappings.empty());
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 0u);
  EXPECT_FALSE(memory.chunks.any_parts());
  EXPECT_NE(get(200), kept);
}

TEST_F(DeviceMemoryTest, EveryCallFailedInTurn) {
  int injected = 0;
  for (const bool vmm : {false, true}) {
    for (const bool deferred : {false, true}) {
      for (int n = 1;; ++n) {
        stream_work().device_reset(0);
        forget_vmm(0);
        g_decision = {};
        if (vmm) use_vmm();
        DeviceMemory& fresh = never_destroyed<DeviceMemory>(stream_work());
        settings.deferred_free = deferred;
        fresh.configure(settings, &fixed_decision);
        fake.hip->calls = 0;
        fake.hip->fail_at = n;
        fake.hip->failed.clear();
        fake.hip->fail_code = hipErrorUnknown;
        fake::t_last_error = hipSuccess;
        for (int step = 0; step < 3; ++step) {
          void* ptr = nullptr;
          const hipError_t got = fresh.pool.allocate({AllocationFunction::kMalloc, 5000, 0, 0, nullptr}, &ptr);
          if (got != hipSuccess) {
            EXPECT_EQ(fake.hip->failed, "hipMalloc");
            EXPECT_EQ(fake::t_last_error, hipErrorUnknown);
            fake::t_last_error = hipSuccess;
            continue;
          }
          fake::work(nullptr);
          work_counts().note_work(nullptr);
          hipError_t freed = fresh.frees.free(ptr, next().hipFree);
          if (freed != hipSuccess) {
            EXPECT_EQ(fake.hip->failed, "hipFree");
            fake::t_last_error = hipSuccess;
            freed = fresh.frees.free(ptr, next().hipFree);
          }
          EXPECT_EQ(freed, hipSuccess);
          EXPECT_EQ(fake::t_last_error, hipSuccess) << fake.hip->failed;
        }
        EXPECT_TRUE(fresh.is_valid());
        fake.hip->fail_at = 0;
        fresh.device_reset(0);
        const bool done = fake.hip->failed.empty();
        // What the runtime refused to take back is lost; nothing else may be.
        if (fake.hip->failed == "hipMemAddressFree") fake.hip->reservations.clear();
        if (fake.hip->failed == "hipMemUnmap") fake.hip->mappings.clear();
        if (fake.hip->failed == "hipMemRelease") fake.hip->physicals.clear();
        EXPECT_TRUE(fake.hip->mappings.empty() && fake.hip->physicals.empty()) << fake.hip->failed;
        fake.hip->mappings.clear();
        fake.hip->reservations.clear();
        fake.hip->physicals.clear();
        if (done) break;
        ++injected;
      }
    }
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 40);
}

TEST_F(DeviceMemoryTest, ManyThreads) {
  settings.limit_bytes = 2 * kMiB;
  configure();
  fake.hip->total_bytes = 64 * kMiB;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<char*, std::size_t>> mine;
      for (int step = 0; step < 1500; ++step) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const std::size_t bytes = (1 + random() % 6) * 10'000;
          void* ptr = nullptr;
          if (malloc(&ptr, bytes) != hipSuccess) {
            ++failures;
            continue;
          }
          mine.emplace_back(static_cast<char*>(ptr), bytes);
        } else if (!mine.empty()) {
          const std::size_t index = random() % mine.size();
          const auto [ptr, bytes] = mine[index];
          const Block* block = table.find(ptr + bytes - 1);
          if (block == nullptr || !block->live() || block->pointer() != ptr || block->bytes() != bytes) ++failures;
          if (random() % 50 == 0) enqueue(nullptr);
          if (free(ptr) != hipSuccess) ++failures;
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(index));
        }
      }
      for (const auto& [ptr, bytes] : mine) drop(ptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(memory.room.hidden_free_bytes(0), 2 * kMiB);
  EXPECT_EQ(fake.hip->used_bytes[0], memory.room.hidden_free_bytes(0));
}

}  // namespace
}  // namespace graphpool
