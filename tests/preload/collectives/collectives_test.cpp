// Rules 11 and 12: programs whose captures hold collectives (fake_rccl.cpp), natively and under the library: the sums
// are right, captures that come again are compared as others are, and a communicator can be destroyed once the
// program's graphs are, not earlier.
#include <atomic>
#include <memory>
#include <thread>

#include "rccl.h"
#include "tests/preload/graphs/captures.h"

namespace captures {
namespace {

/// A device of the process and what one rank has there.
struct Rank {
  explicit Rank(int ordinal) : device(ordinal) {
    EXPECT_EQ(hipSuccess, hipSetDevice(ordinal));
    kernels = std::make_unique<Kernels>();
    stream = std::make_unique<Stream>();
  }
  const int device;
  ncclComm_t comm = nullptr;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Stream> stream;
  hipGraphExec_t exec = nullptr;
};

class Collectives : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  Collectives() {
    for (int rank = 0; rank < kRanks; ++rank) ranks_.push_back(std::make_unique<Rank>(rank));
    ncclComm_t comms[kRanks] = {};
    EXPECT_EQ(ncclSuccess, ncclCommInitAll(comms, kRanks, nullptr));
    for (int rank = 0; rank < kRanks; ++rank) ranks_[static_cast<std::size_t>(rank)]->comm = comms[rank];
  }
  ~Collectives() override { EXPECT_EQ(hipSuccess, hipSetDevice(0)); }

