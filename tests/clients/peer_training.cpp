// A training step on two devices, with an all-reduce of each layer's gradient: as a framework that captures its step
// with RCCL makes it, with the collectives of peer_collectives.h. Ends with 77 where there are no two devices that
// reach each other.
//
//   --mode eager      every kernel by itself
//          recapture  captured, instantiated and destroyed each step
//          update     captured each step; one executable graph, updated
//          static     captured once, in buffers that stay: what can be done by hand
//   --drive one       one thread drives both devices
//           threads   a thread a device
//   --extra           compute kernels a layer beyond the least
//   --absent 1        the second device is launched nothing: the first gives up waiting for it
//   --split 1         also writes to stderr where each rank's host time went: us a step by part, the median of the last
//                     half of the steps
//
// Activations and gradients come from hipMalloc in each step, but for `static`. All numbers are whole and small, so
// that sums are exact. Prints a checksum of each rank's weights in each step, and whether they are what the host
// computes.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "client.h"
#include "peer_collectives.h"

namespace {

constexpr int kRanks = 2;

constexpr char kSource[] = R"(
extern "C" __global__ void forward(float* out, const float* in, const float* weight, int add, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = (float)(((int)in[i] * 3 + (int)weight[i] + add) % 17);
}
extern "C" __global__ void backward(float* gradient, const float* out, const float* upstream, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) gradient[i] = (float)(((int)out[i] + 2 * (int)upstream[i]) % 13);
}
extern "C" __global__ void update(float* weight, const float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weight[i] = (float)(((int)weight[i] + (int)sum[i]) % 1009);
}
)";

struct Shape {
  int steps, layers, count, extra, patience;
  int absent;  ///< the rank that launches nothing; 0: none
  std::string mode;
  bool split;
  bool captures() const { return mode != "eager"; }
  bool fresh() const { return mode != "static"; }
};

/// What a step's host time is split into.
enum class Part { kAllocate, kBegin, kKernels, kCollectives, kEnd, kInstantiate, kLaunch, kWait, kDestroy, kMeet };
constexpr const char* kPartNames[] = {"allocate",    "begin",  "kernels", "collectives", "end",
                                      "instantiate", "launch", "wait",    "destroy",     "meet"};
constexpr std::size_t kParts = std::size(kPartNames);

