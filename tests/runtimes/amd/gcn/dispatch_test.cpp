// Dispatches as a whole: workgroups, barriers, traps, and who waits for whom. Code is given in words, its text beside
// it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <vector>

#include "../settings.h"
#include "loaded_words.h"

// What the interpreter takes from the rest of the runtime.
namespace hsa_cpu {
const Settings& settings() {
  static const Settings* const all = [] {
    auto* const made = new Settings{};
    made->run_kernels = true;
    return made;
  }();
  return *all;
}
void complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
}
void journal(const char*, ...) {}
}  // namespace hsa_cpu

namespace hsa_cpu {
namespace {

/// Each wave counts itself, then spins until as many have as the argument says.
const Words kAllMeet = {
    0xC0060100, 0x00000000,  // s_load_dwordx2 s[4:5], s[0:1], 0x0
    0xC0020180, 0x00000008,  // s_load_dword s6, s[0:1], 0x8
    0xBEFE0181,              // s_mov_b64 exec, 1
    0x7E020280,              // v_mov_b32 v1, 0
    0x7E040281,              // v_mov_b32 v2, 1
    0xDD088000, 0x00040201,  // global_atomic_add v1, v2, s[4:5]
    0xDC518000, 0x03040001,  // global_load_dword v3, v1, s[4:5] glc
    0x7E0E0503,              // v_readfirstlane_b32 s7, v3
    0xBF0A0607,              // s_cmp_lt_u32 s7, s6
    0xBF85FFFB,              // s_cbranch_scc1 (the load)
    0xBF810000,              // s_endpgm
};
struct Meeting {
  std::uint32_t* count;
  std::uint64_t wanted;
};

/// Lanes of 256 write their number to the workgroup's memory, and read after the barrier what another wave wrote.
const Words kMirror = {
    0xC0060100, 0x00000000,  // s_load_dwordx2 s[4:5], s[0:1], 0x0
    0x24020082,              // v_lshlrev_b32 v1, 2, v0
    0xD81A0000, 0x00000001,  // ds_write_b32 v1, v0
    0xBF8A0000,              // s_barrier
    0x2A0402FF, 0x000000FC,  // v_xor_b32 v2, 0xfc, v1
    0x2A0404FF, 0x00000300,  // v_xor_b32 v2, 0x300, v2
    0xD86C0000, 0x03000002,  // ds_read_b32 v3, v2
    0xDC708000, 0x00040301,  // global_store_dword v1, v3, s[4:5]
    0xBF810000,              // s_endpgm
};

TEST(Dispatch, WavesOfAWorkgroupMeetAtABarrier) {
  std::uint32_t results[256] = {};
  const std::uint32_t* const argument = results;
  EXPECT_EQ(Loaded(kMirror, 1024).run(256, 256, &argument), HSA_STATUS_SUCCESS);
  for (std::uint32_t lane = 0; lane < 256; ++lane) EXPECT_EQ(results[lane], 255 - lane);
}

TEST(Dispatch, LanesBeyondTheGridDoNothing) {
  std::uint32_t results[256] = {};
  const std::uint32_t* const argument = results;
  EXPECT_EQ(Loaded(kMirror, 1024).run(100, 256, &argument), HSA_STATUS_SUCCESS);
  for (std::uint32_t lane = 100; lane < 256; ++lane) EXPECT_EQ(results[lane], 0u);
}

TEST(Dispatch, WorkgroupsMayWaitForOnesThatHaveNotBegun) {
  std::uint32_t count = 0;
  constexpr std::uint32_t kGroups = 200;
  const Meeting meeting{&count, kGroups};
  EXPECT_EQ(Loaded(kAllMeet).run(kGroups * 64, 64, &meeting), HSA_STATUS_SUCCESS);
  EXPECT_EQ(count, kGroups);
}

TEST(Dispatch, QueuesMayWaitForEachOther) {
  std::uint32_t count = 0;
  const Meeting meeting{&count, 2};
  const Loaded kernel(kAllMeet);
  std::thread other([&] { EXPECT_EQ(kernel.run(64, 64, &meeting), HSA_STATUS_SUCCESS); });
  EXPECT_EQ(kernel.run(64, 64, &meeting), HSA_STATUS_SUCCESS);
  other.join();
  EXPECT_EQ(count, 2u);
}

TEST(Dispatch, OneThatWaitsForEverEndsWhenItsQueueIsStopped) {
  std::uint32_t count = 0;
  const Meeting meeting{&count, 2};
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    while (__atomic_load_n(&count, __ATOMIC_SEQ_CST) == 0) std::this_thread::yield();
    stop = true;
  });
  EXPECT_EQ(Loaded(kAllMeet).run(64, 64, &meeting, stop), HSA_STATUS_SUCCESS);
  stopper.join();
}

