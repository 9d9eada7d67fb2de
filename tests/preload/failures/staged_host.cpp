// Graphs whose buffers a policy stages (rings.toml of ../rings), launched on two streams, with buffers that move and
// come back, updated, and destroyed while they run.
#include "failing.h"

namespace {

constexpr int kSteps = 5;
constexpr std::size_t kInOut = 400, kIn = 800, kOut = 1200, kOther = 1300;

char* allocated(std::size_t bytes) {
  void* memory = nullptr;
  return CALL(hipMalloc, &memory, bytes) ? static_cast<char*>(memory) : nullptr;
}

struct Buffers {
  char* in_out = allocated(kInOut);
  char* in = allocated(kIn);
  char* out = allocated(kOut);
  char* other = allocated(kOther);  // no rule

  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (char* const memory : {in_out, in, out, other})
      if (memory != nullptr && !CALL(hipFree, memory)) CALL(hipFree, memory);
  }
  bool complete() const { return in_out != nullptr && in != nullptr && out != nullptr && other != nullptr; }
  void set(int value) const {
    CALL(hipMemset, in_out, value, kInOut);
    CALL(hipMemset, in, value + 1, kIn);
    CALL(hipMemset, out, value + 2, kOut);
    CALL(hipMemset, other, value + 3, kOther);
  }
  unsigned long sum() const {
    return failing::sum_of(in_out, kInOut) * 3 + failing::sum_of(out, kOut) * 5 + failing::sum_of(other, kOther);
  }
};

/// Ends a capture whatever state it is in.
hipGraph_t end(hipStream_t stream) {
  hipGraph_t graph = nullptr;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  for (int i = 0; i < 3 && !CALL(hipStreamEndCapture, stream, &graph); ++i) {
    graph = nullptr;
    if (hipStreamIsCapturing(stream, &status) == hipSuccess && status == hipStreamCaptureStatusNone) break;
  }
  return graph;
}

hipGraph_t captured(hipStream_t stream, const Buffers& buffers) {
  if (!CALL(hipStreamBeginCapture, stream, hipStreamCaptureModeThreadLocal)) return nullptr;
  CALL(hipMemcpyAsync, buffers.in_out + 200, buffers.in, 100, hipMemcpyDeviceToDevice, stream);
  CALL(hipMemsetAsync, buffers.out, 7, kOut, stream);
  CALL(hipMemcpyAsync, buffers.out + 100, buffers.in_out, kInOut, hipMemcpyDeviceToDevice, stream);
  CALL(hipMemcpyAsync, buffers.other, buffers.out + 50, 600, hipMemcpyDeviceToDevice, stream);
  return end(stream);
}

void graph_destroyed(hipGraph_t graph) {
  if (graph != nullptr && !CALL(hipGraphDestroy, graph)) CALL(hipGraphDestroy, graph);
}
void exec_destroyed(hipGraphExec_t& exec) {
  if (exec != nullptr && !CALL(hipGraphExecDestroy, exec)) CALL(hipGraphExecDestroy, exec);
  exec = nullptr;
}

/// The exec with what was captured; null when that failed.
void follow(hipGraphExec_t& exec, hipGraph_t graph) {
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult result;
  if (graph == nullptr) {
    exec_destroyed(exec);
  } else if (exec == nullptr) {
    if (!CALL(hipGraphInstantiate, &exec, graph, nullptr, nullptr, 0)) exec = nullptr;
  } else if (!CALL(hipGraphExecUpdate, exec, graph, &node, &result)) {
    exec_destroyed(exec);
  }
  graph_destroyed(graph);
}

}  // namespace

int main() {
  hipStream_t streams[2] = {};
  hipEvent_t first = nullptr;
  if (!CALL(hipStreamCreate, &streams[0]) || !CALL(hipStreamCreateWithFlags, &streams[1], hipStreamNonBlocking) ||
      !CALL(hipEventCreateWithFlags, &first, hipEventDisableTiming))
    return 0;
  hipGraphExec_t exec = nullptr;
  for (int step = 0; step < kSteps; ++step) {
    const Buffers buffers, moved;
    if (!buffers.complete() || !moved.complete()) continue;
    for (const Buffers* const each : {&buffers, &moved, &buffers}) {
      each->set(step * 16);
      CALL(hipDeviceSynchronize);
      follow(exec, captured(streams[0], *each));
      if (exec != nullptr) {
        CALL(hipGraphLaunch, exec, streams[0]);
        if (CALL(hipEventRecord, first, streams[0])) CALL(hipStreamWaitEvent, streams[1], first, 0);
        CALL(hipGraphLaunch, exec, streams[1]);
      } else {
        ++failing::failures;
      }
      if (step == 3) exec_destroyed(exec);
      CALL(hipStreamSynchronize, streams[0]);
      CALL(hipStreamSynchronize, streams[1]);
      failing::result(step, each == &buffers ? "buffers" : "moved", each->sum());
    }
  }
  exec_destroyed(exec);
  for (const hipStream_t stream : streams)
    if (!CALL(hipStreamDestroy, stream)) CALL(hipStreamDestroy, stream);
  if (!CALL(hipEventDestroy, first)) CALL(hipEventDestroy, first);
  failing::held();
  return 0;
}
