// collectives.cpp: RCCL's collectives between the devices of one process: eager, then captured anew in each step, as a
// training step with several devices does; the graph of each device is launched twice.
//
// Each step puts other numbers in, and every other step another buffer is the one received into. What arrived is
// compared with what the host computes, and its checksum printed.
#include <rccl/rccl.h>

#include <functional>

#include "../programs/program.h"

namespace {

void check_rccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(result));
  std::exit(1);
}
#define CHECK_RCCL(call) check_rccl((call), #call)

/// Small whole numbers: their sums are exact in any order.
float number(int step, int rank, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(step) * 7 + static_cast<std::size_t>(rank) * 3 + i) % 11);
}

struct Rank {
  ncclComm_t communicator;
  hipStream_t stream;
  float* in;
  float* out[2];
};

class Step {
 public:
  Step(int devices, std::size_t count) : ranks_(static_cast<std::size_t>(devices)), count_(count) {
    std::vector<int> list;
    for (int device = 0; device < devices; ++device) list.push_back(device);
    std::vector<ncclComm_t> communicators(ranks_.size());
    CHECK_RCCL(ncclCommInitAll(communicators.data(), devices, list.data()));
    for_each([&](int device, Rank& rank) {
      rank.communicator = communicators[static_cast<std::size_t>(device)];
      CHECK(hipStreamCreateWithFlags(&rank.stream, hipStreamNonBlocking));
      rank.in = program::allocate<float>(count_);
      for (float*& out : rank.out) out = program::allocate<float>(count_);
    });
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    for_each([](int, Rank& rank) {
      CHECK(hipFree(rank.in));
      for (float* const out : rank.out) CHECK(hipFree(out));
      CHECK(hipStreamDestroy(rank.stream));
      CHECK_RCCL(ncclCommDestroy(rank.communicator));
    });
  }

  void eager(int step) {
    fill(step);
    communicate(step);
    compare(step, "eager");
  }

  void captured(int step) {
    std::vector<hipGraph_t> graphs(ranks_.size());
    std::vector<hipGraphExec_t> execs(ranks_.size());
    const auto at = [](int device) { return static_cast<std::size_t>(device); };
    for_each([](int, Rank& rank) { CHECK(hipStreamBeginCapture(rank.stream, hipStreamCaptureModeThreadLocal)); });
    communicate(step);
    for_each([&](int device, Rank& rank) {
      CHECK(hipStreamEndCapture(rank.stream, &graphs[at(device)]));
      CHECK(hipGraphInstantiate(&execs[at(device)], graphs[at(device)], nullptr, nullptr, 0));
    });
    for (int launch = 0; launch < 2; ++launch) {
      fill(step + launch);
      for_each([&](int device, Rank& rank) { CHECK(hipGraphLaunch(execs[at(device)], rank.stream)); });
      compare(step + launch, "graph", step);
    }
    for_each([&](int device, Rank&) {
      CHECK(hipGraphExecDestroy(execs[at(device)]));
      CHECK(hipGraphDestroy(graphs[at(device)]));
    });
  }

  bool right() const { return wrong_ == 0; }

 private:
  void for_each(const std::function<void(int, Rank&)>& act) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      CHECK(hipSetDevice(static_cast<int>(i)));
      act(static_cast<int>(i), ranks_[i]);
    }
  }

  void fill(int step) {
    for_each([&](int device, Rank& rank) {
      std::vector<float> numbers(count_);
      for (std::size_t i = 0; i < count_; ++i) numbers[i] = number(step, device, i);
      CHECK(hipMemcpy(rank.in, numbers.data(), count_ * sizeof(float), hipMemcpyHostToDevice));
      for (float* const out : rank.out) CHECK(hipMemset(out, 0, count_ * sizeof(float)));
      CHECK(hipDeviceSynchronize());
    });
  }

  /// The sum of all into `out[0]` or `out[1]`, what the first rank has then into the other, both in the order of the
  /// stream.
  void communicate(int step) {
    CHECK_RCCL(ncclGroupStart());
    for_each([&](int, Rank& rank) {
      float* const sum = rank.out[step % 2];
      CHECK_RCCL(ncclAllReduce(rank.in, sum, count_, ncclFloat, ncclSum, rank.communicator, rank.stream));
    });
    CHECK_RCCL(ncclGroupEnd());
    CHECK_RCCL(ncclGroupStart());
    for_each([&](int, Rank& rank) {
      float* const other = rank.out[1 - step % 2];
      CHECK_RCCL(ncclBroadcast(rank.in, other, count_, ncclFloat, 0, rank.communicator, rank.stream));
    });
    CHECK_RCCL(ncclGroupEnd());
  }

  /// `captured_in`: the step whose buffers the graph has.
  void compare(int step, const char* how, int captured_in = -1) {
    const int buffers = captured_in < 0 ? step : captured_in;
    for_each([&](int device, Rank& rank) {
      CHECK(hipStreamSynchronize(rank.stream));
      const std::vector<float> sums = program::download(rank.out[buffers % 2], count_);
      const std::vector<float> first = program::download(rank.out[1 - buffers % 2], count_);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count_; ++i) {
        float sum = 0;
        for (int other = 0; other < static_cast<int>(ranks_.size()); ++other) sum += number(step, other, i);
        wrong += sums[i] != sum;
        wrong += first[i] != number(step, 0, i);
      }
      wrong_ += wrong;
      std::printf("%s, step %d, device %d: %zu wrong, checksum %016" PRIx64 "\n", how, step, device, wrong,
                  program::checksum(first, program::checksum(sums)));
    });
  }

  std::vector<Rank> ranks_;
  std::size_t count_, wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"devices", "2"}, {"count", "5000"}, {"steps", "6"}});
  Step step(options.number("devices"), static_cast<std::size_t>(options.number("count")));
  step.eager(0);
  step.eager(1);
  for (int i = 0; i < options.number("steps"); ++i) step.captured(i);
  return step.right() ? 0 : 1;
}
