// captures.cpp: what a capture records, what may be done beside it, how it ends.
#include <thread>

#include "tests/probes/probe.h"

namespace probes {
namespace {

void fill(hipStream_t stream, const Word& word, int value) {
  WORKS(hip::hipMemsetAsync(word.at(), value, sizeof(int), stream));
}

/// What a thread of its own finds, so that the capture mode of this one stays as it is.
Finding on_other_thread(const std::function<Finding()>& ask) {
  Finding found;
  std::thread([&] {
    try {
      found = ask();
    } catch (const Unknown& why) {
      found = {Answer::kUnknown, why.what()};
    }
  }).join();
  return found;
}

/// Calls that are made in relaxed mode, by another thread, while a stream captures: they work, and spoil nothing.
Finding beside_capture(const std::function<hipError_t()>& calls) {
  const Stream stream;
  const Word word;
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  fill(stream, word, 1);
  Finding found = on_other_thread([&] {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    WORKS(hip::hipThreadExchangeStreamCaptureMode(&mode));
    const hipError_t result = calls();
    return holds_if(result == hipSuccess, result == hipSuccess ? "" : error_name(result));
  });
  hipGraph_t graph = nullptr;
  const hipError_t end = hip::hipStreamEndCapture(stream, &graph);
  if (end != hipSuccess && found.answer != Answer::kUnknown)
    found = {Answer::kFails, "the capture ends with " + error_name(end)};
  return found;
}

Finding module_launch_is_captured() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall call(put, word.at(), 5);
  const hipGraph_t graph = capture(stream, [&] { WORKS(call.launch(stream)); });
  stream.wait();
  const std::size_t nodes = nodes_of(graph).size();
  return holds_if(nodes == 1 && word.value() == 0, word.value() == 0 ? "" : "it runs at once");
}

Finding operations_are_captured() {
  const Stream stream;
  const Word from, to;
  static int host = 4;
  std::string missed;
  std::size_t before = 0;
  const auto each = [&](const char* name, const std::function<hipError_t()>& call) {
    const hipError_t result = call();
    hipStreamCaptureStatus status{};
    hipGraph_t graph = nullptr;
    WORKS(hip::hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr));
    const std::size_t now = result == hipSuccess ? nodes_of(graph).size() : before;
    if (now != before + 1) missed += (missed.empty() ? "not " : ", ") + std::string(name);
    before = now;
  };
  const hipGraph_t graph = capture(stream, [&] {
    each("fill", [&] { return hip::hipMemsetAsync(from.at(), 1, sizeof(int), stream); });
    each("copy", [&] { return hip::hipMemcpyAsync(to.at(), from.at(), sizeof(int), hipMemcpyDeviceToDevice, stream); });
    each("copy to host",
         [&] { return hip::hipMemcpyAsync(&host, from.at(), sizeof(int), hipMemcpyDeviceToHost, stream); });
    each("host function", [&] {
      return hip::hipLaunchHostFunc(
          stream, [](void*) {}, nullptr);
    });
  });
  return holds_if(graph != nullptr && missed.empty(), missed);
}

Finding capture_names_its_last_node() {
  const Stream stream;
  const Word word;
  bool named = true;
  const auto last = [&] {
    hipStreamCaptureStatus status{};
    hipGraph_t graph = nullptr;
    const hipGraphNode_t* nodes = nullptr;
    std::size_t count = 0;
    WORKS(hip::hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &nodes, &count));
    return count == 1 ? nodes[0] : nullptr;
  };
  const hipGraph_t graph = capture(stream, [&] {
    hipGraphNode_t before = nullptr;
    for (int i = 0; i < 3; ++i) {
      fill(stream, word, i);
      const hipGraphNode_t now = last();
      named = named && now != nullptr && now != before;
      before = now;
    }
  });
  return holds_if(named && nodes_of(graph).size() == 3);
}

Finding capture_id_stays() {
  const Stream stream;
  const Word word;
  unsigned long long first = 0, second = 0;
  const auto ask = [&](unsigned long long* id) {
    hipStreamCaptureStatus status{};
    WORKS(hip::hipStreamGetCaptureInfo_v2(stream, &status, id, nullptr, nullptr, nullptr));
  };
  capture(stream, [&] {
    ask(&first);
    fill(stream, word, 1);
    ask(&second);
  });
  unsigned long long other = 0;
  capture(stream, [&] { ask(&other); });
  return holds_if(first == second && first != 0 && other != first, other == first ? "the next has the same" : "");
}

