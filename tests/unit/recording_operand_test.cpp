// How operands are classed, and which memory recordings have judged by its address.
#include <gtest/gtest.h>

#include "shim/base/units.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/operand.h"
#include "shim/recording/settings.h"

namespace graphpool {
namespace {

constexpr std::uintptr_t kDevice = 0x7f12'3400'0000, kHost = 0x5500'0000'0000;

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

class Operand : public ::testing::Test {
 protected:
  Operand() {
    block->state = BlockState::kLive;
    next_settings_epoch();
  }
  ~Operand() override { block_table().remove(block); }

  Block* block = block_table().insert(kDevice, 1000);
};

TEST_F(Operand, rule_28_known_device_memory_is_told_by_its_device) {
  const std::uint64_t known = operand_class(at(kDevice), 1000);
  EXPECT_TRUE(is_known_class(known));
  EXPECT_EQ(known, operand_class(at(kDevice + 10), 990)) << "wherever in it";
  EXPECT_EQ(known, operand_class(at(kDevice), 0));
  block->device = 1;
  EXPECT_TRUE(is_known_class(operand_class(at(kDevice), 1000)));
  EXPECT_NE(known, operand_class(at(kDevice), 1000));
}

TEST_F(Operand, rule_28_anything_else_is_told_by_its_address) {
  const auto by_address = [](std::uintptr_t address, std::size_t bytes) {
    return operand_class(at(address), bytes) == address && !is_known_class(address);
  };
  EXPECT_TRUE(by_address(kHost, 4));
  EXPECT_TRUE(by_address(0, 4));
  EXPECT_TRUE(by_address(kDevice, 1001)) << "it leaves the allocation";
  EXPECT_TRUE(by_address(kDevice + 10, 991));
  EXPECT_TRUE(by_address(kDevice + 10, ~std::size_t{0}));
  EXPECT_TRUE(by_address(kDevice + 1000, 0)) << "behind the allocation";
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kManaged, MemoryKind::kStreamOrdered}) {
    block->kind = kind;
    EXPECT_TRUE(by_address(kDevice, 4));
  }
  block->kind = MemoryKind::kDevice;
  EXPECT_FALSE(by_address(kDevice, 4));
  block->state = BlockState::kKept;
  EXPECT_TRUE(by_address(kDevice, 4)) << "the program has freed it";
}

/// A recording has this operation.
template <typename Payload>
void note(OperationKind kind, std::uintptr_t dst, std::uintptr_t src, const Payload& payload) {
  Signature signature{.kind = kind};
  signature.dst_class = operand_class(at(dst), 1);
  signature.src_class = operand_class(at(src), 1);
  Binding binding;
  std::memcpy(add_payload(binding, 8), "before", 7);
  std::memcpy(add_payload(binding, sizeof payload), &payload, sizeof payload);
  note_judged_operands(signature, binding, 8);
}

bool judged(std::uintptr_t address, std::size_t bytes = 1) { return recordings_judged(at(address), bytes); }

TEST_F(Operand, memory_told_by_its_address_is_remembered) {
  EXPECT_FALSE(judged(kHost, 100));
  note(OperationKind::kCopy, kDevice, kHost, CopyPayload{kDevice, kHost, 100, 1, 100, 100});
  EXPECT_TRUE(judged(kHost));
  EXPECT_TRUE(judged(kHost + 99));
  EXPECT_TRUE(judged(kHost - 10, 11)) << "a range that reaches into it";
  EXPECT_FALSE(judged(kHost + 100, 8));
  EXPECT_FALSE(judged(kHost - 10, 10));
  EXPECT_TRUE(judged(kHost - kMiB, 0)) << "nobody knows how much";
  EXPECT_FALSE(judged(kHost + 100, 0));
  EXPECT_FALSE(judged(kDevice, 1000)) << "told by its device";
}

TEST_F(Operand, an_epoch_ends_what_was_judged) {
  note(OperationKind::kFill, kHost, kDevice, FillPayload{kHost, 0, 25, 1, 100});
  EXPECT_TRUE(judged(kHost));
  next_settings_epoch();
  EXPECT_FALSE(judged(kHost));
}

TEST_F(Operand, all_that_an_operation_may_reach_counts) {
  constexpr std::uintptr_t kFar = kHost + kGiB;
  note(OperationKind::kCopy2D, kHost, kFar, CopyPayload{kHost, kFar, 10, 8, 64, 32});
  EXPECT_TRUE(judged(kHost + 7 * 64 + 9));
  EXPECT_TRUE(judged(kFar + 7 * 32 + 9));
  EXPECT_FALSE(judged(kHost + 8 * 64));
  EXPECT_FALSE(judged(kFar + 8 * 32));

  note(OperationKind::kFill, kHost + kMiB, kDevice, FillPayload{kHost + kMiB, 0, 25, 1, 0});
  EXPECT_TRUE(judged(kHost + kMiB + 99)) << "elements of 4 bytes";
  EXPECT_FALSE(judged(kHost + kMiB + 100));

  Copy3DPayload box{};
  box.params.dstPtr = {at(kHost + 2 * kMiB), 64, 64, 4};
  box.params.dstPos = {0, 1, 1};
  box.params.srcPtr = {at(kDevice), 64, 64, 4};
  box.params.extent = {16, 2, 3};
  note(OperationKind::kCopy3D, kHost + 2 * kMiB, kDevice, box);
  const std::size_t last = ((3 * 4) + 2) * 64 + 15;  // its plane, row and byte
  EXPECT_TRUE(judged(kHost + 2 * kMiB + last));
  EXPECT_FALSE(judged(kHost + 3 * kMiB, kMiB));
}

TEST_F(Operand, where_too_many_were_judged_any_may_have_been) {
  std::uintptr_t host = kHost;
  const std::uintptr_t other = kHost - kGiB;
  for (int i = 0; i < 100'000 && !judged(other); ++i, host += 2 * kPageBytes) {
    note(OperationKind::kFill, host, kDevice, FillPayload{host, 0, 8, 1, 32});
    EXPECT_TRUE(judged(host));
  }
  EXPECT_TRUE(judged(other));
  next_settings_epoch();
  EXPECT_FALSE(judged(other));
  EXPECT_FALSE(judged(kHost));
}

}  // namespace
}  // namespace graphpool
