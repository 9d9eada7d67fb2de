// translate.h without a device: structures and numbers by HIP's version. Run once for each layout (CUDAHIP_VERSION).
#include "translate.h"

#include <gtest/gtest.h>

namespace cudahip {
namespace {

bool six() { return version() >= 60000000; }

cu::Address of(std::uintptr_t place) { return place; }
void* at(std::uintptr_t place) { return reinterpret_cast<void*>(place); }

/// A copy from the host to a device with every number another; Params is HIP_MEMCPY3D as the version has it.
template <typename Params>
Params driver_box() {
  Params box{};
  box.srcXInBytes = 1, box.srcY = 2, box.srcZ = 3, box.srcLOD = 4;
  box.srcMemoryType = static_cast<hipMemoryType>(six() ? 1 : 0);
  box.srcHost = at(0x1000), box.srcPitch = 5, box.srcHeight = 6;
  box.dstXInBytes = 7, box.dstY = 8, box.dstZ = 9, box.dstLOD = 10;
  box.dstMemoryType = static_cast<hipMemoryType>(six() ? 2 : 1);
  box.dstDevice = at(0x2000), box.dstPitch = 11, box.dstHeight = 12;
  box.WidthInBytes = 13, box.Height = 14, box.Depth = 15;
  return box;
}

template <typename Params>
void box_goes_there_and_back() {
  Params box = driver_box<Params>(), back{};
  auto* const given = reinterpret_cast<const HIP_MEMCPY3D*>(&box);
  cu::Copy3D copy;
  ASSERT_EQ(translate(*given, &copy), hipSuccess);
  EXPECT_EQ(copy.src_type, cu::kHostMemory);
  EXPECT_EQ(copy.dst_type, cu::kDeviceMemory);
  EXPECT_EQ(copy.src_host, at(0x1000));
  EXPECT_EQ(copy.dst_device, of(0x2000));
  EXPECT_EQ(copy.src_x, 1U);
  EXPECT_EQ(copy.src_y, 2U);
  EXPECT_EQ(copy.src_z, 3U);
  EXPECT_EQ(copy.src_level, 4U);
  EXPECT_EQ(copy.src_pitch, 5U);
  EXPECT_EQ(copy.src_height, 6U);
  EXPECT_EQ(copy.dst_x, 7U);
  EXPECT_EQ(copy.dst_y, 8U);
  EXPECT_EQ(copy.dst_z, 9U);
  EXPECT_EQ(copy.dst_level, 10U);
  EXPECT_EQ(copy.dst_pitch, 11U);
  EXPECT_EQ(copy.dst_height, 12U);
  EXPECT_EQ(copy.width, 13U);
  EXPECT_EQ(copy.height, 14U);
  EXPECT_EQ(copy.depth, 15U);

  translate(copy, reinterpret_cast<HIP_MEMCPY3D*>(&back));
  EXPECT_EQ(back.srcMemoryType, box.srcMemoryType);
  EXPECT_EQ(back.dstMemoryType, box.dstMemoryType);
  EXPECT_EQ(back.srcHost, box.srcHost);
  EXPECT_EQ(back.dstDevice, box.dstDevice);
  EXPECT_EQ(back.srcHeight, box.srcHeight);
  EXPECT_EQ(back.dstPitch, box.dstPitch);
  EXPECT_EQ(back.Depth, box.Depth);

  box.srcMemoryType = static_cast<hipMemoryType>(six() ? 11 : 3);
  ASSERT_EQ(translate(*given, &copy), hipSuccess);
  EXPECT_EQ(copy.src_type, cu::kUnifiedMemory);
  box.dstMemoryType = static_cast<hipMemoryType>(six() ? 10 : 2);
  EXPECT_EQ(translate(*given, &copy), hipErrorNotSupported) << "arrays";
}

TEST(Translate, DriverBoxes) {
  if (six()) {
    box_goes_there_and_back<hipfront::WideMemcpy3D>();
  } else {
    box_goes_there_and_back<HIP_MEMCPY3D>();
  }
}

TEST(Translate, DriverRows) {
  hip_Memcpy2D plane{};
  plane.srcXInBytes = 1, plane.srcY = 2, plane.srcPitch = 3;
  plane.srcMemoryType = static_cast<hipMemoryType>(six() ? 2 : 1);
  plane.srcDevice = at(0x1000);
  plane.dstXInBytes = 4, plane.dstY = 5, plane.dstPitch = 6;
  plane.dstMemoryType = static_cast<hipMemoryType>(six() ? 1 : 0);
  plane.dstHost = at(0x2000);
  plane.WidthInBytes = 7, plane.Height = 8;
  cu::Copy2D copy;
  ASSERT_EQ(translate(plane, &copy), hipSuccess);
  EXPECT_EQ(copy.src_type, cu::kDeviceMemory);
  EXPECT_EQ(copy.src_device, of(0x1000));
  EXPECT_EQ(copy.dst_type, cu::kHostMemory);
  EXPECT_EQ(copy.dst_host, at(0x2000));
  const std::size_t numbers[] = {copy.src_x, copy.src_y,     copy.src_pitch, copy.dst_x,
                                 copy.dst_y, copy.dst_pitch, copy.width,     copy.height};
  for (std::size_t i = 0; i < std::size(numbers); ++i) EXPECT_EQ(numbers[i], i + 1);
}

TEST(Translate, Fills) {
  const hipfront::MemsetNodeParams params{at(0x1000), 1, 2, 4, 5, 6};
  const cu::MemsetNode fill = driver_fill(&params);
  EXPECT_EQ(fill.dst, of(0x1000));
  EXPECT_EQ(fill.pitch, 1U);
  EXPECT_EQ(fill.value, 2U);
  EXPECT_EQ(fill.element_bytes, 4U);
  EXPECT_EQ(fill.width, 5U);
  EXPECT_EQ(fill.height, 6U);
  const hipMemsetParams runtime = translate(fill);
  EXPECT_EQ(runtime.dst, at(0x1000));
  EXPECT_EQ(runtime.pitch, 1U);
  EXPECT_EQ(runtime.value, 2U);
  EXPECT_EQ(runtime.elementSize, 4U);
  EXPECT_EQ(runtime.width, 5U);
  EXPECT_EQ(runtime.height, 6U);
  EXPECT_EQ(translate(runtime).element_bytes, 4U);
}

TEST(Translate, BatchesOfMemoryOperations) {
  int operations = 0;
  hipfront::BatchMemOpNodeParams batch{static_cast<hipCtx_t>(at(0x1000)), 2, &operations, 3};
  const cu::BatchNode node = translate(batch);
  EXPECT_EQ(static_cast<void*>(node.context), at(0x1000));
  EXPECT_EQ(node.count, 2U);
  EXPECT_EQ(node.operations, &operations);
  EXPECT_EQ(node.flags, 3U);
  const hipfront::BatchMemOpNodeParams back = translate(node);
  EXPECT_EQ(back.context, batch.context);
  EXPECT_EQ(back.operations, batch.operations);
}

TEST(Translate, BoxesOfTheRuntime) {
  hipMemcpy3DParms box{};
  box.srcPtr = {at(0x1000), 16, 8, 4}, box.dstPtr = {at(0x2000), 32, 8, 5};
  box.srcPos = {1, 2, 3}, box.dstPos = {4, 5, 6};
  box.extent = {7, 8, 9};
  box.kind = static_cast<hipMemcpyKind>(99);
  cu::Copy3D copy;
  EXPECT_EQ(translate(box, &copy), hipErrorInvalidMemcpyDirection);
  box.kind = hipMemcpyDefault;
  ASSERT_EQ(translate(box, &copy), hipSuccess);
  EXPECT_EQ(copy.src_type, cu::kUnifiedMemory);
  EXPECT_EQ(copy.src_device, of(0x1000));
  EXPECT_EQ(copy.src_pitch, 16U);
  EXPECT_EQ(copy.src_height, 4U);
  EXPECT_EQ(copy.dst_pitch, 32U);
  EXPECT_EQ(copy.dst_height, 5U);
  EXPECT_EQ(copy.src_z, 3U);
  EXPECT_EQ(copy.dst_x, 4U);
  EXPECT_EQ(copy.depth, 9U);
}

TEST(Translate, NumbersFollowTheVersion) {
  const int first = six() ? 0 : 1;
  EXPECT_EQ(node_type(0), first) << "a kernel";
  EXPECT_EQ(node_type(12), 14 + first) << "a batch of memory operations";
  EXPECT_EQ(memory_type(cu::kHostMemory, false), six() ? 1 : 0);
  EXPECT_EQ(memory_type(cu::kDeviceMemory, false), six() ? 2 : 1);
  EXPECT_EQ(memory_type(cu::kDeviceMemory, true), 3);
  EXPECT_EQ(same_external_layout(), six() ? hipSuccess : hipErrorNotSupported);
}

TEST(Translate, AllocationProperties) {
  const cu::AllocationProperties properties{1, 2, {1, 3}, nullptr, 0, 0, 0, {}};
  alignas(cu::AllocationProperties) unsigned char room[2 * sizeof(hipMemAllocationProp)] = {};
  auto* const hip = reinterpret_cast<hipMemAllocationProp*>(room);
  translate(properties, hip);
  const cu::AllocationProperties back = translate(*hip);
  EXPECT_EQ(back.type, 1);
  EXPECT_EQ(back.handle_types, 2);
  EXPECT_EQ(back.location.type, 1);
  EXPECT_EQ(back.location.id, 3);
  if (!six()) {
    EXPECT_EQ(hip->location.id, 3);
  }
}

}  // namespace
}  // namespace cudahip
