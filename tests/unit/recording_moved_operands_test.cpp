// Which operands had another address than the time before.
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "shim/kernel/argument_layout.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/moved_operands.h"

namespace graphpool {
namespace {

constexpr std::uint64_t kAddress = 0x7f12'3400'0000;

/// A sequence of operations, and its binding with addresses that the test chooses.
class Sequence {
 public:
  void kernel(std::uint64_t pointer, std::uint32_t scalar, std::uint64_t second) {
    static const ArgumentLayout layout(
        {{0, 8, ArgumentKind::kGlobalBuffer}, {8, 4, ArgumentKind::kByValue}, {16, 8, ArgumentKind::kGlobalBuffer}});
    struct {
      KernelPayload shape{{1, 1, 1}, {1, 1, 1}, 0, 24};
      std::uint64_t pointer;
      std::uint32_t scalar, gap = 0;
      std::uint64_t second;
    } payload{.pointer = pointer, .scalar = scalar, .second = second};
    add(OperationKind::kKernel, payload);
    operations.back().layout = &layout;
  }
  /// One whose arguments' kinds nobody knows.
  void unknown_kernel(std::uint64_t first, std::uint64_t second) {
    static const ArgumentLayout layout({{0, 8, ArgumentKind::kUnknown}, {8, 8, ArgumentKind::kUnknown}});
    struct {
      KernelPayload shape{{1, 1, 1}, {1, 1, 1}, 0, 16};
      std::uint64_t first, second;
    } payload{.first = first, .second = second};
    add(OperationKind::kKernel, payload);
    operations.back().layout = &layout;
  }
  void copy(std::uint64_t dst, std::uint64_t src, std::uint64_t bytes = 64) {
    add(OperationKind::kCopy, CopyPayload{dst, src, bytes, 1, bytes, bytes});
  }
  void copy_3d(std::uint64_t dst, std::uint64_t src) {
    Copy3DPayload payload{};
    payload.params.dstPtr.ptr = reinterpret_cast<void*>(dst);
    payload.params.srcPtr.ptr = reinterpret_cast<void*>(src);
    add(OperationKind::kCopy3D, payload);
  }
  void fill(std::uint64_t dst, std::uint64_t value) { add(OperationKind::kFill, FillPayload{dst, value, 1, 1, 4}); }

  std::vector<Operation> operations;
  Binding binding;

