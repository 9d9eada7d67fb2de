// training.cpp: a training step on several devices, with RCCL's all-reduces between its layers, captured anew in every
// step in buffers that come from hipMalloc each time; the graph is launched once and destroyed.
//
//   --mode one        one thread drives all devices, by groups
//          threads    a thread a device
//          processes  a process a device
//   --end  destroy    the communicators are destroyed while the last graphs live, which another thread ends meanwhile
//          finalize   the same behind ncclCommFinalize()
//          abort      the graphs end, then the communicators are aborted
//          split      each communicator is split, and steps are made by the new one, too; then as `destroy`
//   --update 1        one executable graph, updated in each step
//   --register 1      the buffers are registered with the communicator, each step's anew
//
// Prints the checksum of each rank's result in each step, rank by rank, and whether it is what the host computes.
#include <rccl/rccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "../programs/program.h"

namespace {

void check_rccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(result));
  std::exit(1);
}
#define CHECK_RCCL(call) check_rccl((call), #call)

constexpr char kSource[] = R"(
extern "C" __global__ void layer(float* out, const float* in, float weight, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * weight + 1;
}
)";

struct Shape {
  int ranks, steps, layers, count;
  bool update, registers;
  std::string end;
};

/// Small whole numbers, whose sums are exact in any order.
float input(int step, int rank, int i) { return static_cast<float>((step * 5 + rank * 3 + i) % 7); }
float weight(int layer) { return layer % 2 == 0 ? 2.0F : 0.5F; }

/// One device, and its part of each step.
class Rank {
 public:
  Rank(int rank, int device, const Shape& shape) : rank_(rank), device_(device), shape_(shape) {
    use();
    kernels_ = std::make_unique<program::Kernels>(kSource);
    layer_ = kernels_->get("layer");
    CHECK(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    use();
    CHECK(hipStreamDestroy(stream_));
    kernels_.reset();
  }

  ncclComm_t communicator = nullptr;
  int peers = 0, first = 0, stride = 1;  ///< the ranks that the communicator has
  const std::string& told() const { return told_; }
  bool right() const { return right_; }
  void use() const { CHECK(hipSetDevice(device_)); }

  void prepare(int step) {
    use();
    const auto count = static_cast<std::size_t>(shape_.count);
    in_ = program::allocate<float>(count);
    for (float*& each : hidden_) each = program::allocate<float>(count);
    std::vector<float> values(count);
    for (int i = 0; i < shape_.count; ++i) values[static_cast<std::size_t>(i)] = input(step, rank_, i);
    CHECK(hipMemcpyAsync(in_, values.data(), values.size() * sizeof(float), hipMemcpyHostToDevice, stream_));
    CHECK(hipStreamSynchronize(stream_));
    if (shape_.registers)
      for (std::size_t i = 0; i < 2; ++i)
        CHECK_RCCL(ncclCommRegister(communicator, hidden_[i], count * sizeof(float), &registered_[i]));
  }
  void begin() {
    use();
    CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  }
  void compute(int layer) {
    use();
    const float* const from = layer == 0 ? in_ : hidden_[1];
    program::launch(layer_, program::blocks_for(shape_.count), dim3(program::kThreads), stream_, hidden_[0], from,
                    weight(layer), shape_.count);
  }
  void reduce() {
    use();
    const auto count = static_cast<std::size_t>(shape_.count);
    CHECK_RCCL(ncclAllReduce(hidden_[0], hidden_[1], count, ncclFloat, ncclSum, communicator, stream_));
  }
  void end() {
    use();
    destroy_graphs();
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream_, &graph));
    if (exec_ != nullptr) {
      hipGraphNode_t where = nullptr;
      hipGraphExecUpdateResult result{};
      CHECK(hipGraphExecUpdate(exec_, graph, &where, &result));
    } else {
      CHECK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
    }
    graph_ = graph;
  }
  void launch() {
    use();
    CHECK(hipGraphLaunch(exec_, stream_));
  }
  void finish(int step) {
    use();
    // In the stream's order: other threads may be capturing.
    std::vector<float> result(static_cast<std::size_t>(shape_.count));
    CHECK(hipMemcpyAsync(result.data(), hidden_[1], result.size() * sizeof(float), hipMemcpyDeviceToHost, stream_));
    CHECK(hipStreamSynchronize(stream_));
    int wrong = 0;
    for (int i = 0; i < shape_.count; ++i) wrong += result[static_cast<std::size_t>(i)] != expected(step, i);
    right_ = right_ && wrong == 0;
    tell("rank %d, step %d, %d ranks: %d wrong, checksum %016" PRIx64 "\n", rank_, step, peers, wrong,
         program::checksum(result));
    if (shape_.registers)
      for (void* const each : registered_) CHECK_RCCL(ncclCommDeregister(communicator, each));
    CHECK(hipFree(in_));
    for (float* const each : hidden_) CHECK(hipFree(each));
  }

  /// The graphs of the last step: those of an exec that is updated, but for the exec.
  void destroy_graphs(bool all = false) {
    use();
    if (exec_ != nullptr && (all || !shape_.update)) CHECK(hipGraphExecDestroy(std::exchange(exec_, nullptr)));
    if (graph_ != nullptr) CHECK(hipGraphDestroy(std::exchange(graph_, nullptr)));
  }

  void tell(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    told_ += line;
  }

 private:
  float expected(int step, int i) const {
    std::vector<float> values;
    for (int peer = 0; peer < peers; ++peer) values.push_back(input(step, first + peer * stride, i));
    float sum = 0;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      sum = 0;
      for (const float value : values) sum += value * weight(layer) + 1;
      values.assign(values.size(), sum);
    }
    return sum;
  }

  const int rank_, device_;
  const Shape& shape_;
  std::unique_ptr<program::Kernels> kernels_;
  hipFunction_t layer_ = nullptr;
  hipStream_t stream_ = nullptr;
  float *in_ = nullptr, *hidden_[2] = {};
  void* registered_[2] = {};
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  std::string told_;
  bool right_ = true;
};

