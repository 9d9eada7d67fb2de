#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <new>

#include "shim/recording/prefix_tree.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

Recording* some_recording() { return reinterpret_cast<Recording*>(0x1000); }  // never followed

Operation operation(OperationKind kind, std::uint64_t object) {
  Operation made;
  made.signature.kind = kind;
  made.signature.object = object;
  return made;
}

/// A recording: beginning, one kernel for each number, end.
std::vector<Operation> recording(std::initializer_list<std::uint64_t> kernels, std::uint64_t begin = 0) {
  std::vector<Operation> operations{operation(OperationKind::kBegin, begin)};
  for (const std::uint64_t kernel : kernels) operations.push_back(operation(OperationKind::kKernel, kernel));
  operations.push_back(operation(OperationKind::kEnd, 0));
  return operations;
}

/// A binding for it: every kernel with this grid.
Binding binding_of(std::vector<Operation>& operations, std::uint32_t grid) {
  Binding binding;
  for (Operation& at : operations) {
    at.payload_offset = static_cast<std::uint32_t>(binding.size());
    if (at.signature.kind != OperationKind::kKernel) continue;
    binding.resize(binding.size() + sizeof(KernelPayload));
    payload_at<KernelPayload>(binding, at.payload_offset) = {{grid, grid, 1}, {64, 1, 1}, 0, 0};
  }
  return binding;
}

/// Walks as a capture does; null where the tree ends.
TreeNode* walk(const PrefixTree& tree, const std::vector<Operation>& operations) {
  TreeNode* at = tree.find_begin(operations.front().signature);
  for (std::size_t i = 1; at != nullptr && i < operations.size(); ++i) at = at->find(operations[i].signature);
  return at;
}

class PrefixTreeTest : public ::testing::Test {
 protected:
  ~PrefixTreeTest() override {
    for (TreeNode* end : ends_) tree_.drop(end);
    tree_.prune();
    EXPECT_EQ(tree_.nodes(), 0u);
  }
  TreeNode* insert(std::vector<Operation> operations, std::uint32_t grid = 1) {
    const Binding binding = binding_of(operations, grid);
    TreeNode* const end = tree_.insert(operations, binding);
    end->graph.store(some_recording());
    if (std::find(ends_.begin(), ends_.end(), end) == ends_.end()) ends_.push_back(end);
    return end;
  }
  void remove(TreeNode* end) {
    tree_.drop(end);
    tree_.prune();
    std::erase(ends_, end);
  }

  PrefixTree tree_;
  std::vector<TreeNode*> ends_;
};

TEST_F(PrefixTreeTest, an_empty_tree_matches_nothing) {
  EXPECT_EQ(walk(tree_, recording({1})), nullptr);
  EXPECT_EQ(tree_.nodes(), 0u);
}

TEST_F(PrefixTreeTest, a_recording_is_found_again) {
  TreeNode* const end = insert(recording({1, 2, 3}));
  EXPECT_EQ(walk(tree_, recording({1, 2, 3})), end);
  EXPECT_EQ(tree_.nodes(), 5u);
  EXPECT_EQ(end->index, 4u);
  EXPECT_EQ(end->parent->operation.signature.object, 3u);
}

TEST_F(PrefixTreeTest, others_are_not) {
  insert(recording({1, 2, 3}));
  for (const auto& other : {recording({1, 2}), recording({1, 2, 3, 4}), recording({9, 2, 3}), recording({1, 9, 3}),
                            recording({1, 2, 9}), recording({}), recording({1, 2, 3}, 7)})
    EXPECT_EQ(walk(tree_, other), nullptr);
}

TEST_F(PrefixTreeTest, the_same_sequence_is_one) {
  TreeNode* const end = insert(recording({1, 2}));
  EXPECT_EQ(insert(recording({1, 2})), end);
  EXPECT_EQ(tree_.nodes(), 4u);
}

TEST_F(PrefixTreeTest, common_beginnings_are_shared) {
  TreeNode* const a = insert(recording({1, 2, 3}));
  TreeNode* const b = insert(recording({1, 2, 4}));
  TreeNode* const shorter = insert(recording({1, 2}));
  EXPECT_EQ(tree_.nodes(), 3u + 2u + 2u + 1u);
  EXPECT_EQ(walk(tree_, recording({1, 2, 3})), a);
  EXPECT_EQ(walk(tree_, recording({1, 2, 4})), b);
  EXPECT_EQ(walk(tree_, recording({1, 2})), shorter);
}

TEST_F(PrefixTreeTest, removing_leaves_what_others_need) {
  TreeNode* const a = insert(recording({1, 2, 3}));
  TreeNode* const b = insert(recording({1, 2, 4}));
  TreeNode* const c = insert(recording({1, 5}));
  remove(a);
  EXPECT_EQ(walk(tree_, recording({1, 2, 3})), nullptr);
  EXPECT_EQ(walk(tree_, recording({1, 2, 4})), b);
  EXPECT_EQ(walk(tree_, recording({1, 5})), c);
  remove(c);
  EXPECT_EQ(walk(tree_, recording({1, 2, 4})), b);
  remove(b);
  EXPECT_EQ(tree_.nodes(), 0u);
  EXPECT_EQ(walk(tree_, recording({1, 2, 4})), nullptr);
}

