// defects.cpp: small HIP programs, chosen by name, that checked mode is tried with. defects.py runs them.
//
// Some use memory that they may not use. The others are right, and only a fault that was put into the library on
// purpose (shim/base/seeded_defect.h) makes them use wrong memory. `clean` does rightly all that the others do wrongly.
// They link AMD's runtime and nothing of ours.
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "tests/programs/program.h"

namespace {

using program::allocate;
using program::blocks_for;
using program::kThreads;
using program::launch;

constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(int);

const char* const kSource = R"(
struct Pair {
  int* to;
  const int* from;
};
extern "C" __global__ void fill(int* to, int value, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}
extern "C" __global__ void add(Pair memory, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) memory.to[i] += memory.from[i];
}
extern "C" __global__ void fill_slowly(volatile int* to, int rounds) {
  for (int round = 0; round < rounds; ++round) to[threadIdx.x] = round;
}
)";

struct Pair {
  int* to;
  const int* from;
};

struct Program {
  program::Kernels kernels{kSource};
  hipFunction_t fill = kernels.get("fill"), add = kernels.get("add"), slowly = kernels.get("fill_slowly");
  hipStream_t stream = nullptr;

  Program() { CHECK(hipStreamCreate(&stream)); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { CHECK(hipStreamDestroy(stream)); }

  void fill_on(hipStream_t where, int* to, int value, int count = kCount) const {
    launch(fill, blocks_for(count), dim3(kThreads), where, to, value, count);
  }
  hipGraph_t captured(const std::function<void()>& work) const {
    hipGraph_t graph = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    work();
    CHECK(hipStreamEndCapture(stream, &graph));
    return graph;
  }
  hipGraphExec_t instantiated(const std::function<void()>& work) const {
    hipGraphExec_t exec = nullptr;
    hipGraph_t const graph = captured(work);
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    return exec;
  }
  void run(hipGraphExec_t exec) const {
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
  }
};

void print(const char* what, const int* device) {
  const std::vector<int> host = program::download(device, kCount);
  std::printf("%s %016llx\n", what, static_cast<unsigned long long>(program::checksum(host.data(), kBytes)));
}

void beyond_end(const Program& program) {
  int* const memory = allocate<int>(kCount);
  program.fill_on(program.stream, memory, 1, kCount + 1);
  CHECK(hipStreamSynchronize(program.stream));
  print("filled", memory);
  CHECK(hipFree(memory));
}

void stale_exec(const Program& program) {
  int* const memory = allocate<int>(kCount);
  hipGraphExec_t const exec = program.instantiated([&] { program.fill_on(program.stream, memory, 1); });
  program.run(exec);
  CHECK(hipFree(memory));
  program.run(exec);
}

void stale_copy_node(const Program& program) {
  int* const memory = allocate<int>(kCount);
  void* host = nullptr;
  CHECK(hipHostMalloc(&host, kBytes, 0));
  hipGraphExec_t const exec =
      program.instantiated([&] { CHECK(hipMemcpyAsync(host, memory, kBytes, hipMemcpyDeviceToHost, program.stream)); });
  program.run(exec);
  CHECK(hipFree(memory));
  program.run(exec);
}

void stale_structure(const Program& program) {
  int* const to = allocate<int>(kCount);
  int* const from = allocate<int>(kCount);
  program.fill_on(program.stream, to, 1);
  CHECK(hipStreamSynchronize(program.stream));
  CHECK(hipFree(from));
  launch(program.add, blocks_for(kCount), dim3(kThreads), program.stream, Pair{to, from}, kCount);
  CHECK(hipStreamSynchronize(program.stream));
}

void host_memory(const Program& program) {
  std::vector<int> memory(kCount);
  program.fill_on(program.stream, memory.data(), 1);
  CHECK(hipStreamSynchronize(program.stream));
}

/// A kernel of device 1 writes memory of device 0.
void on_the_other_device(int* memory) {
  CHECK(hipSetDevice(1));
  {
    const Program other;
    other.fill_on(other.stream, memory, 1);
    CHECK(hipStreamSynchronize(other.stream));
  }
  CHECK(hipSetDevice(0));
}

void wrong_device(const Program&) { on_the_other_device(allocate<int>(kCount)); }

/// hipMemAllocationProp as runtimes from 5.6 on read it: Debian 12's header has an older order of members.
struct Properties {
  int type = hipMemAllocationTypePinned;
  int handle_type = 0;
  hipMemLocation location{hipMemLocationTypeDevice, 0};
  void* more[4] = {};
};

/// Memory without an address, mapped for device 0.
class Mapped {
 public:
  Mapped() {
    Properties properties;
    const auto& wanted = reinterpret_cast<const hipMemAllocationProp&>(properties);
    CHECK(hipMemGetAllocationGranularity(&bytes_, &wanted, hipMemAllocationGranularityRecommended));
    CHECK(hipMemCreate(&memory_, bytes_, &wanted, 0));
    CHECK(hipMemAddressReserve(&base_, bytes_, 0, nullptr, 0));
    CHECK(hipMemMap(base_, bytes_, 0, memory_, 0));
    hipMemAccessDesc access{};
    access.location = properties.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    CHECK(hipMemSetAccess(base_, bytes_, &access, 1));
  }
  int* memory() const { return static_cast<int*>(base_); }
  void unmap() { CHECK(hipMemUnmap(base_, bytes_)); }