Finding empty_capture_ends() {
  const Stream stream;
  hipGraph_t graph = nullptr;
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  const hipError_t end = hip::hipStreamEndCapture(stream, &graph);
  if (end != hipSuccess) return {Answer::kFails, error_name(end)};
  if (!nodes_of(graph).empty()) return {Answer::kFails, "it has nodes"};
  const hipError_t gone = hip::hipGraphDestroy(graph);
  return holds_if(gone == hipSuccess);
}

Finding empty_forks_join() {
  const Stream stream, other;
  hipEvent_t fork = nullptr, join = nullptr;
  WORKS(hip::hipEventCreateWithFlags(&fork, hipEventDisableTiming));
  WORKS(hip::hipEventCreateWithFlags(&join, hipEventDisableTiming));
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  WORKS(hip::hipEventRecord(fork, stream));
  WORKS(hip::hipStreamWaitEvent(other, fork, 0));
  hipStreamCaptureStatus status{};
  WORKS(hip::hipStreamIsCapturing(other, &status));
  WORKS(hip::hipEventRecord(join, other));
  WORKS(hip::hipStreamWaitEvent(stream, join, 0));
  hipGraph_t graph = nullptr;
  const hipError_t end = hip::hipStreamEndCapture(stream, &graph);
  if (end != hipSuccess) return {Answer::kFails, error_name(end)};
  return holds_if(status == hipStreamCaptureStatusActive && nodes_of(graph).empty());
}