using Ranks = std::vector<std::unique_ptr<Rank>>;

void for_each(const Ranks& ranks, const std::function<void(Rank&)>& act) {
  for (const auto& rank : ranks) act(*rank);
}

/// `ranks`: those that this thread drives.
void make_step(const Ranks& ranks, const Shape& shape, int step) {
  for_each(ranks, [step](Rank& rank) { rank.prepare(step); });
  for_each(ranks, [](Rank& rank) { rank.begin(); });
  for (int layer = 0; layer < shape.layers; ++layer) {
    for_each(ranks, [layer](Rank& rank) { rank.compute(layer); });
    CHECK_RCCL(ncclGroupStart());
    for_each(ranks, [](Rank& rank) { rank.reduce(); });
    CHECK_RCCL(ncclGroupEnd());
  }
  for_each(ranks, [](Rank& rank) { rank.end(); });
  for_each(ranks, [](Rank& rank) { rank.launch(); });
  for_each(ranks, [step](Rank& rank) { rank.finish(step); });
}

/// The communicators are destroyed while the last graphs live, which may or may not end before that returns.
void destroy_communicators(const Ranks& ranks, const std::vector<ncclComm_t>& communicators, bool finalize) {
  std::thread other([&ranks] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for_each(ranks, [](Rank& rank) { rank.destroy_graphs(true); });
  });
  for (std::size_t i = 0; i < communicators.size(); ++i) {
    ranks[i % ranks.size()]->use();
    if (finalize) CHECK_RCCL(ncclCommFinalize(communicators[i]));
    CHECK_RCCL(ncclCommDestroy(communicators[i]));
  }
  other.join();
}

void train(const Ranks& ranks, const Shape& shape) {
  for_each(ranks, [&](Rank& rank) { rank.peers = shape.ranks; });
  for (int step = 0; step < shape.steps; ++step) make_step(ranks, shape, step);
  std::vector<ncclComm_t> communicators;
  for_each(ranks, [&](Rank& rank) { communicators.push_back(rank.communicator); });
  if (shape.end == "abort") {
    for_each(ranks, [](Rank& rank) { rank.destroy_graphs(true); });
    for (std::size_t i = 0; i < communicators.size(); ++i) {
      ranks[i]->use();
      CHECK_RCCL(ncclCommAbort(communicators[i]));
    }
    return;
  }
  if (shape.end == "split") {
    CHECK_RCCL(ncclGroupStart());
    for_each(ranks, [](Rank& rank) {
      int number = 0;
      rank.use();
      CHECK_RCCL(ncclCommUserRank(rank.communicator, &number));
      CHECK_RCCL(ncclCommSplit(rank.communicator, number % 2, number, &rank.communicator, nullptr));
      rank.first = number % 2;
      rank.stride = 2;
    });
    CHECK_RCCL(ncclGroupEnd());
    for_each(ranks, [&](Rank& rank) {
      rank.peers = (shape.ranks + 1 - rank.first) / 2;
      communicators.push_back(rank.communicator);
    });
    for (int step = 0; step < shape.steps; ++step) make_step(ranks, shape, step);
    // Newest first: a communicator may share what its children use.
    std::reverse(communicators.begin(), communicators.end());
    if (ranks.size() > 1) {
      for_each(ranks, [](Rank& rank) { rank.destroy_graphs(true); });
      for (ncclComm_t const each : communicators) CHECK_RCCL(ncclCommDestroy(each));
      return;
    }
  }
  destroy_communicators(ranks, communicators, shape.end == "finalize");
}

