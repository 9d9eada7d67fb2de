#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "shim/base/waits.h"

namespace graphpool {
namespace {

TEST(Waits, AreSeenWhileTheyLast) {
  EXPECT_TRUE(waits_now().empty());
  {
    NotedWait wait("something", 7);
    std::vector<WaitSeen> seen = waits_now();
    ASSERT_EQ(1u, seen.size());
    EXPECT_STREQ("something", seen[0].what);
    EXPECT_EQ(nullptr, seen[0].reason);
    EXPECT_EQ(7u, seen[0].graph);
    EXPECT_EQ(static_cast<std::uint64_t>(gettid()), seen[0].thread);
    wait.because("of that");
    seen = waits_now();
    ASSERT_EQ(1u, seen.size());
    EXPECT_STREQ("of that", seen[0].reason);
  }
  EXPECT_TRUE(waits_now().empty());
  const NotedWait again("another");
  const std::vector<WaitSeen> seen = waits_now();
  ASSERT_EQ(1u, seen.size());
  EXPECT_EQ(nullptr, seen[0].reason) << "that was the other one's";
}

TEST(Waits, MoreThanThereArePlacesForAreNotSeen) {
  std::vector<std::unique_ptr<NotedWait>> waits;
  for (std::size_t i = 0; i <= NotedWait::kMost; ++i) waits.push_back(std::make_unique<NotedWait>("one of many"));
  EXPECT_EQ(NotedWait::kMost, waits_now().size());
  waits.back()->because("it has no place");
  waits.pop_back();
  EXPECT_EQ(NotedWait::kMost, waits_now().size());
  waits.pop_back();
  EXPECT_EQ(NotedWait::kMost - 1, waits_now().size());
  waits.clear();
  EXPECT_TRUE(waits_now().empty());
}

TEST(Waits, OfManyThreadsAreEachSeenWhole) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (std::uint64_t round = 1; round < 2000; ++round) {
        NotedWait wait("a thread's", round);
        wait.because("it is its turn");
      }
    });
  for (int i = 0; i < 2000; ++i)
    for (const WaitSeen& each : waits_now()) {
      EXPECT_STREQ("a thread's", each.what);
      EXPECT_NE(0u, each.thread);
    }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(waits_now().empty());
}

}  // namespace
}  // namespace graphpool
