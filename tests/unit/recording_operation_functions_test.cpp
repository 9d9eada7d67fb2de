// What the table of kinds says, and what the functions of a kind say of its operations.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shim/recording/materialisation.h"
#include "shim/recording/operand_addresses.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reissue.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

constexpr std::array kKinds = {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) OperationKind::k##name,
#include "shim/recording/operation_kinds.def"
};

TEST(OperationKinds, have_names_of_their_own) {
  std::set<std::string> names;
  for (const OperationKind kind : kKinds) EXPECT_TRUE(names.insert(kind_name(kind)).second) << kind_name(kind);
}

TEST(OperationKinds, are_found_by_their_row) {
  const auto is_fill = [](auto kind) { return std::is_same_v<decltype(kind), FillKind>; };
  for (const OperationKind kind : kKinds)
    EXPECT_EQ(kind == OperationKind::kFill, with_kind(kind, is_fill)) << kind_name(kind);
}

TEST(OperationKinds, what_makes_a_node_has_a_type_and_what_makes_none_has_no_functions) {
  for (const OperationKind kind : kKinds) {
    int types = 0;
    for (const int type : {kKernelType, kMemcpyType, kMemsetType, kHostType, kChildType, kEmptyType})
      types += with_kind(kind, [&](auto functions) { return functions.has_type(type); });
    EXPECT_EQ(makes_node(kind) ? 1 : 0, types) << kind_name(kind);
    if (makes_node(kind)) continue;
    Signature signature;
    signature.kind = kind;
    EXPECT_FALSE(may_hold_memory(kind)) << kind_name(kind);
    EXPECT_EQ(NodeClass::kOther, node_class(signature)) << kind_name(kind);
    EXPECT_EQ(nullptr, kernel_of(signature)) << kind_name(kind);
  }
}

template <typename Payload>
Operation operation_with(OperationKind kind, const Payload& payload, Binding* binding) {
  Operation operation;
  operation.signature.kind = kind;
  operation.signature.payload_bytes = sizeof payload;
  operation.payload_offset = static_cast<std::uint32_t>(binding->size());
  std::memcpy(add_payload(*binding, sizeof payload), &payload, sizeof payload);
  return operation;
}

TEST(OperationKinds, addresses_of_a_child_graph_are_visited_where_they_lie) {
  Binding inner, outer;
  std::vector<Operation> child{operation_with(OperationKind::kHost, HostPayload{1}, &inner),
                               operation_with(OperationKind::kCopy, CopyPayload{0x1000, 0x2000, 8, 1, 8, 8}, &inner)};
  std::vector<Operation> operations{operation_with(OperationKind::kFill, FillPayload{0x3000, 0, 1, 1, 4}, &outer)};
  Operation& last = operations.emplace_back();
  last.signature.kind = OperationKind::kChild;
  last.signature.payload_bytes = static_cast<std::uint32_t>(inner.size());
  last.payload_offset = static_cast<std::uint32_t>(outer.size());
  last.child = &child;
  std::memcpy(add_payload(outer, inner.size()), inner.data(), inner.size());

  std::vector<std::pair<std::uint64_t, bool>> seen;
  for_each_address(operations, outer, [&](std::uint32_t place, std::uint64_t address, bool written) {
    EXPECT_EQ(address, payload_at<std::uint64_t>(outer, place));
    seen.emplace_back(address, written);
  });
  const std::vector<std::pair<std::uint64_t, bool>> expected{{0x3000, true}, {0x1000, true}, {0x2000, false}};
  EXPECT_EQ(expected, seen);

  std::vector<OperationKind> kinds;
  for (const Operation& each : operations)
    for_each_inner(each, 0, [&](const Operation& leaf, std::uint32_t at) {
      kinds.push_back(leaf.signature.kind);
      if (leaf.signature.kind != OperationKind::kCopy) return;
      EXPECT_EQ(0x1000u, payload_at<std::uint64_t>(outer, at));
    });
  EXPECT_EQ((std::vector{OperationKind::kFill, OperationKind::kHost, OperationKind::kCopy}), kinds);
}

