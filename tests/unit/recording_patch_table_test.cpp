// What may be patched on which runtime.
#include <gtest/gtest.h>

#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/recording/patch_table.h"

namespace graphpool {
namespace {

constexpr int k52 = 50221153, k60 = 60032830, k62 = 60241133, k63 = 60342131, k64 = 60443484, k70 = 70051831;
constexpr std::uint64_t kDevice0 = std::uint64_t{1} << 63, kDevice1 = kDevice0 | 1;

TEST(PatchTable, kernels_where_an_update_reaches_the_launch) {
  EXPECT_TRUE(patch_is_exact(NodeClass::kKernel, k52));
  EXPECT_FALSE(patch_is_exact(NodeClass::kKernel, k60));
  EXPECT_FALSE(patch_is_exact(NodeClass::kKernel, k62));
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
    EXPECT_LT(row.first_version, row.end_version) << row.reason;
    EXPECT_STRNE("", row.reason);
    EXPECT_NE(NodeClass::kOther, row.node);
    for (const PatchRow& other : patch_table()) {
      if (&other == &row || other.node != row.node) continue;
      EXPECT_TRUE(row.end_version <= other.first_version || other.end_version <= row.first_version) << row.reason;
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

/// A device as its attributes describe it.
struct FakeDevice {
  int major, minor, warp, direct;
  hipError_t result;
};
FakeDevice g_device;

hipError_t fake_attribute(int* value, hipDeviceAttribute_t attribute, int) {
  switch (attribute) {
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = g_device.major;
      break;
    case hipDeviceAttributeComputeCapabilityMinor:
      *value = g_device.minor;
      break;
    case hipDeviceAttributeWarpSize:
      *value = g_device.warp;
      break;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      *value = g_device.direct;
      break;
    default:
      return hipErrorInvalidValue;
  }
  return g_device.result;
}

class PatchedKernel : public testing::Test {
 protected:
  PatchedKernel() : saved_(test_next()) {
    test_next().hipDeviceGetAttribute = &fake_attribute;
    kernel_.kind = OperationKind::kKernel;
  }
  ~PatchedKernel() override {
    test_next() = saved_;
    test_set_runtime_version(-1);
    test_forget_devices();
  }
  bool exact(int version, const FakeDevice& device) {
    test_set_runtime_version(version);
    test_forget_devices();
    g_device = device;
    return patch_is_exact(kernel_);
  }

 private:
  const Next saved_;
  Signature kernel_;
};

constexpr FakeDevice kGfx1100{11, 0, 32, 0, hipSuccess};

TEST_F(PatchedKernel, the_loaded_runtime_decides) {
  EXPECT_FALSE(exact(k63, kGfx1100));
  EXPECT_TRUE(exact(k70, kGfx1100));
  EXPECT_TRUE(exact(k52, kGfx1100));
}

TEST_F(PatchedKernel, not_where_the_device_may_not_see_what_is_written) {
  for (const int minor : {0, 4, 5}) {
    EXPECT_FALSE(exact(k70, {9, minor, 64, 0, hipSuccess})) << "behind PCIe: gfx9" << minor << "x";
    EXPECT_TRUE(exact(k70, {9, minor, 64, 1, hipSuccess})) << "on one fabric with the host";
    EXPECT_TRUE(exact(k52, {9, minor, 64, 0, hipSuccess})) << "arguments in the host's memory";
    EXPECT_TRUE(exact(k70, {9, minor, 32, 0, hipSuccess})) << "another maker's";
  }
  EXPECT_FALSE(exact(k70, {11, 0, 32, 0, hipErrorUnknown})) << "it does not say";
}

}  // namespace
}  // namespace graphpool