 private:
  hipMemGenericAllocationHandle_t memory_ = nullptr;
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
};

void access_of_another(const Program&) { on_the_other_device(Mapped().memory()); }

void unmapped_chunk(const Program& program) {
  Mapped mapped;
  program.fill_on(program.stream, mapped.memory(), 1);
  CHECK(hipStreamSynchronize(program.stream));
  mapped.unmap();
  program.fill_on(program.stream, mapped.memory(), 2);
  CHECK(hipStreamSynchronize(program.stream));
}

// ---- right by themselves

/// Captures the same step over memory that moves. The memory of the step before is freed by then.
void moving(const Program& program) {
  int* memory = allocate<int>(kCount);
  for (int step = 0; step < 6; ++step) {
    hipGraphExec_t const exec = program.instantiated([&] {
      program.fill_on(program.stream, memory, step);
      launch(program.add, blocks_for(kCount), dim3(kThreads), program.stream, Pair{memory, memory}, kCount);
    });
    program.run(exec);
    CHECK(hipGraphExecDestroy(exec));
    print("step", memory);
    int* const next = allocate<int>(kCount);
    CHECK(hipFree(memory));
    memory = next;
  }
  CHECK(hipFree(memory));
}

/// The same, but the program updates one exec instead of making a new one for each step.
void updating(const Program& program) {
  int* memory = allocate<int>(kCount);
  hipGraphExec_t exec = nullptr;
  for (int step = 0; step < 6; ++step) {
    hipGraph_t const graph = program.captured([&] { program.fill_on(program.stream, memory, step); });
    if (exec == nullptr) {
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t refused = nullptr;
      hipGraphExecUpdateResult result{};
      CHECK(hipGraphExecUpdate(exec, graph, &refused, &result));
    }
    CHECK(hipGraphDestroy(graph));
    program.run(exec);
    print("step", memory);
    int* const next = allocate<int>(kCount);
    CHECK(hipFree(memory));
    memory = next;
  }
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipFree(memory));
}

/// hipFree waits for the kernel that writes the memory.
void freed_while_busy(const Program& program) {
  constexpr int kRounds = 300'000;
  int* const memory = allocate<int>(kCount);
  launch(program.slowly, dim3(1), dim3(kThreads), program.stream, memory, kRounds);
  CHECK(hipFree(memory));
  CHECK(hipStreamSynchronize(program.stream));
}

void copied_out(const Program& program) {
  int* const memory = allocate<int>(kCount);
  hipGraphExec_t const exec = program.instantiated([&] { program.fill_on(program.stream, memory, 7); });
  for (int step = 0; step < 3; ++step) {
    program.run(exec);
    print("filled", memory);
    CHECK(hipMemset(memory, 0, kBytes));
  }
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipFree(memory));
}

void in_stream_order(const Program& program) {
  for (int step = 0; step < 4; ++step) {
    void* memory = nullptr;
    CHECK(hipMallocAsync(&memory, kBytes, program.stream));
    program.fill_on(program.stream, static_cast<int*>(memory), step);
    CHECK(hipFreeAsync(memory, program.stream));
  }
  CHECK(hipStreamSynchronize(program.stream));
}

void clean(const Program& program) {
  moving(program);
  updating(program);
  freed_while_busy(program);
  copied_out(program);
  in_stream_order(program);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const Program&)> all = {
      {"beyond_end", beyond_end},
      {"stale_exec", stale_exec},
      {"stale_copy_node", stale_copy_node},
      {"stale_structure", stale_structure},
      {"host_memory", host_memory},
      {"wrong_device", wrong_device},
      {"access_of_another", access_of_another},
      {"unmapped_chunk", unmapped_chunk},
      {"moving", moving},
      {"updating", updating},
      {"freed_while_busy", freed_while_busy},
      {"copied_out", copied_out},
      {"in_stream_order", in_stream_order},
      {"clean", clean},
  };
  const auto found = all.find(argc == 2 ? argv[1] : "");
  if (found == all.end()) {
    for (const auto& [name, defect] : all) std::fprintf(stderr, "%s\n", name.c_str());
    return 2;
  }
  const Program program;
  found->second(program);
  return 0;
}
