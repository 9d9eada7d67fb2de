// Which variants outlive memory that their nodes may hold on to.
#include <gtest/gtest.h>

#include "shim/execs/recording.h"
#include "shim/execs/variant.h"
#include "shim/memory/freed_memory.h"

namespace graphpool {
namespace {

bool outlived(OperationKind kind, bool freed) {
  Recording of;
  of.operations.resize(3);
  of.operations[1].signature.kind = kind;
  Variant variant;
  variant.memory_freed = memory_freed();
  if (freed) note_memory_freed();
  return outlived_memory(of, variant);
}

TEST(FreedMemory, copies_and_fills_do_not_outlive_it) {
  for (const OperationKind kind : {OperationKind::kCopy, OperationKind::kCopy2D, OperationKind::kFill}) {
    EXPECT_FALSE(outlived(kind, false));
    EXPECT_TRUE(outlived(kind, true));
  }
}

TEST(FreedMemory, kernels_know_addresses_only) {
  EXPECT_FALSE(outlived(OperationKind::kKernel, true));
  EXPECT_FALSE(outlived(OperationKind::kHost, true));
}

}  // namespace
}  // namespace graphpool
