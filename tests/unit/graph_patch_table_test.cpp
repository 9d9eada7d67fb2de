// What may be patched on which runtime.
#include <gtest/gtest.h>

#include "shim/graph/patch_table.h"
#include "shim/memory/quirks.h"

namespace graphpool {
namespace {

constexpr int k52 = 50221153, k60 = 60032830, k62 = 60241133, k63 = 60342131, k64 = 60443484, k70 = 70051831;
constexpr std::uint64_t kDevice0 = std::uint64_t{1} << 63, kDevice1 = kDevice0 | 1;

TEST(PatchTable, kernels_where_an_update_reaches_the_launch) {
  EXPECT_TRUE(patch_is_exact(NodeClass::kKernel, k52));
  EXPECT_FALSE(patch_is_exact(NodeClass::kKernel, k60));
  EXPECT_TRUE(patch_is_exact(NodeClass::kKernel, k62));
  EXPECT_FALSE(patch_is_exact(NodeClass::kKernel, k63));
  EXPECT_TRUE(patch_is_exact(NodeClass::kKernel, k64));
  EXPECT_TRUE(patch_is_exact(NodeClass::kKernel, k70));
}

TEST(PatchTable, fills_and_copies_only_where_a_launch_reads_the_node) {
  for (const NodeClass node : {NodeClass::kFill, NodeClass::kDeviceCopy}) {
    EXPECT_TRUE(patch_is_exact(node, k52));
    for (const int version : {k60, k62, k63, k64, k70}) EXPECT_FALSE(patch_is_exact(node, version));
  }
}

TEST(PatchTable, nothing_on_a_runtime_that_does_not_tell_its_version) {
  for (const NodeClass node : {NodeClass::kKernel, NodeClass::kFill, NodeClass::kDeviceCopy, NodeClass::kOther})
    EXPECT_FALSE(patch_is_exact(node, 0));
}

TEST(PatchTable, rows_of_a_class_do_not_overlap_and_say_why) {
  for (const PatchRow& row : patch_table()) {
    EXPECT_LT(row.first_version, row.end_version) << row.why;
    EXPECT_STRNE("", row.why);
    EXPECT_NE(NodeClass::kOther, row.node);
    for (const PatchRow& other : patch_table()) {
      if (&other == &row || other.node != row.node) continue;
      EXPECT_TRUE(row.end_version <= other.first_version || other.end_version <= row.first_version) << row.why;
    }
  }
}

TEST(PatchTable, classes_of_operations) {
  const auto of = [](OperationKind kind, std::uint32_t validity, std::uint64_t dst, std::uint64_t src) {
    Signature signature;
    signature.kind = kind;
    signature.validity = validity;
    signature.dst_class = dst;
    signature.src_class = src;
    return node_class(signature);
  };
  EXPECT_EQ(NodeClass::kKernel, of(OperationKind::kKernel, 0, 64, 1));
  EXPECT_EQ(NodeClass::kFill, of(OperationKind::kFill, 4, kDevice0, kDevice0));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kFill, 0x104, kDevice0, kDevice0));  // empty
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kFill, 0x404, kDevice0, kDevice0));  // pitched
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kFill, 4, 0x7000, 0x7000));          // whose memory?
  EXPECT_EQ(NodeClass::kDeviceCopy, of(OperationKind::kCopy, hipMemcpyDeviceToDevice, kDevice0, kDevice0));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kCopy, hipMemcpyDeviceToDevice, kDevice0, kDevice1));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kCopy, hipMemcpyDeviceToDevice | 0x200, kDevice0, kDevice0));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kCopy, hipMemcpyHostToDevice, kDevice0, 0x7000));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kCopy, hipMemcpyDefault, kDevice0, kDevice0));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kCopy2D, hipMemcpyDeviceToDevice, kDevice0, kDevice0));
  EXPECT_EQ(NodeClass::kOther, of(OperationKind::kHost, 0, 0, 0));
}

TEST(PatchTable, the_loaded_runtime_decides) {
  Signature kernel;
  kernel.kind = OperationKind::kKernel;
  test_set_runtime_version(k63);
  EXPECT_FALSE(patch_is_exact(kernel));
  test_set_runtime_version(k70);
  EXPECT_TRUE(patch_is_exact(kernel));
  test_set_runtime_version(-1);
}

}  // namespace
}  // namespace graphpool