/// One rank, in a thread or a process of its own.
std::unique_ptr<Rank> train_one(int number, const ncclUniqueId& id, const Shape& shape) {
  Ranks ranks;
  ranks.push_back(std::make_unique<Rank>(number, number, shape));
  CHECK_RCCL(ncclCommInitRank(&ranks[0]->communicator, shape.ranks, id, number));
  train(ranks, shape);
  return std::move(ranks[0]);
}

bool print(const Ranks& ranks) {
  bool right = true;
  for_each(ranks, [&right](Rank& rank) {
    std::fputs(rank.told().c_str(), stdout);
    right = right && rank.right();
  });
  return right;
}

/// How this process was started: by a loader with arguments of its own, its children are, too.
std::vector<std::string> command_line() {
  std::vector<std::string> words(1);
  std::FILE* const file = std::fopen("/proc/self/cmdline", "r");
  for (int each = 0; file != nullptr && (each = std::fgetc(file)) != EOF;) {
    if (each == 0)
      words.emplace_back();
    else
      words.back() += static_cast<char>(each);
  }
  if (file != nullptr) std::fclose(file);
  words.pop_back();
  return words;
}

/// What a child prints comes by a pipe, so that all of it is in order.
int in_processes(const Shape& shape) {
  std::vector<std::string> words = command_line();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ncclUniqueId id;
  std::vector<std::pair<pid_t, std::FILE*>> children;
  int to_first[2] = {};  // the id, from the first child to the others, through here
  if (pipe(to_first) != 0) return 1;
  std::vector<int> inputs;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return 1;
    const pid_t child = fork();
    if (child == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      close(in[1]);
      close(out[0]);
      dup2(to_first[1], 9);
      setenv("TRAINING_RANK", std::to_string(rank).c_str(), 1);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    inputs.push_back(in[1]);
    children.emplace_back(child, fdopen(out[0], "r"));
  }
  if (read(to_first[0], &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 1;
  for (const int input : inputs)
    if (write(input, &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 1;
  bool right = true;
  for (const auto& [child, output] : children) {
    char line[256];
    while (std::fgets(line, sizeof line, output) != nullptr) std::fputs(line, stdout);
    int status = 0;
    waitpid(child, &status, 0);
    right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return right ? 0 : 1;
}

int child(const Shape& shape, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK_RCCL(ncclGetUniqueId(&id));
    if (write(9, &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 1;
  }
  if (read(0, &id, sizeof id) != static_cast<ssize_t>(sizeof id)) return 1;
  Ranks ranks;
  ranks.push_back(train_one(rank, id, shape));
  return print(ranks) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv,
                                 {{"mode", "one"},
                                  {"end", "destroy"},
                                  {"devices", "2"},
                                  {"steps", "20"},
                                  {"layers", "3"},
                                  {"count", "1000"},
                                  {"update", "0"},
                                  {"register", "0"}});
  const Shape shape{options.number("devices"), options.number("steps"),       options.number("layers"),
                    options.number("count"),   options.number("update") != 0, options.number("register") != 0,
                    options.text("end")};
  const char* const rank = std::getenv("TRAINING_RANK");
  if (rank != nullptr) return child(shape, std::atoi(rank));
  if (options.text("mode") == "processes") return in_processes(shape);
  Ranks ranks;
  if (options.text("mode") == "threads") {
    ncclUniqueId id;
    CHECK_RCCL(ncclGetUniqueId(&id));
    ranks.resize(static_cast<std::size_t>(shape.ranks));
    std::vector<std::thread> threads;
    for (int each = 0; each < shape.ranks; ++each)
      threads.emplace_back([&, each] { ranks[static_cast<std::size_t>(each)] = train_one(each, id, shape); });
    for (std::thread& thread : threads) thread.join();
  } else {
    std::vector<ncclComm_t> communicators(static_cast<std::size_t>(shape.ranks));
    std::vector<int> devices;
    for (int each = 0; each < shape.ranks; ++each) {
      ranks.push_back(std::make_unique<Rank>(each, each, shape));
      devices.push_back(each);
    }
    CHECK_RCCL(ncclCommInitAll(communicators.data(), shape.ranks, devices.data()));
    for (int each = 0; each < shape.ranks; ++each)
      ranks[static_cast<std::size_t>(each)]->communicator = communicators[static_cast<std::size_t>(each)];
    train(ranks, shape);
  }
  return print(ranks) ? 0 : 1;
}