/// The time of a rank's host work, by part.
class Split {
 public:
  explicit Split(bool wanted) : wanted_(wanted) {}
  /// Times `act` as this part.
  template <typename Act>
  void time(Part part, const Act& act) {
    if (!wanted_) return act();
    const auto started = Clock::now();
    act();
    now_[static_cast<std::size_t>(part)] += std::chrono::duration<double, std::micro>(Clock::now() - started).count();
  }
  void end_step() {
    if (wanted_) steps_.push_back(std::exchange(now_, {}));
  }
  void print(int rank) const {
    if (steps_.empty()) return;
    double sum = 0;
    std::fprintf(stderr, "rank %d, us a step:", rank);
    for (std::size_t part = 0; part < kParts; ++part) {
      std::vector<double> values;
      for (std::size_t step = steps_.size() / 2; step < steps_.size(); ++step) values.push_back(steps_[step][part]);
      std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
      const double median = values[values.size() / 2];
      std::fprintf(stderr, " %s %.1f", kPartNames[part], median);
      sum += median;
    }
    std::fprintf(stderr, " sum %.1f\n", sum);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool wanted_;
  std::array<double, kParts> now_{};
  std::vector<std::array<double, kParts>> steps_;
};

constexpr int kPeriod = 7;  ///< all elements so far apart are alike
int input(int step, int rank, int i) { return (step * 5 + rank * 3 + i) % kPeriod; }

/// One device, and its part of each step. A step is made in phases, so that one thread can drive both ranks in turn.
class Rank {
 public:
  Rank(int rank, const Shape& shape)
      : communicator(rank, shape.patience),
        split(shape.split),
        rank_(rank),
        shape_(shape),
        kernels_(kSource),
        stream_(program::new_stream()) {
    in_ = program::allocate<float>(count());
    for (int layer = 0; layer < shape_.layers; ++layer) {
      weights_.push_back(program::allocate<float>(count()));
      CHECK(hipMemsetAsync(weights_.back(), 0, bytes(), stream_));
    }
    if (!shape_.fresh()) allocate();
    CHECK(hipStreamSynchronize(stream_));
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  /// The device must be the current one.
  ~Rank() {
    if (!shape_.fresh()) release();
    if (exec_ != nullptr) CHECK(hipGraphExecDestroy(exec_));
    for (float* const weight : weights_) CHECK(hipFree(weight));
    CHECK(hipFree(in_));
    CHECK(hipStreamDestroy(stream_));
  }

  peers::Communicator communicator;
  Split split;

  void use() const { CHECK(hipSetDevice(rank_)); }
  int operations() const { return operations_; }
  const std::string& told() const { return told_; }

  /// The step's input; waits for it.
  void feed(int step) {
    std::vector<float> values(count());
    for (int i = 0; i < shape_.count; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(input(step, rank_, i));
    CHECK(hipMemcpyAsync(in_, values.data(), bytes(), hipMemcpyHostToDevice, stream_));
    CHECK(hipStreamSynchronize(stream_));
  }
  /// Nobody may be in a collective.
  void prepare() {
    if (shape_.fresh()) split.time(Part::kAllocate, [this] { allocate(); });
  }
  void begin() {
    if (issues() && shape_.captures())
      split.time(Part::kBegin, [this] { CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal)); });
  }
  /// Of `phases()`: a layer forwards, then a layer backwards.
  void issue(int phase) {
    if (!issues()) return;
    if (phase == 0) operations_ = 0;
    if (phase < shape_.layers) {
      forward(phase);
    } else {
      backward(2 * shape_.layers - 1 - phase);
    }
  }
  int phases() const { return 2 * shape_.layers; }
  void end() {
    if (!issues() || !shape_.captures()) return;
    hipGraph_t graph = nullptr;
    split.time(Part::kEnd, [&] { CHECK(hipStreamEndCapture(stream_, &graph)); });
    split.time(Part::kInstantiate, [&] { make_exec(graph); });
    split.time(Part::kDestroy, [&] { CHECK(hipGraphDestroy(graph)); });
  }
  void launch() {
    if (shape_.captures() && (rank_ == 0 || rank_ != shape_.absent))
      split.time(Part::kLaunch, [this] { CHECK(hipGraphLaunch(exec_, stream_)); });
  }
  void wait() {
    split.time(Part::kWait, [this] { CHECK(hipStreamSynchronize(stream_)); });
  }
  /// Nobody may be in a collective.
  void finish() {
    split.time(Part::kDestroy, [this] {
      if (shape_.mode == "recapture") CHECK(hipGraphExecDestroy(std::exchange(exec_, nullptr)));
      if (shape_.fresh()) release();
    });
  }

  /// The weights of the first layer, which depend on all others'.
  void tell(int step) { tell("rank %d step %d weights %016" PRIx64 "\n", rank_, step, weights(1)); }
  /// What all ranks have in the end, by the host; false where this rank has not.
  bool is_right() {
    std::uint64_t sum = program::checksum(nullptr, 0);
    std::vector<std::vector<float>> expected = computed();
    for (const std::vector<float>& weight : expected) sum = program::checksum(weight, sum);
    const bool gave_up = communicator.gave_up(stream_), right = !gave_up && sum == weights(weights_.size());
    tell("rank %d: %s\n", rank_, gave_up ? "gave up waiting for its peer" : right ? "right" : "wrong");
    return right;
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(shape_.count); }
  std::size_t bytes() const { return count() * sizeof(float); }
  bool issues() const { return shape_.fresh() || exec_ == nullptr; }

  void make_exec(hipGraph_t graph) {
    if (exec_ == nullptr) {
      CHECK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result{};
      CHECK(hipGraphExecUpdate(exec_, graph, &node, &result));
    }
  }
  void allocate() {
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (std::vector<float*>* const each : {&activations_, &gradients_, &sums_})
        each->push_back(program::allocate<float>(count()));
  }
  void release() {
    for (std::vector<float*>* const each : {&activations_, &gradients_, &sums_}) {
      for (float* const buffer : *each) CHECK(hipFree(buffer));
      each->clear();
    }
  }