 private:
  template <typename Payload>
  void add(OperationKind kind, const Payload& payload) {
    Operation& operation = operations.emplace_back();
    operation.signature.kind = kind;
    operation.signature.payload_bytes = sizeof payload;
    operation.payload_offset = static_cast<std::uint32_t>(binding.size());
    std::memcpy(add_payload(binding, sizeof payload), &payload, sizeof payload);
  }
};

/// Operation, argument, times.
using Moves = std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>>;
Moves moves(const MovedOperands& of) {
  Moves all;
  for (const MovedOperand& each : of.operands()) all.emplace_back(each.operation, each.argument, each.times);
  return all;
}

template <typename Fill>
void note(MovedOperands& moved, Fill fill) {
  Sequence sequence;
  fill(sequence);
  moved.note(sequence.operations, sequence.binding);
}

TEST(MovedOperands, the_first_binding_and_one_that_is_equal_move_nothing) {
  MovedOperands moved;
  for (int i = 0; i < 3; ++i) note(moved, [](Sequence& to) { to.kernel(kAddress, 1, kAddress); });
  EXPECT_EQ(Moves{}, moves(moved));
}

TEST(MovedOperands, arguments_of_unknown_kind_count_where_they_are_in_memory_of_the_program) {
  Block* const block = block_table().insert(kAddress, 100);
  ASSERT_NE(block, nullptr);
  MovedOperands moved;
  note(moved, [](Sequence& to) { to.unknown_kernel(1, 2); });
  note(moved, [](Sequence& to) { to.unknown_kernel(kAddress + 8, 3); });
  EXPECT_EQ((Moves{{0, 0, 1}}), moves(moved));
  block_table().remove(block);
}

TEST(MovedOperands, pointers_of_kernels_count_scalars_do_not) {
  MovedOperands moved;
  note(moved, [](Sequence& to) { to.kernel(kAddress, 1, kAddress); });
  note(moved, [](Sequence& to) { to.kernel(kAddress, 2, kAddress); });
  EXPECT_EQ(Moves{}, moves(moved));
  note(moved, [](Sequence& to) { to.kernel(kAddress, 2, kAddress + 8); });
  EXPECT_EQ((Moves{{0, 2, 1}}), moves(moved));
  note(moved, [](Sequence& to) { to.kernel(kAddress + 8, 2, kAddress); });
  EXPECT_EQ((Moves{{0, 2, 2}, {0, 0, 1}}), moves(moved));
}

TEST(MovedOperands, of_copies_0_is_the_destination_and_1_the_source) {
  MovedOperands moved;
  const auto both = [&](std::uint64_t dst, std::uint64_t src, std::uint64_t bytes = 64) {
    note(moved, [&](Sequence& to) {
      to.copy(dst, src, bytes);
      to.copy_3d(dst, src);
    });
  };
  both(kAddress, kAddress + 64);
  both(kAddress, kAddress + 64, 32);
  EXPECT_EQ(Moves{}, moves(moved)) << "other bytes of the same memory";
  both(kAddress, kAddress + 128, 32);
  EXPECT_EQ((Moves{{0, 1, 1}, {1, 1, 1}}), moves(moved));
  both(kAddress + 256, kAddress + 128, 32);
  EXPECT_EQ((Moves{{0, 1, 1}, {1, 1, 1}, {0, 0, 1}, {1, 0, 1}}), moves(moved));
}

TEST(MovedOperands, of_fills_the_destination_counts) {
  MovedOperands moved;
  note(moved, [](Sequence& to) { to.fill(kAddress, 1); });
  note(moved, [](Sequence& to) { to.fill(kAddress, 2); });
  EXPECT_EQ(Moves{}, moves(moved));
  note(moved, [](Sequence& to) { to.fill(kAddress + 4, 2); });
  EXPECT_EQ((Moves{{0, 0, 1}}), moves(moved));
}

TEST(MovedOperands, the_allocation_it_moved_to_is_named) {
  Block* const block = block_table().insert(kAddress, 100);
  block->call_site = 7;
  block->rule = 2;
  MovedOperands moved;
  note(moved, [](Sequence& to) { to.fill(0x1000, 0); });
  note(moved, [](Sequence& to) { to.fill(kAddress + 50, 0); });
  ASSERT_EQ(1u, moved.operands().size());
  EXPECT_EQ(7u, moved.operands()[0].call_site);
  EXPECT_EQ(2u, moved.operands()[0].rule);
  note(moved, [](Sequence& to) { to.fill(0x2000, 0); });
  EXPECT_EQ(0u, moved.operands()[0].call_site) << "memory that nobody knows";
  EXPECT_EQ(0u, moved.operands()[0].rule);
  block_table().remove(block);
}

TEST(MovedOperands, beyond_the_most_they_are_only_counted) {
  MovedOperands moved;
  const auto fills = [&](std::uint64_t from) {
    note(moved, [&](Sequence& to) {
      for (std::uint64_t i = 0; i < MovedOperands::kMost + 10; ++i) to.fill(from + 4 * i, 0);
    });
  };
  fills(kAddress);
  fills(kAddress + 1024 * 1024);
  fills(kAddress);
  ASSERT_EQ(MovedOperands::kMost, moved.operands().size());
  for (const MovedOperand& each : moved.operands()) EXPECT_EQ(2u, each.times);
  EXPECT_EQ(20u, moved.others());
}

}  // namespace
}  // namespace graphpool
