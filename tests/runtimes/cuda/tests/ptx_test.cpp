// The kernels of a PTX text, and the code object made of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/elf_object.h"
#include "rtc_object.h"

namespace cudahip {
namespace {

using hipfront::ObjectEntry;

constexpr char kPtx[] = R"(
// .entry in_a_comment(
.version 9.0
.target sm_90
.address_size 64
.global .align 4 .b8 coefficients[16];
.extern .shared .align 16 .b8 dynamic[];

.visible .entry mixed(
  .param .u64 mixed_param_0,
  .param .u32 mixed_param_1,
  .param .align 8 .b8 mixed_param_2[24],
  .param .u8 mixed_param_3,
  .param .u64 mixed_param_4
)
{
  .reg .b64 %rd<9>;
  .shared .align 4 .b8 parts[256];
  .shared .f32 one;
  ld.param.u64 %rd1, [mixed_param_0];
  ld.param.u64 %rd2, [mixed_param_4];
  { // a block of its own
  cvta.to.global.u64 %rd3, %rd1;
  }
  add.s64 %rd4, %rd2, %rd3;
  ret;
}
.weak .entry _Z4none()
.maxntid 128, 2, 1
{
  ret;
}
)";

TEST(Ptx, ParametersLieAsTheyAreAligned) {
  const std::vector<ObjectEntry> kernels = read_ptx(kPtx);
  ASSERT_EQ(kernels.size(), 2U);
  const ObjectEntry& mixed = kernels[0];
  EXPECT_EQ(mixed.name, "mixed");
  const std::pair<std::size_t, std::size_t> expected[] = {{0, 8}, {8, 4}, {16, 24}, {40, 1}, {48, 8}};
  ASSERT_EQ(mixed.arguments.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(mixed.arguments[i].offset, expected[i].first) << i;
    EXPECT_EQ(mixed.arguments[i].bytes, expected[i].second) << i;
  }
  EXPECT_EQ(mixed.args_align, 8U);
}

TEST(Ptx, TabsAreAsGoodAsSpaces) {
  std::string tabbed(kPtx);
  std::replace(tabbed.begin(), tabbed.end(), ' ', '\t');
  const std::vector<ObjectEntry> kernels = read_ptx(tabbed);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "mixed");
  EXPECT_EQ(kernels[0].arguments.size(), 5U);
  EXPECT_TRUE(kernels[0].arguments[0].pointer);
  EXPECT_EQ(kernels[0].static_shared_bytes, 260U);
}

TEST(Ptx, AnAddressIsWhatTheKernelUsesAsOne) {
  const ObjectEntry mixed = read_ptx(kPtx)[0];
  EXPECT_TRUE(mixed.arguments[0].pointer);
  EXPECT_FALSE(mixed.arguments[2].pointer);
  EXPECT_FALSE(mixed.arguments[4].pointer) << "a number of 64 bits";
}

TEST(Ptx, SharedMemoryAndLaunchBounds) {
  const std::vector<ObjectEntry> kernels = read_ptx(kPtx);
  EXPECT_EQ(kernels[0].static_shared_bytes, 260U);
  EXPECT_EQ(kernels[0].max_threads, 1024U);
  EXPECT_EQ(kernels[1].name, "_Z4none");
  EXPECT_TRUE(kernels[1].arguments.empty());
  EXPECT_EQ(kernels[1].max_threads, 256U);
}

TEST(Ptx, BrokenTextEnds) {
  for (std::size_t length = 0; length < sizeof kPtx; ++length) read_ptx(std::string_view(kPtx, length));
}

TEST(Object, HoldsTheMetadataAndTheText) {
  const std::vector<std::byte> object = make_object(kPtx);
  EXPECT_EQ(hipfront::elf_bytes(object.data()), object.size());
  const std::vector<ObjectEntry> kernels = hipfront::read_metadata(object);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].arguments.size(), 5U);
  EXPECT_TRUE(kernels[0].arguments[0].pointer);
  ASSERT_NE(ptx_of(object), nullptr);
  EXPECT_STREQ(ptx_of(object), kPtx);
  EXPECT_EQ(ptx_of(std::span(object).first(100)), nullptr);
}

}  // namespace
}  // namespace cudahip
