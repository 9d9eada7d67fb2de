// Rule 12: ranks need not decide alike. Each rank captures its step anew on a thread of its own; the library that the
// tests build for themselves decides by chance, rank by rank and capture by capture, whether it is served, recorded or
// left to the runtime (SEEDED_COIN). The sums are right, each launch runs the host function of each of its collectives
// once, and at the end no graph holds anything of a communicator. COIN_STEPS: how many steps; COIN_RANKS: of how many
// ranks.
#include <memory>
#include <thread>

#include "rccl.h"
#include "tests/preload/graphs/captures.h"

namespace captures {
namespace {

int number(const char* name, int otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted == nullptr ? otherwise : std::atoi(wanted);
}

/// What all ranks do in a step, by its number.
struct Step {
  explicit Step(int step) : collectives(1 + step % 3), launches(step % 7 == 3 ? 2 : 1), moves(step % 5 == 2) {}
  const int collectives;
  const int launches;
  const bool moves;  ///< the buffers are others from here on
};

class RankOfCoin {
 public:
  RankOfCoin(int rank, int ranks, ncclComm_t comm) : rank_(rank), ranks_(ranks), comm_(comm), values_(ranks, 0) {}

  /// The body of its thread.
  void run(int steps) {
    OK(hipSetDevice(rank_));
    kernels_ = std::make_unique<Kernels>();
    stream_ = std::make_unique<Stream>();
    renew_buffers();
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) step(i);
    if (updated_ != nullptr) OK(hipGraphExecDestroy(updated_));
    EXPECT_EQ(expected_callbacks_, fakeRcclProxied(comm_)) << "rank " << rank_;
    kept_.insert(kept_.end(), {in_, out_});
    for (int* const buffer : kept_) OK(hipFree(buffer));
  }

 private:
  void renew_buffers() {
    // Nothing here uses the null stream, which others' captures forbid.
    if (in_ != nullptr) kept_.push_back(in_);
    if (kept_.size() > 4) {
      OK(hipFree(kept_.front()));
      kept_.erase(kept_.begin());
    }
    for (int** const buffer : {&in_, &out_}) {
      if (buffer == &out_ && out_ != nullptr) OK(hipFree(out_));
      OK(hipMalloc(reinterpret_cast<void**>(buffer), kBytes));
      OK(hipMemsetAsync(*buffer, 0, kBytes, *stream_));
    }
    std::fill(values_.begin(), values_.end(), 0);
  }

  void step(int i) {
    const Step what(i);
    if (what.moves) renew_buffers();
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(*stream_, hipStreamCaptureModeThreadLocal));  // others allocate meanwhile
    for (int at = 0; at < what.collectives; ++at) {
      OK(kernels_->mix(*stream_, in_, kCount, i + at + rank_));
      NCCL_OK(ncclAllReduce(in_, out_, kCount, ncclInt, ncclSum, comm_, *stream_));
      OK(kernels_->mix(*stream_, out_, kCount, at));
    }
    OK(hipStreamEndCapture(*stream_, &graph));
    // Every third step updates an exec that stays, if it can.
    const bool updates = i % 3 == 1;
    hipGraphExec_t exec = updates ? updated_ : nullptr;
    if (exec != nullptr) {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result{};
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
    } else {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      if (updates) updated_ = exec;
    }
    OK(hipGraphDestroy(graph));
    for (int launch = 0; launch < what.launches; ++launch) OK(hipGraphLaunch(exec, *stream_));
    OK(hipStreamSynchronize(*stream_));
    if (exec != updated_) OK(hipGraphExecDestroy(exec));
    expected_callbacks_ += static_cast<unsigned long>(what.collectives * what.launches);
    std::vector<int> sums(kCount);
    OK(hipMemcpyAsync(sums.data(), out_, kBytes, hipMemcpyDeviceToHost, *stream_));
    OK(hipStreamSynchronize(*stream_));
    EXPECT_EQ(std::vector<int>(kCount, expected(i, what)), sums) << "rank " << rank_ << ", step " << i;
  }

  /// What the step leaves in the buffer of sums. Every rank knows what all the others have.
  int expected(int i, const Step& what) {
    int value = 0;
    for (int launch = 0; launch < what.launches; ++launch) {
      for (int at = 0; at < what.collectives; ++at) {
        unsigned sum = 0;
        for (int other = 0; other < ranks_; ++other) {
          int& in = values_[static_cast<std::size_t>(other)];
          in = mixed(in, i + at + other);
          sum += static_cast<unsigned>(in);
        }
        value = mixed(static_cast<int>(sum), at);
      }
    }
    return value;
  }

  static constexpr std::size_t kBytes = kCount * sizeof(int);
  const int rank_, ranks_;
  const ncclComm_t comm_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Stream> stream_;
  int *in_ = nullptr, *out_ = nullptr;
  std::vector<int*> kept_;  ///< so that others have other addresses
  hipGraphExec_t updated_ = nullptr;
  std::vector<int> values_;  ///< of each rank's buffer
  unsigned long expected_callbacks_ = 0;
};

TEST(Coin, rule_12_ranks_decide_by_chance_what_is_served) {
  const int steps = number("COIN_STEPS", 60), ranks = number("COIN_RANKS", 2);
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  NCCL_OK(ncclCommInitAll(comms.data(), ranks, nullptr));
  const Since since({"hipModuleLaunchKernel"});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(
        [=, comm = comms[static_cast<std::size_t>(rank)]] { RankOfCoin(rank, ranks, comm).run(steps); });
  for (std::thread& thread : threads) thread.join();
  int captured = 0;
  for (int i = 0; i < steps; ++i) captured += 3 * Step(i).collectives * ranks;
  const int reached = since["hipModuleLaunchKernel"];
  std::printf("%d steps of %d ranks: %d of %d captured kernels reached the runtime\n", steps, ranks, reached, captured);
  if (!under_library()) {
    EXPECT_EQ(captured, reached);
  } else if (std::getenv("SEEDED_COIN") != nullptr) {
    EXPECT_LT(captured / 4, reached);
    EXPECT_GT(3 * captured / 4, reached);
  } else {
    EXPECT_GE(captured / 20, reached) << "served";
  }
  for (const ncclComm_t comm : comms) {
    EXPECT_EQ(0, fakeRcclHeld(comm));
    NCCL_OK(ncclCommDestroy(comm));
  }
}

}  // namespace
}  // namespace captures
