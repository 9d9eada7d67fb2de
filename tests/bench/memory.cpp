// memory.cpp STEPS: does anything grow? Steps that capture, instantiate, launch and destroy a graph over buffers that
// move; every tenth step uses a stream of its own. What the process and the runtime hold is taken after a tenth of the
// steps and at the end; the figures are by how much it has grown in between.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/runtimes/cpu/cpuhip_statistics.h"
#include "timing.h"

namespace {

struct Held {
  double host_kib, device_kib, descriptors, threads, graphs, nodes, execs, argument_bytes;
};

double entries(const char* directory) {
  double count = 0;
  if (DIR* const open = opendir(directory)) {
    while (readdir(open) != nullptr) ++count;
    closedir(open);
  }
  return count;
}

double resident_kib() {
  long pages = 0, resident = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1024;
}

Held take() {
  std::size_t free_bytes = 0, total_bytes = 0;
  bench::check(hipMemGetInfo(&free_bytes, &total_bytes));
  Held held{};
  held.host_kib = resident_kib();
  held.device_kib = static_cast<double>(total_bytes - free_bytes) / 1024;
  held.descriptors = entries("/proc/self/fd");
  held.threads = entries("/proc/self/task");
  const auto statistics = reinterpret_cast<void (*)(cpuhip_statistics_t*)>(dlsym(RTLD_DEFAULT, "cpuhip_statistics"));
  if (statistics == nullptr) return held;
  cpuhip_statistics_t now{};
  statistics(&now);
  held.graphs = static_cast<double>(now.graphs);
  held.nodes = static_cast<double>(now.nodes);
  held.execs = static_cast<double>(now.execs);
  held.argument_bytes = static_cast<double>(now.node_argument_bytes + now.exec_argument_bytes);
  return held;
}

void step(hipStream_t stream, int number) {
  // Of several sizes, so that addresses differ from step to step.
  void* buffers[4];
  for (int i = 0; i < 4; ++i)
    bench::check(hipMalloc(&buffers[i], static_cast<std::size_t>(4096) * (1 + (number + i) % 5)));
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  bench::check(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  for (int i = 0; i < 8; ++i)
    bench::check(hipMemcpyAsync(buffers[i % 4], buffers[(i + 1) % 4], 4096, hipMemcpyDeviceToDevice, stream));
  bench::check(hipStreamEndCapture(stream, &graph));
  bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  bench::check(hipGraphLaunch(exec, stream));
  bench::check(hipStreamSynchronize(stream));
  bench::check(hipGraphExecDestroy(exec));
  bench::check(hipGraphDestroy(graph));
  for (void* buffer : buffers) bench::check(hipFree(buffer));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 100000;
  hipStream_t stream = nullptr;
  bench::check(hipStreamCreate(&stream));
  Held early{};
  for (int number = 0; number < steps; ++number) {
    if (number == steps / 10) early = take();
    hipStream_t own = stream;
    if (number % 10 == 0) bench::check(hipStreamCreateWithFlags(&own, hipStreamNonBlocking));
    step(own, number);
    if (own != stream) bench::check(hipStreamDestroy(own));
  }
  const Held late = take();
  bench::print("host memory", late.host_kib - early.host_kib, "KiB");
  bench::print("device memory", late.device_kib - early.device_kib, "KiB");
  bench::print("descriptors", late.descriptors - early.descriptors, "1");
  bench::print("threads", late.threads - early.threads, "1");
  bench::print("graphs", late.graphs - early.graphs, "1");
  bench::print("nodes", late.nodes - early.nodes, "1");
  bench::print("execs", late.execs - early.execs, "1");
  bench::print("arguments held", late.argument_bytes - early.argument_bytes, "B");
  bench::print("steps", steps, "1");
  return 0;
}