TEST(Dispatch, ATrapIsAnError) {
  const Words code = {0xBF920002,   // s_trap 2
                      0xBF810000};  // s_endpgm
  EXPECT_EQ(Loaded(code).run(64, 64, nullptr), HSA_STATUS_ERROR_EXCEPTION);
}

TEST(Dispatch, CodeThatIsLoadedAgainElsewhereIsDecodedAnew) {
  std::uint32_t results[256] = {};
  const std::uint32_t* const argument = results;
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(Loaded({0xBF810000}).run(64, 64, nullptr), HSA_STATUS_SUCCESS);
    EXPECT_EQ(Loaded(kMirror, 1024).run(256, 256, &argument), HSA_STATUS_SUCCESS);
  }
  EXPECT_EQ(results[0], 255u);
}

TEST(Dispatch, CodeGoesOnBeyondAPageOfDecodedInstructions) {
  // 1,021 words before an instruction of two: it and what follows lie in pages of their own.
  Words code(1021, 0xBF800000);  // s_nop 0
  code.insert(code.end(), kAllMeet.begin(), kAllMeet.end());
  std::uint32_t count = 0;
  const Meeting meeting{&count, 3};
  EXPECT_EQ(Loaded(code).run(3 * 64, 64, &meeting), HSA_STATUS_SUCCESS);
  EXPECT_EQ(count, 3u);
}

TEST(DispatchDeathTest, AnOperationThatIsInNoTableEndsTheProcess) {
  const Words code = {0xF0000000, 0x00000000, 0xBF810000};
  EXPECT_DEATH(Loaded(code).run(64, 64, nullptr),
               "kernel a_kernel: no such operation: image, words f0000000 00000000 at 0x");
}

TEST(DispatchDeathTest, AProductOfMatricesWithModifiersItDoesNotHaveEndsTheProcess) {
  const char* const why = "kernel a_kernel: cbsz, abid or blgp that it does not have: v_mfma_.*, words d3";
  // v_mfma_f32_32x32x8f16 a[0:15], v[2:3], v[4:5], a[0:15] cbsz:1 abid:1
  const Words more_blocks = {0xD3CC0900, 0x04020902};
  // v_mfma_f32_4x4x1f32 a[0:3], v2, v4, a[0:3] cbsz:2 abid:4
  const Words another_block = {0xD3C22200, 0x04020902};
  // v_mfma_f64_4x4x4f64 v[0:1], v[2:3], v[4:5], 0 blgp:1
  const Words double_lanes = {0xD3EF0000, 0x22020902};
  for (const Words& code : {more_blocks, another_block, double_lanes})
    EXPECT_DEATH(Loaded(code).run(64, 64, nullptr), why);
}

TEST(DispatchDeathTest, AJumpToWhereNoCodeIsEndsTheProcess) {
  const Words code = {0xBE801D80};  // s_setpc_b64 0
  EXPECT_DEATH(Loaded(code).run(64, 64, nullptr), "kernel a_kernel: goes on at 0, where no code is");
}

}  // namespace
}  // namespace hsa_cpu
