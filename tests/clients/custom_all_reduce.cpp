// vLLM, SGLang and AITER, custom all-reduce: the graph of each of two processes writes a buffer, then meets the other's
// in the middle of a kernel and reads the other's buffer through its IPC handle. Handles go to the other process before
// the capture (registered buffers), or after instantiate (register_graph_buffers); the kernel finds the other's address
// in device memory. Signals lie in device memory that one opens of the other, or in host memory that both have.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

using namespace program;

constexpr char kSource[] = R"(
struct Signals { int* words; };
extern "C" __global__ void produce(int* out, int count, int* step) {
  *step += 1;
  for (int i = 0; i < count; ++i) out[i] = *step * 1000 + i;
}
extern "C" __global__ void reduce(const int* const* peers, Signals signals, int* round, int rank, int count,
                                  long long* result) {
  const int now = *round += 1;
  __atomic_store_n(&signals.words[rank], now, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&signals.words[1 - rank], __ATOMIC_SEQ_CST) < now) {}
  long long sum = 0;
  for (int i = 0; i < count; ++i) sum += peers[0][i];
  *result = sum;
  __atomic_store_n(&signals.words[2 + rank], now, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&signals.words[3 - rank], __ATOMIC_SEQ_CST) < now) {}
}
)";

struct Signals {
  int* words;
};

/// A pipe each way between the two processes.
class Link {
 public:
  Link() { ok(pipe(ends_[0]) == 0 && pipe(ends_[1]) == 0); }
  void take_side(int rank) { rank_ = rank; }

  template <typename Value>
  void send(const Value& value) const {
    ok(write(ends_[rank_][1], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  }
  template <typename Value>
  Value receive() const {
    Value value;
    ok(read(ends_[1 - rank_][0], &value, sizeof value) == static_cast<ssize_t>(sizeof value));
    return value;
  }
  void meet() const {
    send('x');
    receive<char>();
  }

 private:
  static void ok(bool worked) {
    if (!worked) std::exit(3);
  }
  int ends_[2][2], rank_ = 0;
};

template <typename Element>
Element* zeros(std::size_t count) {
  Element* const made = allocate<Element>(count);
  CHECK(hipMemset(made, 0, count * sizeof(Element)));
  return made;
}

template <typename Element>
Element* opened(const hipIpcMemHandle_t& handle) {
  void* at = nullptr;
  CHECK(hipIpcOpenMemHandle(&at, handle, hipIpcMemLazyEnablePeerAccess));
  return static_cast<Element*>(at);
}

void take_part(const Options& options, int rank, const Link& link, int* host_signals) {
  constexpr int kElements = 4096, kSignals = 64;
  const Kernels kernels(kSource);
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int *const buffer = zeros<int>(kElements), *const step = zeros<int>(1), *const round = zeros<int>(1);
  int** const peers = zeros<int*>(1);
  long long* const result = zeros<long long>(1);
  const bool in_device_memory = options.text("signals") == "device";
  Signals signals{};
  if (!in_device_memory) {
    CHECK(hipHostRegister(host_signals, kSignals * sizeof(int), hipHostRegisterMapped));
    void* at = nullptr;
    CHECK(hipHostGetDevicePointer(&at, host_signals, 0));
    signals.words = static_cast<int*>(at);
  } else if (rank == 0) {
    signals.words = zeros<int>(kSignals);
    CHECK(hipDeviceSynchronize());
    hipIpcMemHandle_t handle;
    CHECK(hipIpcGetMemHandle(&handle, signals.words));
    link.send(handle);
  } else {
    signals.words = opened<int>(link.receive<hipIpcMemHandle_t>());
  }
  int* peer = nullptr;
  const auto exchange = [&] {
    hipIpcMemHandle_t handle;
    CHECK(hipIpcGetMemHandle(&handle, buffer));
    link.send(handle);
    peer = opened<int>(link.receive<hipIpcMemHandle_t>());
    CHECK(hipMemcpy(peers, &peer, sizeof peer, hipMemcpyHostToDevice));
  };
  const bool before = options.text("handles") == "before";
  if (before) exchange();
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  launch(kernels.get("produce"), dim3(1), dim3(1), stream, buffer, kElements, step);
  launch(kernels.get("reduce"), dim3(1), dim3(1), stream, static_cast<const int* const*>(peers), signals, round, rank,
         kElements, result);
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  CHECK(hipStreamEndCapture(stream, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  if (!before) exchange();
  for (int i = 1; i <= options.number("steps"); ++i) {
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    constexpr long long kSum = static_cast<long long>(kElements) * (kElements - 1) / 2;
    const long long sum = download(result, 1)[0];
    const bool right = sum == i * 1000LL * kElements + kSum;
    if (rank == 0) std::printf("step %d: sum of the other's buffer %lld, %s\n", i, sum, right ? "right" : "wrong");
  }
  link.meet();
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));
  CHECK(hipIpcCloseMemHandle(peer));
  if (in_device_memory && rank != 0) {
    CHECK(hipIpcCloseMemHandle(signals.words));
  } else if (!in_device_memory) {
    CHECK(hipHostUnregister(host_signals));
  }
  link.meet();  // memory goes when the other has closed it
  if (in_device_memory && rank == 0) CHECK(hipFree(signals.words));
  for (void* const memory : {static_cast<void*>(buffer), static_cast<void*>(step), static_cast<void*>(round),
                             static_cast<void*>(peers), static_cast<void*>(result)})
    CHECK(hipFree(memory));
  CHECK(hipStreamDestroy(stream));
}

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "6"}, {"handles", "before"}, {"signals", "device"}});
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 3;
  Link link;
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  link.take_side(rank);
  take_part(options, rank, link, static_cast<int*>(page));
  int status = 0;
  if (rank == 0 && (waitpid(child, &status, 0) != child || status != 0)) return 4;
  return 0;
}
