#include "graph_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

namespace cpuhip {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

TEST(GraphRun, KnowsChains) {
  EXPECT_TRUE(make_dag(0, {}).chain);
  EXPECT_TRUE(make_dag(1, {}).chain);
  EXPECT_TRUE(make_dag(3, {{0, 1}, {1, 2}}).chain);
  EXPECT_FALSE(make_dag(3, {{0, 1}, {0, 2}}).chain);
  EXPECT_FALSE(make_dag(2, {}).chain);
}

TEST(GraphRun, RunsNothing) {
  run_dag(make_dag(0, {}), [](std::uint32_t) { FAIL(); });
}

TEST(GraphRun, KeepsTheOrderOfAChainOnOneThread) {
  Edges edges;
  for (std::uint32_t i = 0; i < 99; ++i) edges.emplace_back(i, i + 1);
  std::vector<std::uint32_t> order;
  const auto caller = std::this_thread::get_id();
  run_dag(make_dag(100, edges), [&](std::uint32_t vertex) {
    EXPECT_EQ(caller, std::this_thread::get_id());
    order.push_back(vertex);
  });
  ASSERT_EQ(100u, order.size());
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(i, order[i]);
}

TEST(GraphRun, EveryVertexRunsOnceAfterItsDependencies) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t size = 1 + random() % 60;
    Edges edges;
    for (std::uint32_t to = 1; to < size; ++to) {
      for (std::uint32_t from = 0; from < to; ++from) {
        if (random() % 12 == 0) edges.emplace_back(from, to);
      }
    }
    std::shuffle(edges.begin(), edges.end(), random);
    std::vector<std::atomic<int>> done(size);
    run_dag(make_dag(size, edges), [&](std::uint32_t vertex) {
      for (const auto& [from, to] : edges) {
        if (to == vertex) {
          EXPECT_EQ(1, done[from]);
        }
      }
      ++done[vertex];
    });
    for (const auto& count : done) EXPECT_EQ(1, count);
  }
}

/// Each of many branches waits for all others: with any limit on threads this would hang.
TEST(GraphRun, BranchesMayWaitForEachOther) {
  constexpr int kBranches = 40;
  std::atomic<int> arrived{0};
  run_dag(make_dag(kBranches, {}), [&](std::uint32_t) {
    ++arrived;
    while (arrived != kBranches) std::this_thread::yield();
  });
  EXPECT_EQ(kBranches, arrived);
}

TEST(GraphRun, RunsAtTheSameTimeFromSeveralThreads) {
  Edges edges;
  for (std::uint32_t i = 1; i < 9; ++i) {
    edges.emplace_back(0, i);
    edges.emplace_back(i, 9);
  }
  const Dag dag = make_dag(10, edges);
  std::vector<std::thread> threads;
  std::atomic<int> ran{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) run_dag(dag, [&](std::uint32_t) { ++ran; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(4 * 50 * 10, ran);
}

TEST(GraphRun, ThreadsAreUsedAgain) {
  const Dag dag = make_dag(8, {});
  for (int i = 0; i < 20; ++i) run_dag(dag, [](std::uint32_t) {});
  const std::size_t before = helper_thread_count();
  constexpr std::size_t kRuns = 200;
  for (std::size_t i = 0; i < kRuns; ++i) run_dag(dag, [](std::uint32_t) {});
  // Where the machine lets none of them run for a while one more is started, for they might wait for each other.
  EXPECT_LE(helper_thread_count(), before + kRuns);
}

}  // namespace
}  // namespace cpuhip