TEST_F(PrefixTreeTest, rule_30_a_recording_goes_while_captures_walk_and_its_nodes_after_that) {
  TreeNode* const a = insert(recording({1, 2, 3}));
  TreeNode* const shorter = insert(recording({1, 2}));
  TreeNode* const b = insert(recording({1, 4}));
  const std::size_t nodes = tree_.nodes();
  for (TreeNode* end : {shorter, a, shorter}) tree_.drop(end);
  EXPECT_EQ(walk(tree_, recording({1, 2, 3})), a) << "a capture may be there";
  EXPECT_EQ(a->graph.load(), nullptr);
  EXPECT_EQ(tree_.nodes(), nodes);
  EXPECT_EQ(insert(recording({1, 2})), shorter) << "it has come back";
  tree_.prune();
  EXPECT_EQ(walk(tree_, recording({1, 2})), shorter);
  EXPECT_EQ(walk(tree_, recording({1, 2, 3})), nullptr);
  for (TreeNode* end : {shorter, b}) tree_.drop(end);
  tree_.prune();
  EXPECT_EQ(tree_.nodes(), 0u);
  ends_.clear();
}

TEST_F(PrefixTreeTest, siblings_are_unlinked_wherever_they_are) {
  std::vector<TreeNode*> ends;
  for (std::uint64_t kernel = 1; kernel <= 4; ++kernel) ends.push_back(insert(recording({kernel})));
  for (const std::size_t gone : {1u, 3u, 0u}) remove(ends[gone]);
  EXPECT_EQ(walk(tree_, recording({3})), ends[2]);
  for (const std::uint64_t kernel : {1u, 2u, 4u}) EXPECT_EQ(walk(tree_, recording({kernel})), nullptr);
}

TEST_F(PrefixTreeTest, what_a_program_names_as_dependencies_tells_children_apart) {
  std::vector<Operation> chain = recording({1, 1}), fork = recording({1, 1});
  chain[2].after = {1};
  TreeNode* const first = insert(chain);
  TreeNode* const second = insert(fork);
  EXPECT_NE(first, second);
  EXPECT_EQ(tree_.nodes(), 4u + 2u);
  const TreeNode* const at = first->parent->parent;
  EXPECT_EQ(at->find(chain[2].signature, chain[2].after), first->parent);
  EXPECT_EQ(at->find(fork[2].signature, fork[2].after), second->parent);
  EXPECT_EQ(at->find(fork[2].signature, {7}), nullptr);
}

TEST_F(PrefixTreeTest, running_out_of_memory_leaves_the_tree_as_it_was) {
  TreeNode* const known = insert(recording({1, 2}));
  std::vector<Operation> longer = recording({1, 3, 4, 5});
  const Binding binding = binding_of(longer, 9);
  int failures = 0;
  TreeNode* end = nullptr;
  for (;; ++failures) {
    let_allocations_work(failures);
    try {
      end = tree_.insert(longer, binding);
    } catch (const std::bad_alloc&) {
    }
    let_allocations_work(-1);
    if (end != nullptr) break;
    EXPECT_EQ(tree_.nodes(), 4u);
    EXPECT_EQ(tree_.find(longer, binding), nullptr);
    EXPECT_EQ(known->parent->parent->first_child.load(), known->parent);
  }
  EXPECT_EQ(failures, 4) << "one for each new node";
  end->graph.store(some_recording());
  ends_.push_back(end);
  EXPECT_EQ(tree_.find(longer, binding), end);
}

TEST_F(PrefixTreeTest, rule_28_only_grids_that_were_accepted) {
  TreeNode* const kernel = insert(recording({1}), 4)->parent;
  const auto accepts = [kernel](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    const std::uint32_t grid[3] = {x, y, z};
    return kernel->accepts(grid);
  };
  EXPECT_TRUE(accepts(4, 4, 1));
  EXPECT_TRUE(accepts(1, 1, 1));
  EXPECT_FALSE(accepts(5, 1, 1));
  EXPECT_FALSE(accepts(1, 1, 2));
  EXPECT_FALSE(accepts(0, 1, 1));
  insert(recording({1}), 6);
  EXPECT_TRUE(accepts(6, 5, 1)) << "a larger one was accepted since";
  insert(recording({1}), 2);
  EXPECT_TRUE(accepts(6, 5, 1)) << "and is not forgotten";
}

TEST_F(PrefixTreeTest, beginnings_are_kept_apart) {
  TreeNode* const a = insert(recording({1}, 10));
  TreeNode* const b = insert(recording({1}, 20));
  EXPECT_NE(a, b);
  EXPECT_EQ(walk(tree_, recording({1}, 20)), b);
}

TEST_F(PrefixTreeTest, any_difference_in_a_signature_counts) {
  insert(recording({1}));
  const auto differs = [this](auto change) {
    std::vector<Operation> other = recording({1});
    change(other[1].signature);
    return walk(tree_, other) == nullptr;
  };
  EXPECT_TRUE(differs([](Signature& it) { it.stream = 1; }));
  EXPECT_TRUE(differs([](Signature& it) { it.device = 1; }));
  EXPECT_TRUE(differs([](Signature& it) { it.object = 2; }));
  EXPECT_TRUE(differs([](Signature& it) { it.form = KernelForm::kStub; }));
  EXPECT_TRUE(differs([](Signature& it) { it.payload_bytes = 8; }));
  EXPECT_TRUE(differs([](Signature& it) { it.validity = 1; }));
  EXPECT_TRUE(differs([](Signature& it) { it.generation = 1; }));
  EXPECT_TRUE(differs([](Signature& it) { it.dst_class = 1; }));
  EXPECT_TRUE(differs([](Signature& it) { it.src_class = 1; }));
  EXPECT_FALSE(differs([](Signature&) {}));
}

}  // namespace
}  // namespace graphpool
