// Tests of shim/memory/vmm.h.
#include <gtest/gtest.h>

#include "shim/memory/vmm.h"
#include "shim/streams/stream_work.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

class VmmTest : public testing::Test {
 protected:
  VmmTest() {
    for (int device = 0; device < fake::kDevices; ++device) {
      forget_vmm(device);
      stream_work().device_reset(device);
    }
  }
  ~VmmTest() override {
    for (int device = 0; device < fake::kDevices; ++device) {
      forget_vmm(device);
      stream_work().device_reset(device);
    }
  }
  std::unique_ptr<Chunk> make(std::size_t bytes) {
    std::unique_ptr<Chunk> chunk;
    EXPECT_EQ(make_chunk(0, bytes, &chunk), hipSuccess);
    return chunk;
  }

  fake::Install fake;
};

TEST_F(VmmTest, AChunkIsMappedOnceForAllDevices) {
  auto chunk = make(5 * kMiB + 1);
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(chunk->bytes(), 5 * kMiB + kPageBytes);
  EXPECT_EQ(chunk->base() % kLargePageBytes, 0u);
  EXPECT_TRUE(chunk->resident());
  EXPECT_TRUE(fake.hip->mappings.begin()->second.access);
  chunk.reset();
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(VmmTest, MisalignedReservationsAreAlignedByHand) {
  fake.hip->misalign_reservations = true;
  auto chunk = make(4 * kMiB);
  EXPECT_EQ(chunk->base() % kLargePageBytes, 0u);
  EXPECT_EQ(fake.hip->reservations.size(), 1u);
  EXPECT_EQ(fake.hip->reservations.begin()->second, 6 * kMiB);
  chunk.reset();
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(VmmTest, BeforeHip62AWholeReservationIsMapped) {
  fake.hip->version = 60140091;
  fake.hip->misalign_reservations = true;
  auto chunk = make(4 * kMiB);
  EXPECT_EQ(fake.hip->reservations.begin()->second, 4 * kMiB);
  EXPECT_EQ(fake.hip->reservations.begin()->first, chunk->base());
}

TEST_F(VmmTest, AMappingIsBelievedAfterAccessIsSet) {
  fake.hip->hide_map_errors = true;
  std::unique_ptr<Chunk> chunk;
  EXPECT_NE(make_chunk(0, kMiB, &chunk), hipSuccess);
  EXPECT_EQ(chunk, nullptr);
  EXPECT_FALSE(fake.hip->leaks());
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(VmmTest, UnloadKeepsTheAddresses) {
  auto chunk = make(kMiB);
  const std::uintptr_t base = chunk->base();
  chunk->unload();
  EXPECT_FALSE(chunk->resident());
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(fake.hip->reservations.size(), 1u);
  EXPECT_EQ(chunk->load(), hipSuccess);
  EXPECT_EQ(chunk->base(), base);
  EXPECT_TRUE(chunk->resident());
  chunk.reset();
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(VmmTest, EveryCallFailedInTurn) {
  int injected = 0;
  for (const bool misaligned : {false, true}) {
    fake.hip->misalign_reservations = misaligned;
    for (int n = 1;; ++n) {
      fake.hip->calls = 0;
      fake.hip->fail_at = n;
      fake.hip->failed.clear();
      std::unique_ptr<Chunk> chunk;
      hipError_t error = make_chunk(0, kMiB, &chunk);
      fake.hip->fail_at = 0;
      EXPECT_EQ(fake::t_last_error, hipSuccess) << fake.hip->failed;
      chunk.reset();
      if (fake.hip->failed.empty()) {
        EXPECT_EQ(error, hipSuccess);
        break;
      }
      ++injected;
      // A reservation whose freeing failed is lost; nothing else may be.
      if (fake.hip->failed == "hipMemAddressFree") fake.hip->reservations.clear();
      EXPECT_FALSE(fake.hip->leaks()) << fake.hip->failed << " " << n;
    }
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 16);
}

TEST_F(VmmTest, OutOfMemoryIsReported) {
  fake.hip->total_bytes = kMiB;
  std::unique_ptr<Chunk> chunk;
  EXPECT_EQ(make_chunk(0, 2 * kMiB, &chunk), hipErrorOutOfMemory);
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(VmmTest, WhetherItWorksIsTriedOnce) {
  EXPECT_TRUE(vmm_works(0));
  EXPECT_FALSE(fake.hip->leaks());
  const int calls = fake.hip->calls;
  EXPECT_TRUE(vmm_works(0));
  EXPECT_EQ(fake.hip->calls, calls);
}

TEST_F(VmmTest, WhereItDoesNotWork) {
  fake.hip->vmm = false;
  EXPECT_FALSE(vmm_works(0));
  EXPECT_FALSE(vmm_works(-1));
  forget_vmm(0);
  fake.hip->vmm = true;
}

TEST_F(VmmTest, NothingIsMappedWhereAMapChangesFillsOfExecs) {
  for (const int version : {60400000, 60443483, 70100000}) {
    test_set_runtime_version(version);
    const int calls = fake.hip->calls;
    EXPECT_FALSE(vmm_works(0)) << version;
    EXPECT_EQ(fake.hip->calls, calls) << version;
  }
  for (const int version : {60300000, 70200000}) {
    test_set_runtime_version(version);
    EXPECT_TRUE(vmm_works(0)) << version;
    forget_vmm(0);
  }
  test_set_runtime_version(-1);
}

TEST_F(VmmTest, NotTriedInACapture) {
  capture_opened();
  const int calls = fake.hip->calls;
  EXPECT_FALSE(vmm_works(0));
  EXPECT_EQ(fake.hip->calls, calls);
  capture_closed();
  EXPECT_TRUE(vmm_works(0));
}

TEST_F(VmmTest, rule_16_NothingIsMappedWhereItWouldWait) {
  fake.hip->version = 60300000;
  hipStream_t stream = nullptr;
  ASSERT_EQ(next().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
  work_counts().created(stream, 0);
  fake::work(stream);
  work_counts().note_work(stream);
  EXPECT_FALSE(may_map_now(0));
  EXPECT_TRUE(may_map_now(1));
  EXPECT_EQ(fake.hip->waits, 0);
  fake::finish(stream);
  EXPECT_TRUE(may_map_now(0)) << "it has finished meanwhile";
  fake.hip->version = 71500000;
  test_set_runtime_version(-1);
  fake::work(stream);
  work_counts().note_work(stream);
  EXPECT_TRUE(may_map_now(0));
}

}  // namespace
}  // namespace graphpool