Finding event_forgets_nodes() {
  const Stream stream, other;
  const Word word;
  hipEvent_t fork = nullptr, join = nullptr;
  WORKS(hip::hipEventCreateWithFlags(&fork, hipEventDisableTiming));
  WORKS(hip::hipEventCreateWithFlags(&join, hipEventDisableTiming));
  const auto once = [&](bool first) {
    hipError_t result = hipSuccess;
    const auto then = [&](hipError_t now) { result = result == hipSuccess ? now : result; };
    then(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    if (first) then(hip::hipMemsetAsync(word.at(), 1, sizeof(int), stream));
    then(hip::hipEventRecord(fork, stream));
    then(hip::hipStreamWaitEvent(other, fork, 0));
    then(hip::hipMemsetAsync(word.at(), 2, sizeof(int), other));
    then(hip::hipEventRecord(join, other));
    then(hip::hipStreamWaitEvent(stream, join, 0));
    hipGraph_t graph = nullptr;
    then(hip::hipStreamEndCapture(stream, &graph));
    if (graph != nullptr) then(hip::hipGraphDestroy(graph));
    return result;
  };
  works(once(true), "a capture with a fork");
  const hipError_t second = once(false);
  return holds_if(second == hipSuccess, second == hipSuccess ? "" : error_name(second));
}

Finding capture_takes_frees() {
  const Stream stream;
  void* memory = nullptr;
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  const hipError_t made = hip::hipMallocAsync(&memory, Word::kBytes, stream);
  if (made != hipSuccess) return {Answer::kFails, "hipMallocAsync: " + error_name(made)};
  const hipError_t freed = hip::hipFreeAsync(memory, stream);
  hipGraph_t graph = nullptr;
  const hipError_t end = hip::hipStreamEndCapture(stream, &graph);
  if (freed != hipSuccess || end != hipSuccess)
    return {Answer::kFails, "hipFreeAsync: " + error_name(freed != hipSuccess ? freed : end)};
  const std::size_t nodes = nodes_of(graph).size();
  return holds_if(nodes == 2, std::to_string(nodes) + " nodes");
}

Finding capture_can_be_asked_for() {
  const Stream stream;
  const Word word;
  hipStreamCaptureStatus before{}, inside{}, after{};
  WORKS(hip::hipStreamIsCapturing(stream, &before));
  capture(stream, [&] {
    fill(stream, word, 1);
    WORKS(hip::hipStreamIsCapturing(stream, &inside));
  });
  WORKS(hip::hipStreamIsCapturing(stream, &after));
  return holds_if(before == hipStreamCaptureStatusNone && inside == hipStreamCaptureStatusActive &&
                  after == hipStreamCaptureStatusNone);
}

Finding capture_modes_are_exchanged() {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  WORKS(hip::hipThreadExchangeStreamCaptureMode(&mode));
  const hipStreamCaptureMode first = mode;
  mode = hipStreamCaptureModeGlobal;
  WORKS(hip::hipThreadExchangeStreamCaptureMode(&mode));
  return holds_if(first == hipStreamCaptureModeGlobal && mode == hipStreamCaptureModeRelaxed);
}

/// Asks by an event recorded before, then by one recorded beside the capture.
Finding ask_beside_capture(hipError_t (*ask)(hipEvent_t event)) {
  const Stream other;
  hipEvent_t event = nullptr;
  WORKS(hip::hipEventCreateWithFlags(&event, hipEventDisableTiming));
  WORKS(hip::hipEventRecord(event, other));
  return beside_capture([&] {
    hipError_t result = ask(event);
    if (result == hipSuccess) result = hip::hipEventRecord(event, other);
    return result == hipSuccess ? ask(event) : result;
  });
}

Finding relaxed_thread_may_query() {
  return ask_beside_capture([](hipEvent_t event) {
    const hipError_t result = hip::hipEventQuery(event);
    return result == hipErrorNotReady ? hipSuccess : result;
  });
}

Finding relaxed_thread_may_wait() {
  return ask_beside_capture([](hipEvent_t event) { return hip::hipEventSynchronize(event); });
}

Finding relaxed_thread_may_allocate() {
  return beside_capture([] {
    void* memory = nullptr;
    const hipError_t result = hip::hipMalloc(&memory, Word::kBytes);
    return result == hipSuccess ? hip::hipFree(memory) : result;
  });
}

Finding relaxed_thread_may_instantiate() {
  const Word word;
  return beside_capture([&] {
    hipGraph_t graph = nullptr;
    hipGraphNode_t node = nullptr;
    hipGraphExec_t exec = nullptr;
    const hipMemsetParams params = fill_params(word.at(), 1);
    hipError_t result = hip::hipGraphCreate(&graph, 0);
    if (result == hipSuccess) result = hip::hipGraphAddMemsetNode(&node, graph, nullptr, 0, &params);
    if (result == hipSuccess) result = hip::hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
    if (result == hipSuccess) result = hip::hipGraphDestroy(graph);
    return result == hipSuccess ? hip::hipGraphExecDestroy(exec) : result;
  });
}

Finding queries_are_no_nodes() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall call(put, word.at(), 5);
  hipError_t asked = hipSuccess;
  const hipGraph_t graph = capture(stream, [&] {
    WORKS(call.launch(stream));
    int value = 0;
    asked = hip::hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, put);
    if (asked == hipSuccess) asked = hip::hipGetDevice(&value);
  });
  if (asked != hipSuccess) return {Answer::kFails, error_name(asked)};
  // Where launches of modules are not captured there are none at all.
  return holds_if(nodes_of(graph).size() <= 1);
}

