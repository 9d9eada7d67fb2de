// What the runtime must refuse is replaced in a copy of the structure, however the copy or fill is written. The memory
// is a part of a chunk, whose end only the library knows.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "shim/hip/quirks.h"
#include "shim/memory/copy_params.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/never_address.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr std::size_t kPitch = 64, kRows = 4, kWidth = 16;
/// From the second row of the second slice two rows of three slices, so many bytes each: the memory ends with them.
constexpr std::size_t kBytes = (3 * kRows + 2) * kPitch + kWidth;
constexpr std::size_t kBegin = (kRows + 1) * kPitch;

void* const kHost = reinterpret_cast<void*>(0x5500'0000'0000);

/// What stands for memory that the runtime must refuse.
void* refused() { return too_small_memory(0); }

class CopyParamsTest : public ::testing::Test {
 protected:
  CopyParamsTest() {
    forget();
    device_memory().configure({}, [](const AllocationRequest&) { return Decision{.backing = BlockBacking::kVmm}; });
    EXPECT_EQ(hipSuccess, device_memory().pool.allocate({AllocationFunction::kMalloc, kBytes}, &memory));
    EXPECT_TRUE(device_memory().chunks.any_parts());
  }
  ~CopyParamsTest() override { forget(); }
  static void forget() {
    device_memory().device_reset(0);
    forget_vmm(0);
    stream_work().device_reset(0);
  }
  void free() { EXPECT_EQ(hipSuccess, device_memory().frees.free(memory, next().hipFree)); }

  fake::Install fake;
  void* memory = nullptr;
  ParamsCopy copy;
};

TEST_F(CopyParamsTest, null_stays_null) {
  EXPECT_EQ(nullptr, checked_params(static_cast<const hipMemcpy3DParms*>(nullptr), &copy));
  EXPECT_EQ(nullptr, checked_params(static_cast<const hip_Memcpy2D*>(nullptr), &copy));
  EXPECT_EQ(nullptr, checked_params(static_cast<const HIP_MEMCPY3D*>(nullptr), &copy));
  EXPECT_EQ(nullptr, checked_params(static_cast<const hipMemsetParams*>(nullptr), &copy));
  EXPECT_EQ(nullptr, checked_driver_fill(nullptr, &copy));
  EXPECT_EQ(nullptr, checked_node(nullptr, &copy));
}

hipMemoryType type_of(int number) { return static_cast<hipMemoryType>(number); }

hipMemcpy3DParms box(void* dst, void* src) {
  hipMemcpy3DParms params{};
  params.srcPtr = {src, kPitch, kPitch, kRows};
  params.dstPtr = {dst, kPitch, kPitch, kRows};
  params.srcPos = params.dstPos = {0, 1, 1};
  params.extent = {kWidth, 2, 3};
  return params;
}

TEST_F(CopyParamsTest, rule_22_boxes_end_where_the_memory_does) {
  hipMemcpy3DParms params = box(memory, memory);
  EXPECT_EQ(&params, checked_params(&params, &copy));
  params.srcPos.x = 1;
  const hipMemcpy3DParms* checked = checked_params(&params, &copy);
  ASSERT_NE(&params, checked);
  EXPECT_EQ(refused(), checked->srcPtr.ptr);
  EXPECT_EQ(0u, checked->srcPos.x + checked->srcPos.y + checked->srcPos.z) << "the side begins at its base";
  EXPECT_EQ(1u, checked->dstPos.y);
  EXPECT_EQ(memory, checked->dstPtr.ptr);
  EXPECT_EQ(memory, params.srcPtr.ptr) << "the program's own is left as it is";
  params.srcPos.x = 0;
  params.dstPos.z = 2;
  checked = checked_params(&params, &copy);
  ASSERT_NE(&params, checked);
  EXPECT_EQ(memory, checked->srcPtr.ptr);
  EXPECT_EQ(refused(), checked->dstPtr.ptr);
  params.extent.depth = 0;
  EXPECT_EQ(&params, checked_params(&params, &copy)) << "nothing is touched";
}

TEST_F(CopyParamsTest, beside_an_array_only_the_beginning_is_looked_at) {
  hipMemcpy3DParms params = box(nullptr, memory);
  params.dstArray = reinterpret_cast<hipArray_t>(kHost);
  params.extent = {1000, 1000, 1000};
  EXPECT_EQ(&params, checked_params(&params, &copy)) << "elements of an unknown size";
  free();
  EXPECT_NE(&params, checked_params(&params, &copy));
}