TEST(OperationKinds, a_fill_of_rows_keeps_its_shape_in_an_exec) {
  Binding now, row, other;
  const Operation rows = operation_with(OperationKind::kFill, FillPayload{0x1000, 0, 8, 2, 16}, &now);
  operation_with(OperationKind::kFill, FillPayload{0x2000, 1, 8, 2, 16}, &row);
  operation_with(OperationKind::kFill, FillPayload{0x1000, 0, 9, 2, 16}, &other);
  EXPECT_FALSE(FillKind::may_refuse_set(rows, row, now));
  EXPECT_TRUE(FillKind::may_refuse_set(rows, other, now));
}

// A launch is compared in two ways: as a signature, and as it lies. Both must come to the same.
TEST(LaunchFields, agree_with_the_signature_they_make) {
  const KernelPayload shape{{7, 8, 9}, {1, 2, 3}, 4, 0};
  const LaunchFields fields(KernelForm::kStub, reinterpret_cast<const void*>(0x1234), 0x10800, shape);
  Signature recorded;
  recorded.device = 5;
  recorded.stream = 6;
  recorded.thread = 7;
  recorded.generation = 8;
  fields.put_into(recorded);
  EXPECT_TRUE(fields.same(recorded, 5, 6, 7));
  EXPECT_FALSE(fields.same(recorded, 4, 6, 7));
  EXPECT_FALSE(fields.same(recorded, 5, 5, 7));
  EXPECT_FALSE(fields.same(recorded, 5, 6, 6));
  const auto differs = [&](KernelForm form, std::uintptr_t function, std::uint32_t validity, KernelPayload other) {
    const LaunchFields own(form, reinterpret_cast<const void*>(function), validity, other);
    Signature signature = recorded;
    own.put_into(signature);
    EXPECT_EQ(signature == recorded, own.same(recorded, 5, 6, 7));
    return !own.same(recorded, 5, 6, 7);
  };
  EXPECT_FALSE(differs(KernelForm::kStub, 0x1234, 0x10800, shape));
  EXPECT_TRUE(differs(KernelForm::kFunction, 0x1234, 0x10800, shape));
  EXPECT_TRUE(differs(KernelForm::kStub, 0x1235, 0x10800, shape));
  EXPECT_TRUE(differs(KernelForm::kStub, 0x1234, 0x800, shape));
  for (std::uint32_t i = 0; i < 3; ++i) {
    KernelPayload other = shape;
    ++other.block[i];
    EXPECT_TRUE(differs(KernelForm::kStub, 0x1234, 0x10800, other)) << i;
  }
  EXPECT_TRUE(differs(KernelForm::kStub, 0x1234, 0x10800, {{7, 8, 9}, {1, 2, 3}, 5, 0}));
  EXPECT_FALSE(differs(KernelForm::kStub, 0x1234, 0x10800, {{1, 1, 1}, {1, 2, 3}, 4, 0}));  // grids are no signature
}

TEST(OperationKinds, a_kernel_that_is_gone_is_not_named_to_the_runtime) {
  Binding binding;
  Operation operation = operation_with(OperationKind::kKernel, KernelPayload{}, &binding);
  operation.signature.object = 0x1000;
  operation.signature.generation = 1;  // nobody has registered it
  EXPECT_EQ(hipErrorInvalidDeviceFunction, patch_exec(operation, binding, nullptr, nullptr));
}

TEST(Payloads, what_is_put_without_host_memory_into_shared_bytes_is_an_exception) {
  Binding binding;
  const Operation operation = operation_with(OperationKind::kHost, HostPayload{1}, &binding);
  const HostPayload other{2};
  const auto* const from = reinterpret_cast<const std::byte*>(&other);
  const Binding shared = binding;
  let_allocations_work(0);
  EXPECT_THROW(put_payload(operation, from, binding), std::bad_alloc);
  let_allocations_work(-1);
  EXPECT_EQ(shared, binding);
  static_cast<void>(binding.data());
  let_allocations_work(0);
  put_payload(operation, from, binding);
  let_allocations_work(-1);
  EXPECT_NE(shared, binding);
}

}  // namespace
}  // namespace graphpool