  template <typename... Arguments>
  void run(hipFunction_t function, Arguments... arguments) {
    split.time(Part::kKernels, [&] {
      program::launch(function, program::blocks_for(shape_.count), dim3(program::kThreads), stream_, arguments...);
    });
    ++operations_;
  }
  void forward(int layer) {
    const auto at = static_cast<std::size_t>(layer);
    const float* from = layer == 0 ? in_ : activations_[at - 1];
    for (int i = 0; i <= shape_.extra; ++i) {
      run(forward_, activations_[at], from, static_cast<const float*>(weights_[at]), layer + i, shape_.count);
      from = activations_[at];
    }
  }
  void backward(int layer) {
    const auto at = static_cast<std::size_t>(layer);
    const float* const upstream = layer == shape_.layers - 1 ? in_ : gradients_[at + 1];
    run(backward_, gradients_[at], static_cast<const float*>(activations_[at]), upstream, shape_.count);
    split.time(Part::kCollectives, [&] { communicator.all_reduce(sums_[at], gradients_[at], shape_.count, stream_); });
    ++operations_;
    run(update_, weights_[at], static_cast<const float*>(sums_[at]), shape_.count);
  }

  /// In the stream's order: another thread may be capturing.
  std::uint64_t weights(std::size_t layers) const {
    std::uint64_t sum = program::checksum(nullptr, 0);
    std::vector<float> values(count());
    for (std::size_t layer = 0; layer < layers; ++layer) {
      CHECK(hipMemcpyAsync(values.data(), weights_[layer], bytes(), hipMemcpyDeviceToHost, stream_));
      CHECK(hipStreamSynchronize(stream_));
      sum = program::checksum(values, sum);
    }
    return sum;
  }
  /// All weights after all steps.
  std::vector<std::vector<float>> computed() const {
    const auto layers = static_cast<std::size_t>(shape_.layers);
    std::vector<std::vector<float>> weights(layers, std::vector<float>(count()));
    std::vector<int> outs(layers), sums(layers);
    for (int i = 0; i < std::min(kPeriod, shape_.count); ++i) {
      const auto at = static_cast<std::size_t>(i);
      for (int step = 0; step < shape_.steps; ++step) {
        sums.assign(layers, 0);
        for (int rank = 0; rank < kRanks; ++rank) {
          int value = input(step, rank, i);
          for (std::size_t layer = 0; layer < layers; ++layer) {
            for (int extra = 0; extra <= shape_.extra; ++extra)
              value = (value * 3 + static_cast<int>(weights[layer][at]) + static_cast<int>(layer) + extra) % 17;
            outs[layer] = value;
          }
          int upstream = input(step, rank, i);
          for (std::size_t layer = layers; layer-- > 0;) sums[layer] += upstream = (outs[layer] + 2 * upstream) % 13;
        }
        for (std::size_t layer = 0; layer < layers; ++layer)
          weights[layer][at] = static_cast<float>((static_cast<int>(weights[layer][at]) + sums[layer]) % 1009);
      }
    }
    for (std::vector<float>& weight : weights)
      for (std::size_t at = kPeriod; at < count(); ++at) weight[at] = weight[at - kPeriod];
    return weights;
  }

  void tell(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char line[120];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    told_ += line;
  }