TEST_F(CopyParamsTest, a_pointer_beside_an_array_is_not_looked_at) {
  hipMemcpy3DParms params = box(memory, memory);
  params.srcArray = reinterpret_cast<hipArray_t>(kHost);
  params.dstArray = reinterpret_cast<hipArray_t>(kHost);
  free();
  EXPECT_EQ(&params, checked_params(&params, &copy));
}

TEST_F(CopyParamsTest, a_device_pointer_beside_host_memory_or_an_array_is_not_looked_at) {
  free();
  for (const int version : {50221153, 60000000}) {
    test_set_runtime_version(version);
    const bool wide = version >= 60000000;
    const hipMemoryType host = type_of(wide ? 1 : 0), device = type_of(wide ? 2 : 1), array = type_of(wide ? 10 : 2);
    for (const hipMemoryType unused : {host, array}) {
      hip_Memcpy2D plane{};
      plane.srcDevice = plane.dstDevice = memory;
      plane.srcXInBytes = plane.dstXInBytes = 8;
      plane.WidthInBytes = plane.Height = 1;
      plane.srcMemoryType = plane.dstMemoryType = unused;
      EXPECT_EQ(&plane, checked_params(&plane, &copy));
      plane.srcMemoryType = device;
      EXPECT_EQ(refused(), checked_params(&plane, &copy)->srcDevice);
      EXPECT_EQ(memory, checked_params(&plane, &copy)->dstDevice);
      EXPECT_EQ(8u, checked_params(&plane, &copy)->dstXInBytes) << "the used side begins where it did";

      HIP_MEMCPY3D narrow{};
      narrow.srcDevice = narrow.dstDevice = memory;
      narrow.WidthInBytes = narrow.Height = narrow.Depth = 1;
      narrow.srcMemoryType = narrow.dstMemoryType = unused;
      WideMemcpy3D wide_box{};
      wide_box.src_device = wide_box.dst_device = memory;
      wide_box.width_bytes = wide_box.height = wide_box.depth = 1;
      wide_box.src_type = wide_box.dst_type = unused;
      const auto* const given = wide ? reinterpret_cast<const HIP_MEMCPY3D*>(&wide_box) : &narrow;
      EXPECT_EQ(given, checked_params(given, &copy));
      narrow.dstMemoryType = wide_box.dst_type = device;
      EXPECT_NE(given, checked_params(given, &copy));
    }
  }
  test_set_runtime_version(-1);
}

TEST_F(CopyParamsTest, rule_24_freed_memory_is_refused) {
  const hipMemcpy3DParms to = box(memory, kHost), from = box(kHost, memory);
  EXPECT_EQ(&to, checked_params(&to, &copy));
  free();
  EXPECT_EQ(refused(), checked_params(&to, &copy)->dstPtr.ptr);
  EXPECT_EQ(kHost, checked_params(&to, &copy)->srcPtr.ptr);
  EXPECT_EQ(refused(), checked_params(&from, &copy)->srcPtr.ptr);
}

TEST_F(CopyParamsTest, rule_22_planes_end_where_the_memory_does) {
  test_set_runtime_version(60000000);
  hip_Memcpy2D params{};
  params.srcMemoryType = params.dstMemoryType = type_of(2);
  params.srcDevice = params.dstDevice = memory;
  params.srcPitch = params.dstPitch = kPitch;
  params.WidthInBytes = kWidth;
  params.Height = kBytes / kPitch + 1;
  EXPECT_EQ(&params, checked_params(&params, &copy));
  params.srcXInBytes = 1;
  EXPECT_EQ(refused(), checked_params(&params, &copy)->srcDevice);
  EXPECT_EQ(memory, checked_params(&params, &copy)->dstDevice);
  params.srcXInBytes = 0;
  params.dstY = 1;
  EXPECT_EQ(refused(), checked_params(&params, &copy)->dstDevice);
  EXPECT_EQ(memory, checked_params(&params, &copy)->srcDevice);
  test_set_runtime_version(-1);
}

