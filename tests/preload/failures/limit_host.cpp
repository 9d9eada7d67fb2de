// More execs than graph.exec_memory has room for, launched in turn, updated, with a node set, and destroyed: some were
// given back.
#include <array>

#include "failing.h"

namespace {

constexpr std::size_t kBytes = 1000;
constexpr int kExecs = 4;

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

void graph_destroyed(hipGraph_t graph) {
  if (graph != nullptr && !CALL(hipGraphDestroy, graph)) CALL(hipGraphDestroy, graph);
}

/// As many fills as its number says: each has a recording of its own. Null where one of them failed.
hipGraph_t captured(hipStream_t stream, char* memory, int number, int value) {
  if (!CALL(hipStreamBeginCapture, stream, hipStreamCaptureModeThreadLocal)) return nullptr;
  bool complete = true;
  for (int i = 0; i <= number; ++i)
    complete = CALL(hipMemsetAsync, memory + 100 * i, value + i, 100, stream) && complete;
  complete = CALL(hipMemcpyAsync, memory + 500, memory, 500, hipMemcpyDeviceToDevice, stream) && complete;
  const hipGraph_t graph = end(stream);
  if (complete) return graph;
  graph_destroyed(graph);
  return nullptr;
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
  hipStream_t stream = nullptr;
  void* allocated = nullptr;
  if (!CALL(hipStreamCreate, &stream) || !CALL(hipMalloc, &allocated, kBytes)) return 0;
  char* const memory = static_cast<char*>(allocated);
  std::array<hipGraphExec_t, kExecs> execs{};
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < kExecs; ++i) {
      hipGraphExec_t& exec = execs[static_cast<std::size_t>(i)];
      CALL(hipMemset, memory, 0, kBytes);
      if (exec == nullptr || step == i % 3) follow(exec, captured(stream, memory, i, 7 * i));
      if (exec != nullptr)
        CALL(hipGraphLaunch, exec, stream);
      else
        ++failing::failures;
      CALL(hipStreamSynchronize, stream);
      failing::result(step, "exec", failing::sum_of(memory, kBytes) + static_cast<unsigned long>(i));
    }
    if (step == 1) exec_destroyed(execs[0]);  // it was given back
  }
  // The graph that a new recording keeps for its first exec goes with that.
  for (int i = 0; i < kExecs; ++i) {
    hipGraphExec_t& exec = execs[static_cast<std::size_t>(i)];
    exec_destroyed(exec);
    follow(exec, captured(stream, memory, i, 7 * i));
    exec_destroyed(exec);
  }
  if (!CALL(hipFree, memory)) CALL(hipFree, memory);
  if (!CALL(hipStreamDestroy, stream)) CALL(hipStreamDestroy, stream);
  failing::held();
  return 0;
}