  const int rank_;
  const Shape& shape_;
  const program::Kernels kernels_;
  const hipFunction_t forward_ = kernels_.get("forward"), backward_ = kernels_.get("backward"),
                      update_ = kernels_.get("update");
  hipStream_t stream_ = nullptr;
  float* in_ = nullptr;
  std::vector<float*> weights_, activations_, gradients_, sums_;
  hipGraphExec_t exec_ = nullptr;
  int operations_ = 0;
  std::string told_;
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

/// One thread drives both.
void train(const Ranks& ranks, const Shape& shape, program::StepTimes& times) {
  const auto for_each = [&ranks](const std::function<void(Rank&)>& act) {
    for (const auto& rank : ranks) {
      rank->use();
      act(*rank);
    }
  };
  for (int step = 0; step < shape.steps; ++step) {
    for_each([step](Rank& rank) { rank.feed(step); });
    times.start();
    for_each(std::mem_fn(&Rank::prepare));
    for_each(std::mem_fn(&Rank::begin));
    for (int phase = 0; phase < ranks[0]->phases(); ++phase) for_each([phase](Rank& rank) { rank.issue(phase); });
    for_each(std::mem_fn(&Rank::end));
    for_each(std::mem_fn(&Rank::launch));
    for_each(std::mem_fn(&Rank::wait));
    for_each(std::mem_fn(&Rank::finish));
    times.stop();
    for (const auto& rank : ranks) rank->split.end_step();
    for_each([step](Rank& rank) { rank.tell(step); });
  }
}

/// Where the threads of all ranks wait for each other. They do not sleep, which would take longer than a small step.
class MeetingPoint {
 public:
  void meet() {
    const int all = (arrived_++ / kRanks + 1) * kRanks;
    while (arrived_ < all) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

/// A thread a device; the first one's times.
void train_in_threads(const Ranks& ranks, const Shape& shape, program::StepTimes& times) {
  MeetingPoint point;
  const auto drive = [&](Rank& rank, program::StepTimes* clock) {
    const auto meet = [&] { rank.split.time(Part::kMeet, [&] { point.meet(); }); };
    rank.use();
    for (int step = 0; step < shape.steps; ++step) {
      rank.feed(step);
      point.meet();
      if (clock != nullptr) clock->start();
      rank.prepare();
      if (shape.fresh()) meet();
      rank.begin();
      for (int phase = 0; phase < rank.phases(); ++phase) rank.issue(phase);
      rank.end();
      if (shape.captures()) meet();  // no graph is made while a kernel waits for its peer
      rank.launch();
      rank.wait();
      meet();
      rank.finish();
      meet();
      if (clock != nullptr) clock->stop();
      rank.split.end_step();
      rank.tell(step);
    }
  };
  std::thread other([&] { drive(*ranks[1], nullptr); });
  drive(*ranks[0], &times);
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv,
                                 {{"steps", "20"},
                                  {"mode", "recapture"},
                                  {"drive", "one"},
                                  {"layers", "5"},
                                  {"count", "1000"},
                                  {"extra", "3"},
                                  {"patience", "20000000"},
                                  {"absent", "0"},
                                  {"split", "0"},
                                  {"times", ""}});
  const Shape shape{options.number("steps"), options.number("layers"),    options.number("count"),
                    options.number("extra"), options.number("patience"),  options.number("absent"),
                    options.text("mode"),    options.number("split") != 0};
  const std::string& drive = options.text("drive");
  if ((shape.mode != "eager" && shape.mode != "recapture" && shape.mode != "update" && shape.mode != "static") ||
      (drive != "one" && drive != "threads") || shape.layers < 1) {
    std::fprintf(stderr, "--mode: eager, recapture, update or static; --drive: one or threads; --layers: 1 or more\n");
    return 2;
  }
  if (!peers::reach_each_other(kRanks)) {
    std::puts("no two devices that reach each other");
    return 77;
  }
  Ranks ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(std::make_unique<Rank>(rank, shape));
  peers::Communicator::connect(ranks[0]->communicator, ranks[1]->communicator);
  {
    program::StepTimes times(options.text("times"));
    (drive == "one" ? train : train_in_threads)(ranks, shape, times);
  }
  bool right = true;
  for (int rank = 0; rank < kRanks; ++rank) ranks[static_cast<std::size_t>(rank)]->split.print(rank);
  for (const auto& rank : ranks) {
    rank->use();
    right = rank->is_right() && right;
    std::fputs(rank->told().c_str(), stdout);
  }
  std::printf("operations a step %d\n", ranks[0]->operations());
  for (auto& rank : ranks) {
    rank->use();
    rank.reset();
  }
  return right ? 0 : 1;
}