TEST_F(CopyParamsTest, rule_22_driver_boxes_have_the_layout_of_the_version) {
  HIP_MEMCPY3D narrow{};
  narrow.srcMemoryType = narrow.dstMemoryType = type_of(1);
  narrow.srcDevice = narrow.dstDevice = memory;
  narrow.srcPitch = narrow.dstPitch = kPitch;
  narrow.srcHeight = narrow.dstHeight = kRows;
  narrow.srcY = narrow.srcZ = narrow.dstY = narrow.dstZ = 1;
  narrow.WidthInBytes = kWidth, narrow.Height = 2, narrow.Depth = 3;
  test_set_runtime_version(50221153);
  EXPECT_EQ(&narrow, checked_params(&narrow, &copy));
  narrow.dstXInBytes = 1;
  EXPECT_EQ(refused(), checked_params(&narrow, &copy)->dstDevice);
  EXPECT_EQ(memory, checked_params(&narrow, &copy)->srcDevice);

  WideMemcpy3D wide{};
  wide.src_type = wide.dst_type = type_of(2);
  wide.src_device = wide.dst_device = memory;
  wide.src_pitch = wide.dst_pitch = kPitch;
  wide.src_height = wide.dst_height = kRows;
  wide.src_y = wide.src_z = wide.dst_y = wide.dst_z = 1;
  wide.width_bytes = kWidth, wide.height = 2, wide.depth = 3;
  const auto* const given = reinterpret_cast<const HIP_MEMCPY3D*>(&wide);
  test_set_runtime_version(60000000);
  EXPECT_EQ(given, checked_params(given, &copy));
  wide.src_x_bytes = 1;
  const auto* const checked = reinterpret_cast<const WideMemcpy3D*>(checked_params(given, &copy));
  EXPECT_EQ(refused(), checked->src_device);
  EXPECT_EQ(memory, checked->dst_device);
}

TEST_F(CopyParamsTest, rule_22_fills_reach_as_far_as_their_pitch) {
  hipMemsetParams params{};
  params.dst = memory;
  params.elementSize = 4;
  params.width = kBytes / 4;
  params.height = 1;
  EXPECT_EQ(&params, checked_params(&params, &copy));
  ++params.width;
  EXPECT_EQ(refused(), checked_params(&params, &copy)->dst);
  params.width = 1;
  params.pitch = kPitch;
  params.height = kBytes / kPitch;
  EXPECT_EQ(&params, checked_params(&params, &copy));
  ++params.height;
  EXPECT_EQ(refused(), checked_params(&params, &copy)->dst);
}

TEST_F(CopyParamsTest, rule_22_driver_fills_have_the_layout_of_the_version) {
  DriverFill narrow{memory, 0, 0, 4, kBytes / 4, 1};
  const auto* const given = reinterpret_cast<const hipMemsetParams*>(&narrow);
  test_set_runtime_version(60342134);
  EXPECT_EQ(given, checked_driver_fill(given, &copy));
  ++narrow.width;
  EXPECT_EQ(refused(), reinterpret_cast<const DriverFill*>(checked_driver_fill(given, &copy))->dst);
  hipMemsetParams params{};
  params.dst = memory;
  params.elementSize = 4;
  params.width = kBytes / 4;
  params.height = 1;
  test_set_runtime_version(70000000);
  EXPECT_EQ(&params, checked_driver_fill(&params, &copy));
  ++params.width;
  EXPECT_EQ(refused(), checked_driver_fill(&params, &copy)->dst);
}

TEST_F(CopyParamsTest, of_nodes_copies_and_fills_are_looked_at) {
  AnyNodeParams node{};
  node.type = AnyNodeParams::kCopy;
  node.copy.params = box(memory, memory);
  EXPECT_EQ(&node, checked_node(&node, &copy));
  node.copy.params.dstPos.x = 1;
  const auto* checked = static_cast<const AnyNodeParams*>(checked_node(&node, &copy));
  ASSERT_NE(&node, checked);
  EXPECT_EQ(AnyNodeParams::kCopy, checked->type);
  EXPECT_EQ(refused(), checked->copy.params.dstPtr.ptr);

  AnyNodeParams fill{};
  fill.type = AnyNodeParams::kFill;
  fill.fill.dst = memory;
  fill.fill.elementSize = 1;
  fill.fill.width = kBytes;
  fill.fill.height = 1;
  EXPECT_EQ(&fill, checked_node(&fill, &copy));
  ++fill.fill.width;
  checked = static_cast<const AnyNodeParams*>(checked_node(&fill, &copy));
  ASSERT_NE(&fill, checked);
  EXPECT_EQ(refused(), checked->fill.dst);
  fill.type = AnyNodeParams::kKernel;
  EXPECT_EQ(&fill, checked_node(&fill, &copy));
}

