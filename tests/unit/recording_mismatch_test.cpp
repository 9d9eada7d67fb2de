// What an operation is that no recording has at its place.
#include <gtest/gtest.h>

#include <vector>

#include "shim/recording/mismatch.h"

namespace graphpool {
namespace {

Operation operation(OperationKind kind, std::uint64_t object = 0) {
  Operation made;
  made.signature.kind = kind;
  made.signature.object = object;
  return made;
}

TEST(Mismatch, is_named_by_its_place_in_the_recordings) {
  PrefixTree tree;
  std::vector<Operation> operations{operation(OperationKind::kBegin)};
  for (std::uint64_t fill = 1; fill <= 3; ++fill) operations.push_back(operation(OperationKind::kFill, fill));
  operations.push_back(operation(OperationKind::kEnd));
  TreeNode* const end = tree.insert(operations, Binding());
  end->graph.store(reinterpret_cast<Recording*>(0x1000));  // never followed
  const TreeNode& last = *end->parent;
  EXPECT_EQ(Mismatch::kLonger, mismatch_behind(last));
  EXPECT_EQ(Mismatch::kLast, mismatch_behind(*last.parent));
  EXPECT_EQ(Mismatch::kMiddle, mismatch_behind(*last.parent->parent));
  EXPECT_EQ(Mismatch::kFirst, mismatch_behind(*last.parent->parent->parent)) << "behind the beginning";
  tree.drop(end);
  tree.prune();
}

TEST(Mismatch, each_is_counted_for_itself) {
  MismatchCounts counts;
  counts.add(Mismatch::kLast);
  counts.add(Mismatch::kLast);
  counts.add(Mismatch::kLonger);
  for (std::size_t i = 0; i < kMismatchNames.size(); ++i) {
    const bool last = i == static_cast<std::size_t>(Mismatch::kLast);
    const bool longer = i == static_cast<std::size_t>(Mismatch::kLonger);
    EXPECT_EQ(last ? 2u : longer ? 1u : 0u, counts.count(i)) << kMismatchNames[i];
  }
}

}  // namespace
}  // namespace graphpool