  void each(const std::function<void(Rank&)>& body) {
    for (const auto& rank : ranks_) {
      OK(hipSetDevice(rank->device));
      body(*rank);
    }
  }
  void destroy_comms() {
    each([](Rank& rank) { NCCL_OK(ncclCommDestroy(rank.comm)); });
  }
  /// mix by `a` and the rank, sum over the ranks, mix by 1, each into a buffer of its own.
  static void work(Rank& rank, int* in, int* out, int a) {
    OK(rank.kernels->mix(*rank.stream, in, kCount, a + rank.device));
    NCCL_OK(ncclAllReduce(in, out, kCount, ncclInt, ncclSum, rank.comm, *rank.stream));
    OK(rank.kernels->mix(*rank.stream, out, kCount, 1));
  }
  /// What work() makes of buffers of zeros.
  static int worked(int a) {
    unsigned sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) sum += static_cast<unsigned>(mixed(0, a + rank));
    return mixed(static_cast<int>(sum), 1);
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(Collectives, rule_12_steps_that_capture_them_end_with_the_communicator) {
  for (int i = 0; i < 8; ++i) {
    const Since since({"hipModuleLaunchKernel"});
    // Buffers of their own each step; those of some steps stay, so that addresses move.
    std::vector<std::unique_ptr<Buffer>> in, out;
    std::vector<hipGraphExec_t> execs;
    std::vector<std::unique_ptr<Buffer>> between;
    each([&](Rank&) {
      if (i % 3 == 1) between.push_back(std::make_unique<Buffer>());
      in.push_back(std::make_unique<Buffer>());
      out.push_back(std::make_unique<Buffer>());
    });
    std::size_t at = 0;
    each([&](Rank& rank) {
      const hipGraph_t graph = capture(*rank.stream, [&] { work(rank, in[at]->get(), out[at]->get(), i); });
      hipGraphExec_t exec = nullptr;
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphDestroy(graph));
      execs.push_back(exec);
      ++at;
    });
    at = 0;
    each([&](Rank& rank) { OK(hipGraphLaunch(execs[at++], *rank.stream)); });
    each([&](Rank& rank) { OK(hipStreamSynchronize(*rank.stream)); });
    at = 0;
    each([&](Rank&) {
      EXPECT_EQ(worked(i), out[at]->value()) << "step " << i;
      OK(hipGraphExecDestroy(execs[at++]));
    });
    EXPECT_EQ(i > 0 && compares_captures() ? 0 : 3 * kRanks, since["hipModuleLaunchKernel"]) << "step " << i;
  }
  destroy_comms();
}

TEST_F(Collectives, rule_12_after_captures_that_begin_the_same_without_one) {
  Rank& rank = *ranks_[0];
  OK(hipSetDevice(0));
  ncclComm_t alone = nullptr;
  NCCL_OK(ncclCommInitAll(&alone, 1, nullptr));
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 9; ++i) {
    const bool collective = i >= 3 && i % 2 == 1;
    const Since since({"hipModuleLaunchKernel"});
    step(*rank.stream, [&] {
      OK(rank.kernels->mix(*rank.stream, buffer.get(), kCount, i));
      if (collective) NCCL_OK(ncclAllReduce(buffer.get(), buffer.get(), kCount, ncclInt, ncclSum, alone, *rank.stream));
    });
    value = mixed(value, i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    const int launches = since["hipModuleLaunchKernel"];
    // The first with a collective is captured, its beginning, too.
    const bool first = i == 0 || i == 3;
    EXPECT_EQ(!first && compares_captures() ? 0 : 1 + collective, launches) << "step " << i;
  }
  NCCL_OK(ncclCommDestroy(alone));
  destroy_comms();
}

TEST_F(Collectives, rule_11_a_communicator_is_destroyed_when_the_last_exec_is) {
  // The executable graph outlives its graph, and the communicator is destroyed by another thread meanwhile.
  std::vector<std::unique_ptr<Buffer>> in, out;
  each([&](Rank& rank) {
    in.push_back(std::make_unique<Buffer>());
    out.push_back(std::make_unique<Buffer>());
    const hipGraph_t graph = capture(*rank.stream, [&] { work(rank, in.back()->get(), out.back()->get(), 5); });
    OK(hipGraphInstantiate(&rank.exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
  });
  each([&](Rank& rank) { OK(hipGraphLaunch(rank.exec, *rank.stream)); });
  each([&](Rank& rank) { OK(hipStreamSynchronize(*rank.stream)); });
  std::atomic<int> destroyed{0};
  std::vector<std::thread> destroyers;
  for (const auto& rank : ranks_)
    destroyers.emplace_back([&destroyed, comm = rank->comm] {
      EXPECT_EQ(ncclSuccess, ncclCommDestroy(comm));
      ++destroyed;
    });
  std::size_t at = 0;
  each([&](Rank&) { EXPECT_EQ(worked(5), out[at++]->value()); });
  EXPECT_EQ(0, destroyed) << "the graphs may still be launched";
  each([&](Rank& rank) { OK(hipGraphExecDestroy(rank.exec)); });
  for (std::thread& destroyer : destroyers) destroyer.join();
}

TEST_F(Collectives, rule_12_beside_captures_without_any) {
  // A step of two graphs: one is the same as before, the other holds a collective.
  std::vector<std::unique_ptr<Buffer>> in, out, other;
  each([&](Rank&) {
    in.push_back(std::make_unique<Buffer>());
    out.push_back(std::make_unique<Buffer>());
    other.push_back(std::make_unique<Buffer>());
  });
  int value = 0, before = 0;
  std::vector<int> expected(kRanks, 0);
  for (int i = 0; i < 5; ++i) {
    std::size_t at = 0;
    const Since since({"hipGraphInstantiate"});
    each([&](Rank& rank) {
      step(*rank.stream, [&] { OK(rank.kernels->mix(*rank.stream, other[at]->get(), kCount, 7)); });
      const hipGraph_t graph = capture(*rank.stream, [&] { work(rank, in[at]->get(), out[at]->get(), i); });
      OK(hipGraphInstantiate(&rank.exec, graph, nullptr, nullptr, 0));
      OK(hipGraphDestroy(graph));
      ++at;
    });
    each([&](Rank& rank) { OK(hipGraphLaunch(rank.exec, *rank.stream)); });
    each([&](Rank& rank) { OK(hipStreamSynchronize(*rank.stream)); });
    value = mixed(value, 7);
    unsigned sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      int& mine = expected[static_cast<std::size_t>(rank)];
      mine = mixed(mine, i + rank);
      sum += static_cast<unsigned>(mine);
    }
    at = 0;
    each([&](Rank& rank) {
      EXPECT_EQ(value, other[at]->value()) << "step " << i;
      EXPECT_EQ(mixed(static_cast<int>(sum), 1), out[at]->value()) << "step " << i;
      OK(hipGraphExecDestroy(rank.exec));
      ++at;
    });
    before = since["hipGraphInstantiate"];
  }
  // Where the runtime cannot be trusted to patch a kernel, the graph with the new argument has an exec of its own.
  EXPECT_LE(before, under_library() ? kRanks : 2 * kRanks) << "in the last step";
  EXPECT_GE(before, under_library() ? 0 : 2 * kRanks);
  destroy_comms();
}

TEST_F(Collectives, rule_12_that_are_not_captured) {
  std::vector<std::unique_ptr<Buffer>> in, out;
  for (int i = 0; i < 3; ++i) {
    each([&](Rank& rank) {
      in.push_back(std::make_unique<Buffer>());
      out.push_back(std::make_unique<Buffer>());
      work(rank, in.back()->get(), out.back()->get(), i);
    });
    each([&](Rank& rank) { OK(hipStreamSynchronize(*rank.stream)); });
    each([&](Rank& rank) {
      EXPECT_EQ(worked(i), out[out.size() - kRanks + static_cast<std::size_t>(rank.device)]->value());
    });
  }
  destroy_comms();
}

}  // namespace
}  // namespace captures