TEST_F(CopyParamsTest, driver_boxes_are_told_as_others_and_back) {
  for (const int version : {50221153, 60000000}) {
    test_set_runtime_version(version);
    hipMemcpy3DParms plain{};
    plain.srcPtr = {memory, 64, 0, 5};
    plain.dstPtr = {static_cast<char*>(memory) + 1, 65, 0, 6};
    plain.srcPos = {1, 2, 3};
    plain.dstPos = {4, 5, 6};
    plain.extent = {7, 8, 9};
    plain.kind = hipMemcpyDeviceToDevice;
    const HIP_MEMCPY3D* const given = driver_copy(plain, &copy);
    hipMemcpy3DParms found;
    ASSERT_TRUE(plain_copy(given, &found));
    EXPECT_EQ(0, std::memcmp(&plain, &found, offsetof(hipMemcpy3DParms, kind)));
    EXPECT_EQ(plain.kind, found.kind);
    const bool wide = version >= 60000000;
    const auto depth = wide ? copy.wide_driver_box.depth : copy.driver_box.Depth;
    const auto rows = wide ? copy.wide_driver_box.dst_height : copy.driver_box.dstHeight;
    EXPECT_EQ(9u, depth);
    EXPECT_EQ(6u, rows);
    EXPECT_EQ(wide ? 2 : 1, static_cast<int>(wide ? copy.wide_driver_box.src_type : copy.driver_box.srcMemoryType));
    // What the others cannot say.
    if (wide) {
      copy.wide_driver_box.src_level = 1;
    } else {
      copy.driver_box.dstHost = memory;
    }
    EXPECT_FALSE(plain_copy(given, &found));
    EXPECT_FALSE(plain_copy(nullptr, &found));
  }
  test_set_runtime_version(-1);
}

TEST_F(CopyParamsTest, of_batches_each_value_is_looked_at) {
  const auto at = [&](std::size_t offset) { return static_cast<char*>(memory) + offset; };
  std::vector<MemoryOperation> batch{{MemoryOperation::kWait32, at(kBytes - 4), 1, 0, nullptr, 0},
                                     {MemoryOperation::kWrite64, at(kBytes - 8), 2, 0, nullptr, 0}};
  std::vector<MemoryOperation> copied;
  EXPECT_EQ(batch.data(), checked_batch(batch.data(), batch.size(), &copied));
  batch[1].address = at(kBytes - 4);
  const MemoryOperation* const checked = checked_batch(batch.data(), batch.size(), &copied);
  ASSERT_NE(batch.data(), checked);
  EXPECT_EQ(at(kBytes - 4), checked[0].address);
  EXPECT_EQ(never_mapped_address(), checked[1].address);
  EXPECT_EQ(2u, checked[1].value);
  EXPECT_EQ(at(kBytes - 4), batch[1].address);
  EXPECT_EQ(nullptr, checked_batch(nullptr, 2, &copied));
}

TEST_F(CopyParamsTest, of_nodes_of_memory_operations_each_value_is_looked_at) {
  auto* const last = static_cast<char*>(memory) + kBytes - 4;
  MemoryOperation batch[]{{MemoryOperation::kWrite32, last, 1, 0, nullptr, 0},
                          {MemoryOperation::kWait32, last, 2, 0, nullptr, 0}};
  const MemoryOperationsNode node{nullptr, 2, batch, 3};
  std::vector<MemoryOperation> copied;
  EXPECT_EQ(&node, checked_operations(&node, &copy, &copied));
  batch[1].kind = MemoryOperation::kWait64;
  const auto* const checked = static_cast<const MemoryOperationsNode*>(checked_operations(&node, &copy, &copied));
  ASSERT_NE(&node, checked);
  EXPECT_EQ(2u, checked->count);
  EXPECT_EQ(3u, checked->flags);
  EXPECT_EQ(last, checked->operations[0].address);
  EXPECT_EQ(never_mapped_address(), checked->operations[1].address);
  EXPECT_EQ(last, batch[1].address);
  EXPECT_EQ(nullptr, checked_operations(nullptr, &copy, &copied));
}

}  // namespace
}  // namespace graphpool
