#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "shim/callsite/frame_tree.h"

namespace graphpool {
namespace {

using Stack = std::vector<std::uintptr_t>;  // innermost first

TEST(FrameTree, TheSameStackIsTheSameIndex) {
  static constinit FrameTree tree;
  const FrameTree::Index stack = tree.intern(Stack{30, 20, 10});
  ASSERT_NE(stack, FrameTree::kUnknown);
  EXPECT_EQ(tree.intern(Stack{30, 20, 10}), stack);
  EXPECT_EQ(tree.size(), 3u);
  EXPECT_NE(tree.intern(Stack{31, 20, 10}), stack);
  EXPECT_EQ(tree.size(), 4u) << "the outer frames are shared";
  EXPECT_NE(tree.intern(Stack{30, 20, 11}), stack) << "the same frame under another parent is another";
  EXPECT_EQ(tree.size(), 7u);
}

TEST(FrameTree, FramesKnowTheirWayOut) {
  static constinit FrameTree tree;
  FrameTree::Index frame = tree.intern(Stack{30, 20, 10});
  EXPECT_EQ(tree.depth(frame), 3u);
  EXPECT_EQ(tree.address(frame), 30u);
  EXPECT_EQ(tree.address(tree.parent(frame)), 20u);
  EXPECT_EQ(tree.address(tree.ancestor(frame, 2)), 10u);
  EXPECT_EQ(tree.ancestor(frame, 3), FrameTree::kRoot);
}

TEST(FrameTree, AnEmptyStackIsUnknown) {
  static constinit FrameTree tree;
  EXPECT_EQ(tree.intern(Stack{}), FrameTree::kUnknown);
  EXPECT_EQ(tree.depth(FrameTree::kUnknown), 0u);
  EXPECT_FALSE(tree.is_whole(FrameTree::kUnknown));
  EXPECT_FALSE(tree.is_prefix(FrameTree::kUnknown, FrameTree::kUnknown));
}

TEST(FrameTree, PrefixesCountFromTheOutermostFrame) {
  static constinit FrameTree tree;
  const FrameTree::Index outer = tree.intern(Stack{20, 10}), stack = tree.intern(Stack{40, 30, 20, 10});
  const FrameTree::Index inner = tree.intern(Stack{40, 30}), sibling = tree.intern(Stack{21, 10});
  EXPECT_TRUE(tree.is_prefix(outer, stack));
  EXPECT_TRUE(tree.is_prefix(stack, stack));
  EXPECT_FALSE(tree.is_prefix(stack, outer));
  EXPECT_FALSE(tree.is_prefix(inner, stack)) << "the innermost frames are no prefix";
  EXPECT_FALSE(tree.is_prefix(sibling, stack));
}

TEST(FrameTree, StacksCutAtTheirOuterEndAreApart) {
  static constinit FrameTree tree;
  const FrameTree::Index whole = tree.intern(Stack{20, 10}), cut = tree.intern(Stack{20, 10}, false);
  EXPECT_NE(whole, cut);
  EXPECT_TRUE(tree.is_whole(whole));
  EXPECT_FALSE(tree.is_whole(cut));
  EXPECT_FALSE(tree.is_prefix(whole, cut));
}

TEST(FrameTree, CountsVisits) {
  static constinit FrameTree tree;
  const FrameTree::Index stack = tree.intern(Stack{20, 10});
  EXPECT_EQ(tree.count(stack), 0u);
  EXPECT_EQ(tree.count(stack), 1u);
  EXPECT_EQ(tree.count(tree.parent(stack)), 0u);
}

TEST(FrameTree, IndicesStayWhileItGrows) {
  static constinit FrameTree tree;
  std::map<Stack, FrameTree::Index> known;
  std::mt19937_64 random(3);
  for (int i = 0; i < 30000; ++i) {
    Stack stack(1 + random() % 12);
    for (std::uintptr_t& address : stack) address = 1 + random() % 5;
    const auto [there, added] = known.try_emplace(stack, tree.intern(stack));
    ASSERT_NE(there->second, FrameTree::kUnknown);
    ASSERT_EQ(tree.intern(stack), there->second);
    FrameTree::Index frame = there->second;
    for (const std::uintptr_t address : stack) {
      ASSERT_EQ(tree.address(frame), address);
      frame = tree.parent(frame);
    }
    ASSERT_EQ(frame, FrameTree::kRoot);
  }
}

TEST(FrameTree, IsBoundedAndKeepsWhatItHas) {
  static constinit FrameTree tree;
  const FrameTree::Index first = tree.intern(Stack{1});
  std::uintptr_t address = 2;
  while (tree.intern(Stack{address}) != FrameTree::kUnknown) ++address;
  EXPECT_EQ(tree.size(), FrameTree::kMaxFrames - 3);
  EXPECT_EQ(tree.intern(Stack{1}), first);
  EXPECT_EQ(tree.intern(Stack{address, 1}), FrameTree::kUnknown);
}

TEST(FrameTree, ManyThreadsAgree) {
  static constinit FrameTree tree;
  constexpr int kThreads = 4, kStacks = 4000;
  std::vector<std::vector<FrameTree::Index>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&seen, t] {
      for (std::uintptr_t i = 0; i < kStacks; ++i) {
        const std::uintptr_t n = t % 2 == 0 ? i : kStacks - 1 - i;
        const FrameTree::Index stack = tree.intern(Stack{n, n % 64 + 1, n % 8 + 1});
        EXPECT_EQ(tree.address(stack), n);
        EXPECT_EQ(tree.depth(stack), 3u);
        seen[static_cast<std::size_t>(t)].push_back(stack);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kStacks; ++i) {
    EXPECT_EQ(seen[0][i], seen[2][i]);
    EXPECT_EQ(seen[0][i], seen[1][kStacks - 1 - i]);
  }
}

}  // namespace
}  // namespace graphpool
