// A program that goes on whatever fails: steps of capture, instantiate, update, launch. Prints every error it sees, and
// what the device computed. For every_call_fails.py.
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <vector>

namespace {

bool failed = false;

bool ok(hipError_t result, const char* call) {
  if (result == hipSuccess) return true;
  failed = true;
  std::printf("%s: %s\n", call, hipGetErrorName(result));
  return false;
}
#define OK(call) ok((call), #call)

constexpr std::size_t kBytes = 4096;

/// Ends a capture whatever state it is in.
hipGraph_t end(hipStream_t stream) {
  hipGraph_t graph = nullptr;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  for (int i = 0; i < 3 && !OK(hipStreamEndCapture(stream, &graph)); ++i) {
    graph = nullptr;
    if (hipStreamIsCapturing(stream, &status) == hipSuccess && status == hipStreamCaptureStatusNone) break;
  }
  return graph;
}

/// A stream that joins the capture for a moment.
void pass_by(hipEvent_t event) {
  hipStream_t moment = nullptr;
  if (!OK(hipStreamCreateWithFlags(&moment, hipStreamNonBlocking))) return;
  if (OK(hipStreamWaitEvent(moment, event, 0))) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    const hipGraphNode_t* nodes = nullptr;
    std::size_t count = 0;
    if (OK(hipStreamGetCaptureInfo_v2(moment, &status, nullptr, nullptr, &nodes, &count)))
      std::printf("behind %zu\n", status == hipStreamCaptureStatusActive ? count : 0);
  }
  OK(hipStreamDestroy(moment));
}

hipGraph_t captured(hipStream_t one, hipStream_t two, char* memory, int value, bool longer) {
  if (!OK(hipStreamBeginCapture(one, hipStreamCaptureModeRelaxed))) return nullptr;
  hipEvent_t fork = nullptr, join = nullptr;
  const bool events = OK(hipEventCreateWithFlags(&fork, hipEventDisableTiming)) &&
                      OK(hipEventCreateWithFlags(&join, hipEventDisableTiming));
  OK(hipMemsetAsync(memory, value, kBytes, one));
  if (events && OK(hipEventRecord(fork, one)) && OK(hipStreamWaitEvent(two, fork, 0))) {
    OK(hipMemsetAsync(memory + kBytes, value + 1, kBytes, two));
    if (longer) OK(hipMemsetAsync(memory + kBytes, value + 2, 100, two));
    if (OK(hipEventRecord(join, two))) {
      OK(hipStreamWaitEvent(one, join, 0));
      pass_by(join);
    }
  }
  OK(hipMemcpyAsync(memory + 200, memory + kBytes, 100, hipMemcpyDeviceToDevice, one));
  if (fork != nullptr) OK(hipEventDestroy(fork));
  if (join != nullptr) OK(hipEventDestroy(join));
  return end(one);
}

}  // namespace

int main() {
  hipStream_t one = nullptr, two = nullptr;
  if (!OK(hipStreamCreate(&one)) || !OK(hipStreamCreate(&two))) return 0;
  std::vector<unsigned char> host(2 * kBytes);
  for (int step = 0; step < 6; ++step) {
    char* memory = nullptr;
    if (!OK(hipMalloc(reinterpret_cast<void**>(&memory), 2 * kBytes))) continue;
    hipGraph_t graph = captured(one, two, memory, step, step == 3);
    hipGraphExec_t exec = nullptr;
    if (graph != nullptr && OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0))) {
      OK(hipGraphLaunch(exec, one));
      if (hipGraph_t other = captured(one, two, memory, step + 10, step == 3)) {
        hipGraphNode_t node = nullptr;
        hipGraphExecUpdateResult result;
        if (OK(hipGraphExecUpdate(exec, other, &node, &result))) OK(hipGraphLaunch(exec, one));
        OK(hipGraphDestroy(other));
      }
      OK(hipStreamSynchronize(one));
      OK(hipGraphExecDestroy(exec));
    }
    if (graph != nullptr) OK(hipGraphDestroy(graph));
    unsigned long sum = 0;
    if (OK(hipMemcpy(host.data(), memory, host.size(), hipMemcpyDeviceToHost)))
      for (const unsigned char byte : host) sum = sum * 31 + byte;
    if (!failed) std::printf("%d: %lx\n", step, sum);
    OK(hipFree(memory));
    failed = false;
  }
  OK(hipStreamDestroy(one));
  OK(hipStreamDestroy(two));
  return 0;
}