/// hipMalloc in the thread's own capture.
struct Spoilt {
  hipError_t refused = hipSuccess, end = hipSuccess;
};
Spoilt spoil(hipStream_t stream, const Word& word) {
  Spoilt seen;
  WORKS(hip::hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  fill(stream, word, 1);
  void* memory = nullptr;
  seen.refused = hip::hipMalloc(&memory, Word::kBytes);
  hipGraph_t graph = nullptr;
  seen.end = hip::hipStreamEndCapture(stream, &graph);
  return seen;
}

Finding capture_refuses_malloc() {
  const Stream stream;
  const Word word;
  const Spoilt seen = spoil(stream, word);
  return holds_if(seen.refused != hipSuccess, seen.refused != hipSuccess ? "" : "it succeeds");
}

Finding refused_call_spoils_capture() {
  const Stream stream;
  const Word word;
  const Spoilt seen = spoil(stream, word);
  if (seen.refused == hipSuccess) return {Answer::kUnknown, "nothing is refused"};
  return holds_if(seen.end == hipErrorStreamCaptureInvalidated, error_name(seen.end));
}

Finding spoilt_capture_is_over() {
  const Stream stream;
  const Word word;
  const Spoilt seen = spoil(stream, word);
  if (seen.end == hipSuccess) return {Answer::kUnknown, "the capture was not spoilt"};
  hipStreamCaptureStatus status{};
  WORKS(hip::hipStreamIsCapturing(stream, &status));
  return holds_if(status == hipStreamCaptureStatusNone);
}

Finding captured_calls_leave_errors() {
  const bool keeps = runtime_version() >= version_of(7, 0);
  const Stream stream;
  const Word word;
  bool after_driver = false, after_runtime = false;
  capture(stream, [&] {
    const auto left_by = [&](hipError_t (*call)(hipStream_t, int*)) {
      static_cast<void>(hip::hipGetLastError());
      if (hip::hipGetDevice(nullptr) == hipSuccess) throw Unknown("hipGetDevice(nullptr) works");
      WORKS(call(stream, word.at()));
      return hip::hipGetLastError() != hipSuccess;
    };
    after_driver = left_by([](hipStream_t at, int* to) { return hip::hipMemsetD32Async(to, 1, 1, at); });
    after_runtime = left_by([](hipStream_t at, int* to) { return hip::hipMemsetAsync(to, 1, sizeof(int), at); });
  });
  return holds_if(after_driver && after_runtime == keeps,
                  after_driver ? after_runtime ? "both leave it" : "one leaves it" : "it goes");
}

constexpr Probe kProbes[] = {
    {"module_launch_is_captured", "hipModuleLaunchKernel in a capturing stream makes a node and runs nothing.",
     module_launch_is_captured},
    {"operations_are_captured", "Fills, copies and host functions given to a capturing stream make one node each.",
     operations_are_captured},
    {"capture_names_its_last_node", "After each captured call the stream's capture names the node it has made.",
     capture_names_its_last_node},
    {"capture_id_stays", "A capture has one id from begin to end, and the next has another.", capture_id_stays},
    {"empty_capture_ends", "A capture without operations ends well, in a graph without nodes.", empty_capture_ends},
    {"empty_forks_join", "Streams fork and join in a capture before they are given anything.", empty_forks_join},
    {"event_forgets_nodes", "An event recorded in a new capture no longer stands for nodes of an old one.",
     event_forgets_nodes},
    {"capture_takes_frees", "A capture takes hipMallocAsync and hipFreeAsync as nodes.", capture_takes_frees},
    {"capture_can_be_asked_for", "hipStreamIsCapturing tells before, in and after a capture, and spoils none.",
     capture_can_be_asked_for},
    {"capture_modes_are_exchanged", "hipThreadExchangeStreamCaptureMode returns the mode that was set.",
     capture_modes_are_exchanged},
    {"relaxed_thread_may_query", "A relaxed thread may record and query events beside a capture.",
     relaxed_thread_may_query},
    {"relaxed_thread_may_wait", "A relaxed thread may wait for events beside a capture.", relaxed_thread_may_wait},
    {"relaxed_thread_may_allocate", "A relaxed thread may allocate and free beside a capture.",
     relaxed_thread_may_allocate},
    {"relaxed_thread_may_instantiate", "A relaxed thread may build and instantiate a graph beside a capture.",
     relaxed_thread_may_instantiate},
    {"queries_are_no_nodes", "Attributes may be asked for in a capture, and make no node.", queries_are_no_nodes},
    {"capture_refuses_malloc", "hipMalloc is refused in a capture of the thread's own.", capture_refuses_malloc},
    {"refused_call_spoils_capture", "A capture in which a call was refused ends as invalidated.",
     refused_call_spoils_capture},
    {"captured_calls_leave_errors",
     "A captured hipMemsetD32Async leaves the last error; a captured hipMemsetAsync takes it away before HIP 7.",
     captured_calls_leave_errors},
    {"spoilt_capture_is_over", "After the end of an invalidated capture its stream captures no more.",
     spoilt_capture_is_over},
};

}  // namespace

std::span<const Probe> capture_probes() { return kProbes; }

}  // namespace probes
