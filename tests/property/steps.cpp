// steps.cpp: what each step does, and what the machine knows afterwards.
#include <dlfcn.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "machine.h"

// Newer than the oldest header, or in a header of their own.
extern "C" {
hipError_t hipStreamBeginCapture_spt(hipStream_t, hipStreamCaptureMode);
hipError_t hipStreamEndCapture_spt(hipStream_t, hipGraph_t*);
hipError_t hipEventRecord_spt(hipEvent_t, hipStream_t);
hipError_t hipStreamWaitEvent_spt(hipStream_t, hipEvent_t, unsigned);
hipError_t hipGraphLaunch_spt(hipGraphExec_t, hipStream_t);
hipError_t hipGraphUpload(hipGraphExec_t, hipStream_t);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t, hipGraphNode_t, unsigned);
}

namespace property {
namespace {

constexpr int kMostShared = 64 << 10;  ///< as if no attribute had been set

std::string code(hipError_t result) { return std::to_string(static_cast<int>(result)); }

std::uint64_t hash(const void* bytes, std::size_t count) {
  std::uint64_t value = 14695981039346656037u;
  for (std::size_t i = 0; i < count; ++i)
    value = (value ^ static_cast<const unsigned char*>(bytes)[i]) * 1099511628211u;
  return value;
}

/// Whether work was complete is decided by time, and so is what the runtime keeps of it as the last error.
std::string queried() {
  (void)hipGetLastError();
  return "queried";
}

/// Numbers of kinds of nodes begin at 1 up to HIP 5.2, as in the oldest header, and at 0 from there on.
bool is_kernel(hipGraphNodeType type) {
  static const int kernel = [] {
    int version = 0;
    return hipRuntimeGetVersion(&version) == hipSuccess && version < 50300000 ? 1 : 0;
  }();
  return static_cast<int>(type) == kernel;
}

/// The one place at which programs capture on streams with handles.
[[gnu::noinline]] hipError_t begin_capture(hipStream_t stream, hipStreamCaptureMode mode) {
  const hipError_t result = hipStreamBeginCapture(stream, mode);
  asm volatile("");  // the call is not this function's last instruction: it returns to here
  return result;
}

}  // namespace

void weigh_captures() {
  constexpr int kTimes = 120, kOperations = 12, kForks = 64;
  hipStream_t stream = nullptr, other = nullptr;
  hipEvent_t event = nullptr;
  bool good = hipStreamCreate(&stream) == hipSuccess && hipStreamCreate(&other) == hipSuccess &&
              hipEventCreateWithFlags(&event, hipEventDisableTiming) == hipSuccess;
  for (int time = 0; good && time < kTimes; ++time) {
    hipGraph_t graph = nullptr;
    good = begin_capture(stream, hipStreamCaptureModeRelaxed) == hipSuccess;
    for (int i = 0; i < kOperations; ++i)
      good &= hipLaunchHostFunc(
                  stream, [](void*) {}, nullptr) == hipSuccess;
    for (int i = 0; i < kForks; ++i)
      for (const auto& [from, to] : {std::pair{stream, other}, std::pair{other, stream}})
        good &= hipEventRecord(event, from) == hipSuccess && hipStreamWaitEvent(to, event, 0) == hipSuccess;
    good &= hipStreamEndCapture(stream, &graph) == hipSuccess && hipGraphDestroy(graph) == hipSuccess;
  }
  good &= hipEventDestroy(event) == hipSuccess && hipStreamDestroy(other) == hipSuccess &&
          hipStreamDestroy(stream) == hipSuccess;
  if (!good) std::fprintf(stderr, "captures before the programs failed\n");
}

void Machine::write(const std::string& line) { transcript_ += line + '\n'; }

/// What the last call left for hipGetLastError; nothing where that is success.
std::string last() {
  const hipError_t error = hipPeekAtLastError();
  return error == hipSuccess ? "" : " last " + code(error);
}

void Machine::run(const Step& step) {
  std::string result;
  if ((step.kind == Kind::begin || step.kind == Kind::event_wait) && step.number[0] == kPerThread)
    own_captured_[static_cast<std::size_t>(step.thread)] = true;
  const bool in_place = step.kind == Kind::end_thread;
  const auto body = [&] {
    const bool starts_work = step.kind == Kind::work || step.kind == Kind::launch || step.kind == Kind::event_record ||
                             step.kind == Kind::event_wait;
    std::string refused;  // what the questions themselves were told
    if (starts_work && ask_streams(step, &refused)) {
      result = "not made" + refused;
      return;
    }
    result = perform(step);
    if (step.kind != Kind::bad_call) result += last();
    result += refused;
    // What fails may have invalidated captures.
    const bool failed = !result.empty() && result[0] >= '1' && result[0] <= '9';
    if (failed && result[0] == '9') doubt_thread_captures();
    if (failed && capturing() && result.find(':') == std::string::npos) result += refresh_captures();
  };
  if (in_place) {
    body();
  } else {
    threads_.run(step.thread, body);
  }
  write(text_of(step) + " => " + result);
}

/// Once a capture has been doubtful, which streams take part in one is asked before work is given to them. Whether it
/// would be another matter than it was thought to be.
bool Machine::ask_streams(const Step& step, std::string* refused) {
  const auto doubtful = [](const Stream& each) { return each.capture && each.capture->doubtful; };
  for (const auto& streams : thread_streams_)
    suspicious_ = suspicious_ || std::any_of(streams.begin(), streams.end(), doubtful);
  suspicious_ = suspicious_ || std::any_of(streams_.begin(), streams_.end(), doubtful);
  if (!suspicious_) return false;
  const auto ask = [&](Stream& each, hipStream_t handle) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    if (const hipError_t result = hipStreamIsCapturing(handle, &status); result != hipSuccess) {
      *refused += ' ' + code(result);
      return false;
    }
    if (each.capture && status != hipStreamCaptureStatusActive) each.capture->doubtful = true;
    if ((status == hipStreamCaptureStatusNone) == (each.capture == nullptr)) return false;
    each.tail.clear();
    each.capture.reset();
    if (status == hipStreamCaptureStatusNone) return true;
    each.capture = std::make_shared<Capture>();
    each.capture->device = each.device;
    each.capture->doubtful = true;
    return true;
  };
  bool other = false;
  for (Stream& each : streams_)
    if (each.live) other = ask(each, each.handle) || other;
  const auto device = static_cast<std::size_t>(thread(step.thread).device);
  return ask(thread_streams_[static_cast<std::size_t>(step.thread)][device], hipStreamPerThread) || other;
}

/// What failed may have invalidated the captures of threads' own streams too, and only the thread could ask.
void Machine::doubt_thread_captures() {
  for (auto& streams : thread_streams_)
    for (Stream& each : streams)
      if (each.capture) each.capture->doubtful = true;
}

std::string Machine::refresh_captures() {
  std::string text;
  for (int i = 0; i < kStreams; ++i) {
    Stream& each = streams_[static_cast<std::size_t>(i)];
    if (!each.live || !each.capture) continue;
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    const hipError_t result = hipStreamIsCapturing(each.handle, &status);
    text += ' ' + std::to_string(i) + ':' + code(result) + '/' + std::to_string(static_cast<int>(status));
    if (result != hipSuccess || status != hipStreamCaptureStatusActive) each.capture->doubtful = true;
    if (result == hipSuccess && status == hipStreamCaptureStatusNone) {
      each.capture.reset();
      each.tail.clear();
    }
  }
  return text;
}

void Machine::leave_capture(const Capture* capture) {
  const auto leave = [&](Stream& each) {
    if (each.capture.get() != capture) return;
    each.capture.reset();
    each.tail.clear();
  };
  for (Stream& each : streams_) leave(each);
  for (auto& streams : thread_streams_)
    for (Stream& each : streams) leave(each);
}

std::string Machine::do_work(const Step& step) {
  const Work work = step.work();
  Stream& on = stream(step.number[0], step.thread);
  std::string extra;
  if (on.capture && on.capture->doubtful) {
    extra = refresh_captures();
    Obstacle obstacle;
    if (!on.capture && !ready(accesses(work), clock_of_next(on), &obstacle)) return "not made" + extra;
  }
  const std::shared_ptr<Capture> capture = on.capture;
  const hipError_t result = issue(work, on, step.number[0]);
  if (result != hipSuccess) {
    if (capture && !work.bad()) capture->doubtful = true;
    return code(result) + extra;
  }
  if (!capture) {
    apply(accesses(work), enqueue(on));
    return "0" + extra;
  }
  if (work.bad()) capture->doubtful = true;
  Node node;
  node.work = work;
  node.accesses = accesses(work);
  node.after = on.tail;
  node.device = on.device;
  node.module = module_of(work);
  capture->nodes.push_back(std::move(node));
  on.tail.assign(1, static_cast<int>(capture->nodes.size()) - 1);
  return "0" + extra;
}

std::string Machine::do_allocate(const Step& step) {
  Buffer made;
  made.memory = static_cast<Memory>(step.number[1]);
  made.part_ints = step.number[2];
  made.device = thread(step.thread).device;
  void* pointer = nullptr;
  hipError_t result = hipSuccess;
  Stream& on = stream(step.number[3], step.thread);
  switch (made.memory) {
    case Memory::Malloc:
      result = hipMalloc(&pointer, made.bytes());
      break;
    case Memory::ExtMalloc:
      result = hipExtMallocWithFlags(&pointer, made.bytes(), hipDeviceMallocDefault);
      break;
    case Memory::Async:
      result = hipMallocAsync(&pointer, made.bytes(),
                              step.number[3] == kPerThread ? hipStreamPerThread
                              : step.number[3] == kLegacy  ? kLegacyHandle
                                                           : on.handle);
      break;
    case Memory::Pinned:
      result = hipHostMalloc(&pointer, made.bytes(), 0);
      break;
    case Memory::Managed:
      result = hipMallocManaged(&pointer, made.bytes(), 1);
      break;
    default:
      pointer = ::operator new(made.bytes());
      break;
  }
  if (made.memory == Memory::Async && on.capture) {
    on.capture->doubtful = true;  // the graph's memory: it comes and goes with launches
    return code(result);
  }
  if (result != hipSuccess) return code(result);
  made.base = static_cast<int*>(pointer);
  made.live = true;
  made.generation = ++generations_;
  Buffer& target = buffers_[static_cast<std::size_t>(step.number[0])];
  target = made;
  if (made.memory == Memory::Async) {
    // The stream's, but no work: it orders nothing.
    Clock& clock = clock_of(on);
    if (clock.size() <= on.agent) clock.resize(on.agent + 1);
    const Stamp stamp{on.agent, ++clock[on.agent]};
    for (Buffer::Part& part : target.parts) part.write = stamp;
  }
  return code(result) +
         (reinterpret_cast<std::uintptr_t>(pointer) % 256 == 0 || made.memory == Memory::Pageable ? "" : " unaligned") +
         (capturing() ? " in capture" : "");
}

std::string Machine::do_release(const Step& step) {
  Buffer& target = buffers_[static_cast<std::size_t>(step.number[0])];
  Stream& on = stream(step.number[2], step.thread);
  const bool in_order = step.number[1] == 1;
  hipError_t result = hipSuccess;
  switch (target.memory) {
    case Memory::Pinned:
      result = hipHostFree(target.base);
      break;
    case Memory::Pageable:
      ::operator delete(target.base);
      break;
    case Memory::Managed:
      result = hipFree(target.base);
      break;
    default:
      if (in_order) {
        result = hipFreeAsync(target.base, step.number[2] == kPerThread ? hipStreamPerThread
                                           : step.number[2] == kLegacy  ? kLegacyHandle
                                                                        : on.handle);
      } else {
        result = hipFree(target.base);
      }
  }
  if (result != hipSuccess) return code(result);
  if (in_order && !target.on_host() && target.memory != Memory::Managed) {
    target.live = false;
    stream_frees_.push_back(enqueue(on));
  } else {
    released(target);
  }
  return code(result) + (capturing() ? " in capture" : "");
}

/// By a call that waits.
void Machine::released(Buffer& target) {
  target.live = false;
  last_free_ = ++generations_;
  if (!features_.free_waits || target.memory != Memory::Malloc) return;
  for (std::size_t agent = 0; agent < agents_.size(); ++agent)
    if (agents_[agent].device == target.device) host_waits(clocks_[agent]);
}

/// Whether that frees the memory, or is refused, is for the runtime to say.
std::string Machine::do_release_inside(const Step& step) {
  Buffer& target = buffers_[static_cast<std::size_t>(step.number[0])];
  void* const inside = reinterpret_cast<char*>(target.base) + step.number[1];
  const hipError_t result = step.number[2] != 0 ? hipHostFree(inside) : hipFree(inside);
  if (result == hipSuccess) released(target);
  return code(result);
}

std::string Machine::do_module(const Step& step) {
  Module& of = modules_[static_cast<std::size_t>(step.number[0])];
  if (step.kind == Kind::module_unload) {
    const hipError_t result = hipModuleUnload(of.handle);
    if (result == hipSuccess) of = Module{};
    return code(result);
  }
  Module made;
  made.device = acting_device_;
  hipError_t result = hipModuleLoadData(&made.handle, Kernels::module_code(step.number[1]).data());
  if (result != hipSuccess) return code(result);
  std::string text = code(result);
  for (std::size_t i = 0; i < made.functions.size(); ++i) {
    result = hipModuleGetFunction(&made.functions[i], made.handle, kOfModules[i]);
    text += ' ' + code(result);
    if (result != hipSuccess) return text + " unloaded " + code(hipModuleUnload(made.handle));
  }
  made.live = true;
  made.generation = ++generations_;
  of = made;
  return text;
}

/// Every call is refused: what it names is gone.
std::string Machine::do_use_gone(const Step& step) {
  const auto which = static_cast<std::size_t>(step.number[1]);
  const auto one = [&](const auto& gone) {
    return gone[gone.size() - 1 - which % std::min<std::size_t>(gone.size(), 4)];
  };
  const std::int64_t call = step.number[0] % 16;
  if (call < 5 ? gone_execs_.empty() : call < 13 ? gone_graphs_.empty() : gone_nodes_.empty()) return "none";
  const hipGraphExec_t exec = call < 5 ? one(gone_execs_) : nullptr;
  const hipGraph_t graph = call >= 5 && call < 13 ? one(gone_graphs_) : nullptr;
  const hipGraphNode_t node = call >= 13 ? one(gone_nodes_) : nullptr;
  hipGraphNode_t made_node = nullptr;
  hipGraphExec_t made_exec = nullptr;
  hipGraph_t made_graph = nullptr;
  std::size_t count = 0;
  hipGraphExecUpdateResult update{};
  hipGraphNodeType type{};
  hipKernelNodeParams params{};
  const Graph& some = this->graph(static_cast<int>(which % kGraphs));
  switch (call) {
    case 0:
      return code(hipGraphLaunch(exec, nullptr));
    case 1:
      return code(hipGraphUpload(exec, nullptr));
    case 2:
      return code(hipGraphExecDestroy(exec));
    case 3:
      return some.live ? code(hipGraphExecUpdate(exec, some.handle, &made_node, &update)) : "none";
    case 4:
      return code(hipGraphNodeSetEnabled(exec, nullptr, 1));
    case 5:
      return code(hipGraphInstantiate(&made_exec, graph, nullptr, nullptr, 0));
    case 6:
      return code(hipGraphInstantiateWithFlags(&made_exec, graph, 0));
    case 7:
      return code(hipGraphDestroy(graph));
    case 8:
      return code(hipGraphClone(&made_graph, graph));
    case 9:
      return code(hipGraphGetNodes(graph, nullptr, &count));
    case 10:
      return code(hipGraphGetEdges(graph, nullptr, nullptr, &count));
    case 11:
      return code(hipGraphAddEmptyNode(&made_node, graph, nullptr, 0));
    case 12:
      return some.live && some.by_hand ? code(hipGraphAddChildGraphNode(&made_node, some.handle, nullptr, 0, graph))
                                       : "none";
    case 13:
      return code(hipGraphNodeGetType(node, &type));
    case 14:
      return code(hipGraphKernelNodeGetParams(node, &params));
    default:
      return code(hipGraphDestroyNode(node));
  }
}

/// A stream made in the capture joins it behind the step's stream, and goes. It leaves nothing.
std::string Machine::do_momentary(const Step& step) {
  Stream& on = stream(step.number[0], step.thread);
  const hipStream_t handle = step.number[0] == kPerThread ? hipStreamPerThread : on.handle;
  const std::int64_t how = step.number[1];
  enum { kAsked, kUnjoined, kStatusAsked, kTwice, kUrgent, kEventGone };
  hipEvent_t event = nullptr;
  hipStream_t made = nullptr;
  std::string text = code(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  if (event == nullptr) return text;
  hipError_t result = hipEventRecord(event, handle);
  text += ' ' + code(result) + ' ';
  if (result == hipSuccess)
    result = how == kUrgent ? hipStreamCreateWithPriority(&made, hipStreamNonBlocking, 0)
                            : hipStreamCreateWithFlags(&made, hipStreamNonBlocking);
  text += code(result);
  if (result == hipSuccess && how != kUnjoined) result = hipStreamWaitEvent(made, event, 0);
  if (result == hipSuccess && how == kTwice) result = hipStreamWaitEvent(made, event, 0);
  if (how == kEventGone) text += ' ' + code(hipEventDestroy(std::exchange(event, nullptr)));
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  if (result == hipSuccess && how == kStatusAsked) {
    result = hipStreamIsCapturing(made, &status);
    text += " status=" + std::to_string(static_cast<int>(status));
  }
  const hipGraphNode_t* behind = nullptr;
  std::size_t count = 0;
  if (result == hipSuccess) {
    result = hipStreamGetCaptureInfo_v2(made, &status, nullptr, nullptr, &behind, &count);
    text += " status=" + std::to_string(static_cast<int>(status));
    if (status == hipStreamCaptureStatusActive) text += " after=" + std::to_string(count);
  }
  if (result != hipSuccess) on.capture->doubtful = true;
  text += ' ' + code(result);
  if (made != nullptr) text += ' ' + code(hipStreamDestroy(made));
  if (event != nullptr) text += ' ' + code(hipEventDestroy(event));
  return text;
}

std::string Machine::do_wait(const Step& step) {
  Stream& on = stream(step.number[0], step.thread);
  Event& event = events_[static_cast<std::size_t>(step.number[1])];
  const bool spt = step.number[0] == kPerThread && step.thread != 0;
  const hipStream_t handle = step.number[0] == kLegacy      ? kLegacyHandle
                             : step.number[0] == kPerThread ? hipStreamPerThread
                                                            : on.handle;
  const hipError_t result =
      spt ? hipStreamWaitEvent_spt(nullptr, event.handle, 0) : hipStreamWaitEvent(handle, event.handle, 0);
  std::shared_ptr<Capture> of;
  const auto look = [&](const Stream& each) {
    if (each.capture && each.capture->number == event.captured) of = each.capture;
  };
  for (const Stream& each : streams_) look(each);
  for (const auto& streams : thread_streams_)
    for (const Stream& each : streams) look(each);
  if (event.captured == 0 || !of) {
    if (result == hipSuccess && !on.capture && event.recorded && event.captured == 0) {
      joined(&clock_of(on), event.clock);  // no work: nothing waits for it
    }
    if (result != hipSuccess && on.capture) on.capture->doubtful = true;
    return code(result);
  }
  if (result != hipSuccess) {
    of->doubtful = true;
    if (on.capture) on.capture->doubtful = true;
    return code(result);
  }
  if (on.capture && on.capture != of) of->doubtful = on.capture->doubtful = true;
  if (of->doubtful && !on.capture) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    const hipError_t asked = hipStreamIsCapturing(handle, &status);
    if (asked != hipSuccess) return code(result) + " !" + code(asked);
    if (status == hipStreamCaptureStatusNone) return code(result) + " alone";
  }
  on.capture = of;
  for (const int node : event.tail)
    if (std::find(on.tail.begin(), on.tail.end(), node) == on.tail.end()) on.tail.push_back(node);
  return code(result);
}

/// A capture that went wrong is over: its forks, and where they had not joined all of it, stand in a graph that is
/// gone.
void Machine::lose_capture(const Capture* capture, hipError_t result, const Stream& origin) {
  if (result == hipErrorStreamCaptureWrongThread || result == hipErrorStreamCaptureUnmatched) return;
  const auto lose = [&](Stream& each) {
    if (capture == nullptr || each.capture.get() != capture || !capture->doubtful) return;
    each.lost = &each != &origin || result == hipErrorStreamCaptureUnjoined;
  };
  for (Stream& each : streams_) lose(each);
  for (auto& streams : thread_streams_)
    for (Stream& each : streams) lose(each);
}

std::string Machine::do_end(const Step& step) {
  Stream& on = stream(step.number[0], step.thread);
  hipGraph_t handle = nullptr;
  const bool spt = step.number[0] == kPerThread && step.thread != 0;
  const hipError_t result =
      spt ? hipStreamEndCapture_spt(nullptr, &handle)
          : hipStreamEndCapture(step.number[0] == kPerThread ? hipStreamPerThread : on.handle, &handle);
  const std::shared_ptr<Capture> capture = on.capture;
  std::string text = code(result) + (handle != nullptr ? " graph" : "");
  if (result != hipSuccess) {
    if (capture) capture->doubtful = true;
    if (features_.lost_captures) lose_capture(capture.get(), result, on);
    if (result == hipErrorStreamCaptureInvalidated) {
      on.stale = features_.lost_captures;
      --open_captures_;
      if (capture) leave_capture(capture.get());
      for (Event& event : events_) event.dangling = features_.stuck && !event.recorded;
    }
    return text + refresh_captures();
  }
  if (features_.lost_captures) lose_capture(capture.get(), result, on);
  --open_captures_;
  Graph made;
  made.handle = handle;
  made.live = true;
  made.generation = ++generations_;
  if (capture) {
    made.known = !capture->doubtful;
    made.begun = capture->begun;
    made.device = capture->device;
    made.nodes = capture->nodes;
    leave_capture(capture.get());
  } else {
    made.known = false;
  }
  graphs_[static_cast<std::size_t>(step.number[1])] = std::move(made);
  return text;
}

/// Lists types and edges in the runtime's order, and finds out which node is which where the parameters say so.
std::string Machine::do_list(const Step& step) {
  Graph& of = graphs_[static_cast<std::size_t>(step.number[0])];
  std::size_t count = 0;
  hipError_t result = hipGraphGetNodes(of.handle, nullptr, &count);
  std::string text = code(result) + " nodes=" + std::to_string(count);
  if (result != hipSuccess || count == 0) return text;
  std::vector<hipGraphNode_t> nodes(count);
  result = hipGraphGetNodes(of.handle, nodes.data(), &count);
  text += ' ' + code(result) + " types=";
  std::vector<int> kernel_nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    hipGraphNodeType type{};
    const hipError_t asked = hipGraphNodeGetType(nodes[i], &type);
    text += (asked == hipSuccess ? std::to_string(static_cast<int>(type)) : '!' + code(asked)) + '.';
  }
  std::size_t edges = 0;
  result = hipGraphGetEdges(of.handle, nullptr, nullptr, &edges);
  text += " edges=" + code(result) + '/' + std::to_string(edges) + ':';
  if (result == hipSuccess && edges > 0) {
    std::vector<hipGraphNode_t> from(edges), to(edges);
    result = hipGraphGetEdges(of.handle, from.data(), to.data(), &edges);
    text += code(result) + ' ';
    const auto index = [&](hipGraphNode_t node) { return std::find(nodes.begin(), nodes.end(), node) - nodes.begin(); };
    for (std::size_t i = 0; i < edges; ++i)
      text += std::to_string(index(from[i])) + '-' + std::to_string(index(to[i])) + '.';
  }
  if (of.by_hand || !of.known) return text;
  // Kernels that tell themselves apart by their first arguments.
  for (const hipGraphNode_t node : nodes) {
    hipGraphNodeType type{};
    result = hipGraphNodeGetType(node, &type);
    hipKernelNodeParams params{};
    if (result == hipSuccess && is_kernel(type)) result = hipGraphKernelNodeGetParams(node, &params);
    if (result != hipSuccess) text += " !" + code(result);
    if (result != hipSuccess || params.kernelParams == nullptr) continue;
    int found = -1;
    bool several = false;
    for (std::size_t i = 0; i < of.nodes.size(); ++i) {
      const Node& own = of.nodes[i];
      if (!own.work || own.work->what > Work::Set || !live(own.accesses)) continue;
      if (params.func != loaded_function(*own.work, own.device) && params.func != Kernels::stub(own.work->what))
        continue;
      int* const dst = address(own.work->dst, own.work->first);
      const int value = static_cast<int>(own.work->value);
      if (std::memcmp(params.kernelParams[0], &dst, sizeof dst) != 0 ||
          std::memcmp(params.kernelParams[2], &value, sizeof value) != 0)
        continue;
      several = several || found >= 0;
      found = static_cast<int>(i);
    }
    if (found < 0 || several) continue;
    of.nodes[static_cast<std::size_t>(found)].handle = node;
    text += " node" + std::to_string(found);
  }
  return text;
}

std::string Machine::do_values(const Step& step) {
  const Node& node = graphs_[static_cast<std::size_t>(step.number[0])].nodes[static_cast<std::size_t>(step.number[1])];
  hipKernelNodeParams params{};
  const hipError_t result = hipGraphKernelNodeGetParams(node.handle, &params);
  if (result != hipSuccess) return code(result);
  std::string text = code(result) + ' ' + std::to_string(params.gridDim.x) + '/' + std::to_string(params.blockDim.x) +
                     '/' + std::to_string(params.sharedMemBytes);
  if (params.kernelParams == nullptr || node.work->what > Work::Set) return text;
  int* dst = nullptr;
  int count = 0, value = 0;
  std::memcpy(&dst, params.kernelParams[0], sizeof dst);
  std::memcpy(&count, params.kernelParams[1], sizeof count);
  std::memcpy(&value, params.kernelParams[2], sizeof value);
  return text + " offset=" + std::to_string(dst - buffer(node.work->dst).base) + " n=" + std::to_string(count) +
         " a=" + std::to_string(value);
}

/// What is inside a node that is a child graph, by kind, with the first arguments of kernels; and a new one for a node
/// there. The machine allows that only where the nodes come one behind the other, so that their order is known.
std::string Machine::do_child(const Step& step) {
  Node& child = graphs_[static_cast<std::size_t>(step.number[0])].nodes[static_cast<std::size_t>(step.number[1])];
  hipGraph_t inside = nullptr;
  hipError_t result = hipGraphChildGraphNodeGetGraph(child.handle, &inside);
  if (result != hipSuccess) return code(result);
  std::size_t count = 0;
  result = hipGraphGetNodes(inside, nullptr, &count);
  std::string text = code(result) + " inside=" + std::to_string(count);
  if (result != hipSuccess || count == 0) return text;
  std::vector<hipGraphNode_t> nodes(count);
  result = hipGraphGetNodes(inside, nodes.data(), &count);
  if (result != hipSuccess) return text + ' ' + code(result);
  if (step.kind == Kind::child_set) {
    const auto index = static_cast<std::size_t>(step.number[2]);
    if (count != child.inner.size()) return text + " other";
    const Work work = step.work();
    Node& inner = child.inner[index];
    result = node_change(work, inner.device, nodes[index], nullptr);
    if (result == hipSuccess) {
      inner.work = work;
      inner.accesses = accesses(work);
      child.accesses = graph_accesses(child.inner);
    }
    return code(result) + ' ' + text;
  }
  for (const hipGraphNode_t node : nodes) {
    hipGraphNodeType type{};
    hipError_t asked = hipGraphNodeGetType(node, &type);
    text += '.' + (asked == hipSuccess ? std::to_string(static_cast<int>(type)) : '!' + code(asked));
    if (asked != hipSuccess || !is_kernel(type)) continue;
    hipKernelNodeParams params{};
    asked = hipGraphKernelNodeGetParams(node, &params);
    text += '/' + code(asked) + '/' + std::to_string(params.gridDim.x) + '/' + std::to_string(params.blockDim.x);
  }
  return text;
}

std::string Machine::contents(const Buffer& of, std::int64_t first, std::int64_t parts, const int* bytes) const {
  char text[64];
  std::snprintf(text, sizeof text, " %016" PRIx64 " %d",
                hash(bytes, static_cast<std::size_t>(parts * of.part_ints) * sizeof(int)), bytes[0]);
  (void)first;
  return text;
}

/// Calls with arguments that HIP refuses whatever the state, and harmless ones with null.
std::string Machine::bad_call(const Step& step) {
  void* pointer = nullptr;
  std::size_t bytes = 0;
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult update{};
  const Buffer& some = buffer(step.number[1] % kBuffers);
  const bool device_memory = some.live && (some.memory == Memory::Malloc || some.memory == Memory::ExtMalloc);
  char* const end = reinterpret_cast<char*>(some.base) + some.bytes();
  const bool padded = some.bytes() % 4096 != 0;  // else something else may begin there
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  const Stream& on = streams_[static_cast<std::size_t>(step.number[1] % kStreams)];
  const Graph& some_graph = this->graph(static_cast<int>(step.number[1] % kGraphs));
  const Exec& some_exec = this->exec(static_cast<int>(step.number[1] % kExecs));
  const std::int64_t which = step.number[0] % 32;
  if (which >= 22 && which < 27 && !on.live) return "none";
  if (which >= 27 && which < 30 && !some_graph.live) return "none";
  if (which >= 30 && !some_exec.live) return "none";
  hipKernelNodeParams no_kernel{};
  switch (which) {
    case 22:
      return code(hipEventRecord(nullptr, on.handle));
    case 23:
      return code(hipStreamWaitEvent(on.handle, nullptr, 0));
    case 24:
      return code(hipGraphLaunch(nullptr, on.handle));
    case 25:
      return code(hipStreamBeginCapture(on.handle, static_cast<hipStreamCaptureMode>(99)));
    case 26:
      return code(hipStreamUpdateCaptureDependencies(on.handle, nullptr, 0, 99));
    case 27:
      return code(hipGraphAddKernelNode(&node, some_graph.handle, nullptr, 0, nullptr));
    case 28:
      return code(hipGraphGetNodes(some_graph.handle, nullptr, nullptr));
    case 29:
      return code(hipGraphAddMemsetNode(&node, some_graph.handle, nullptr, 0, nullptr));
    case 30:
      return code(hipGraphExecKernelNodeSetParams(some_exec.handle, nullptr, &no_kernel));
    case 31:
      return code(hipGraphExecKernelNodeSetParams(some_exec.handle, nullptr, nullptr));
    case 0:
      return code(hipMalloc(nullptr, 64));
    case 1:
      return code(hipMalloc(&pointer, 0)) + (pointer == nullptr ? "" : " pointer");
    case 2:
      return code(hipMalloc(&pointer, std::size_t{1} << 45)) + (pointer == nullptr ? "" : " pointer");
    case 3:
      return code(hipFree(nullptr));
    case 4:
      return device_memory && padded ? code(hipFree(end)) : "none";
    case 5:
      return device_memory && padded ? code(hipHostFree(end)) : "none";
    case 6:
      return code(hipGraphLaunch(nullptr, nullptr));
    case 7:
      return code(hipGraphInstantiate(&exec, nullptr, nullptr, nullptr, 0));
    case 8:
      return code(hipGraphDestroy(nullptr));
    case 9:
      return code(hipGraphExecDestroy(nullptr));
    case 10:
      return code(hipStreamDestroy(nullptr));
    case 11:
      return code(hipEventRecord(nullptr, nullptr));
    case 12:
      return code(hipStreamWaitEvent(nullptr, nullptr, 0));
    case 13:
      return code(hipStreamEndCapture(nullptr, &graph));
    case 14:
      return code(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal));
    case 15:
      return code(hipMemcpy(nullptr, nullptr, 8, hipMemcpyHostToHost));
    case 16:
      return code(hipSetDevice(99));
    case 17:
      return code(hipGraphExecUpdate(nullptr, nullptr, &node, &update));
    case 18:
      return code(hipMemGetAddressRange(&pointer, &bytes, nullptr));
    case 19: {
      // A graph that is live, into nothing; an exec that is live, by nothing.
      const Graph& of = this->graph(static_cast<int>(step.number[1] % kGraphs));
      return of.live ? code(hipGraphInstantiate(nullptr, of.handle, nullptr, nullptr, 0)) : "none";
    }
    case 20: {
      const Exec& of = this->exec(static_cast<int>(step.number[1] % kExecs));
      return of.live ? code(hipGraphExecUpdate(of.handle, nullptr, &node, &update)) : "none";
    }
    default: {
      const Graph& of = this->graph(static_cast<int>(step.number[1] % kGraphs));
      return of.live ? code(hipGraphInstantiateWithFlags(&exec, of.handle, 0x8000)) : "none";
    }
  }
}

/// Whether the allocation is told from every other there was. A pool's memory may come back as what it was.
std::string Machine::buffer_id(const Buffer& of, std::int64_t offset) {
  if (of.memory == Memory::Async) return "";
  unsigned id = 0;
  const hipError_t result =
      hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<char*>(of.base) + offset);
  if (result != hipSuccess) return ' ' + code(result);
  const auto [known, added] = buffer_ids_.try_emplace(id, of.generation);
  return added || known->second == of.generation ? " told" : " not told";
}

std::string Machine::perform(const Step& step) {
  const auto& n = step.number;
  Thread& self = thread_state_[static_cast<std::size_t>(step.thread)];
  acting_device_ = self.device;
  const auto handle_of = [&](std::int64_t number) {
    if (number == kLegacy) return kLegacyHandle;
    if (number == kPerThread) return hipStreamPerThread;
    return stream(number, step.thread).handle;
  };
  const auto spt = [&](std::int64_t number) { return number == kPerThread && step.thread != 0; };
  switch (step.kind) {
    case Kind::set_device: {
      const hipError_t result = hipSetDevice(static_cast<int>(n[0]));
      if (result == hipSuccess) self.device = static_cast<int>(n[0]);
      int now = -1;
      const hipError_t asked = hipGetDevice(&now);
      return code(result) + ' ' + code(asked) + ' ' + std::to_string(now);
    }
    case Kind::stream_create: {
      Stream made;
      const hipError_t result =
          hipStreamCreateWithFlags(&made.handle, n[1] != 0 ? hipStreamDefault : hipStreamNonBlocking);
      if (result != hipSuccess) return code(result);
      made.live = true;
      made.blocking = n[1] != 0;
      made.device = self.device;
      made.agent = add_agent(self.device);
      streams_[static_cast<std::size_t>(n[0])] = made;
      return code(result);
    }
    case Kind::stream_destroy: {
      Stream& gone = streams_[static_cast<std::size_t>(n[0])];
      const hipError_t result = hipStreamDestroy(gone.handle);
      if (result != hipSuccess) return code(result);
      if (gone.capture) gone.capture->doubtful = true;
      for (Event& event : events_)
        event.orphan = event.orphan || (features_.orphans && event.live && event.agent == gone.agent);
      gone.live = gone.lost = false;
      gone.capture.reset();
      gone.tail.clear();
      return code(result) + refresh_captures();
    }
    case Kind::stream_sync: {
      Stream& of = stream(n[0], step.thread);
      if (of.capture) of.capture->doubtful = true;
      const Clock clock = clock_of_next(of);
      const hipError_t result = hipStreamSynchronize(handle_of(n[0]));
      if (result == hipSuccess) host_waits(clock);
      return code(result) + (capturing() && result != hipSuccess ? refresh_captures() : "");
    }
    case Kind::stream_query: {
      Stream& of = stream(n[0], step.thread);
      if (of.capture) of.capture->doubtful = true;
      const hipError_t result = hipStreamQuery(handle_of(n[0]));
      if (result == hipSuccess || result == hipErrorNotReady) return queried();
      return code(result) + refresh_captures();
    }
    case Kind::device_sync: {
      const hipError_t result = hipDeviceSynchronize();
      if (result == hipSuccess) {
        for (std::size_t agent = 0; agent < agents_.size(); ++agent)
          if (agents_[agent].device == self.device) host_waits(clocks_[agent]);
      }
      return code(result) + (capturing() ? refresh_captures() : "");
    }
    case Kind::event_create: {
      Event made;
      const hipError_t result = hipEventCreateWithFlags(&made.handle, hipEventDisableTiming);
      made.live = result == hipSuccess;
      made.device = self.device;
      if (made.live) events_[static_cast<std::size_t>(n[0])] = made;
      return code(result);
    }
    case Kind::event_destroy: {
      Event& gone = events_[static_cast<std::size_t>(n[0])];
      const hipError_t result = hipEventDestroy(gone.handle);
      if (result == hipSuccess) gone = Event{};
      return code(result);
    }
    case Kind::event_record: {
      Event& event = events_[static_cast<std::size_t>(n[0])];
      Stream& on = stream(n[1], step.thread);
      const hipError_t result =
          spt(n[1]) ? hipEventRecord_spt(event.handle, nullptr) : hipEventRecord(event.handle, handle_of(n[1]));
      if (result != hipSuccess) {
        if (on.capture) on.capture->doubtful = true;
        return code(result);
      }
      event.orphan = false;
      event.agent = on.agent;
      if (event.captured != 0 && event.recorded_on != n[1]) event.left.push_back(event.noted);
      if (on.capture && !on.capture->doubtful) event.dangling = false;  // else the runtime may still take it for that
      if (on.capture) {
        event.foreign = on.capture->doubtful && (event.foreign || (event.noted && event.noted != on.capture));
        event.noted = on.capture;
        // In a doubtful one captured or not, as the runtime has it: who waits for the event asks.
        event.captured = on.capture->number;
        event.recorded_on = static_cast<int>(n[1]);
        event.tail = on.tail;
        event.had_nodes = event.had_nodes || !on.tail.empty();
        event.recorded = false;
      } else {
        event.captured = 0;
        event.recorded = true;
        (void)enqueue(on);
        event.clock = clock_of(on);
      }
      return code(result);
    }
    case Kind::event_wait:
      return do_wait(step);
    case Kind::event_sync: {
      Event& event = events_[static_cast<std::size_t>(n[0])];
      const hipError_t result = hipEventSynchronize(event.handle);
      if (result == hipSuccess && event.recorded && event.captured == 0) host_waits(event.clock);
      return code(result) + (capturing() && result != hipSuccess ? refresh_captures() : "");
    }
    case Kind::event_query: {
      const hipError_t result = hipEventQuery(events_[static_cast<std::size_t>(n[0])].handle);
      if (result == hipSuccess || result == hipErrorNotReady) return queried();
      return code(result) + refresh_captures();
    }
    case Kind::allocate:
      return do_allocate(step);
    case Kind::release:
      return do_release(step);
    case Kind::release_inside:
      return do_release_inside(step);
    case Kind::export_memory: {
      Buffer& of = buffers_[static_cast<std::size_t>(n[0])];
      hipIpcMemHandle_t handle;
      const hipError_t result = hipIpcGetMemHandle(&handle, of.base);
      of.exported = of.exported || result == hipSuccess;
      return code(result);
    }
    case Kind::module_load:
    case Kind::module_unload:
      return do_module(step);
    case Kind::attribute: {
      const void* const function =
          n[2] != 0 ? static_cast<const void*>(kernels_.get(n[0], self.device)) : Kernels::stub(n[0]);
      limited_[static_cast<std::size_t>(n[0])] = true;
      return code(hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(n[1])));
    }
    case Kind::use_gone:
      return do_use_gone(step);
    case Kind::work:
      return do_work(step);
    case Kind::copy_sync: {
      const Work work = step.work();
      Stream& on = null_streams_[static_cast<std::size_t>(self.device)];
      const hipError_t result = hipMemcpy(address(work.dst, work.first), address(work.src, work.src_first),
                                          count_of(work) * sizeof(int), copy_kind(work));
      if (result != hipSuccess) return code(result) + refresh_captures();
      apply(accesses(work), enqueue(on));
      if (buffer(work.dst).on_host()) host_waits(clock_of(on));
      return code(result);
    }
    case Kind::read: {
      const Buffer& of = buffer(n[0]);
      const auto ints = static_cast<std::size_t>(n[2] * of.part_ints);
      if (of.memory == Memory::Pageable) return contents(of, n[1], n[2], address(n[0], n[1]));
      std::vector<int> bytes(ints);
      Stream& on = null_streams_[static_cast<std::size_t>(self.device)];
      const hipError_t result = hipMemcpy(bytes.data(), address(n[0], n[1]), ints * sizeof(int), hipMemcpyDeviceToHost);
      if (result != hipSuccess) return code(result) + refresh_captures();
      (void)enqueue(on);
      host_waits(clock_of(on));
      return code(result) + contents(of, n[1], n[2], bytes.data());
    }
    case Kind::host_write: {
      Buffer& of = buffers_[static_cast<std::size_t>(n[0])];
      int* const to = address(n[0], n[1]);
      for (std::int64_t i = 0; i < of.part_ints; ++i) to[i] = static_cast<int>(n[2] + i * 3);
      of.parts[n[1]].written = true;
      return "";
    }
    case Kind::begin: {
      Stream& on = stream(n[0], step.thread);
      const auto mode = static_cast<hipStreamCaptureMode>(n[1]);
      const hipError_t result =
          spt(n[0]) ? hipStreamBeginCapture_spt(nullptr, mode) : begin_capture(handle_of(n[0]), mode);
      if (result != hipSuccess) return code(result);
      if (on.capture) on.capture->doubtful = true;  // an invalidated one: the streams it forked are asked
      ++open_captures_;
      on.capture = std::make_shared<Capture>();
      on.capture->number = ++captures_;
      on.capture->begun = ++generations_;
      on.capture->origin = static_cast<int>(n[0]);
      on.capture->thread = step.thread;
      on.capture->device = on.device;
      on.capture->own_of = n[0] == kPerThread ? step.thread : -1;
      on.tail.clear();
      hipStreamCaptureStatus status{};
      const hipError_t asked = hipStreamGetCaptureInfo(handle_of(n[0]), &status, &on.capture->id);
      return code(result) + ' ' + code(asked);
    }
    case Kind::end:
      return do_end(step);
    case Kind::capture_status: {
      const Stream& on = stream(n[0], step.thread);
      hipStreamCaptureStatus status{};
      unsigned long long id = 0;
      const hipError_t result = hipStreamGetCaptureInfo(handle_of(n[0]), &status, &id);
      std::string text = code(result) + ' ' + std::to_string(static_cast<int>(status));
      if (status == hipStreamCaptureStatusActive && on.capture) text += id == on.capture->id ? " same" : " other";
      return text;
    }
    case Kind::capture_mode: {
      hipStreamCaptureMode mode = static_cast<hipStreamCaptureMode>(n[0]);
      const hipError_t result = hipThreadExchangeStreamCaptureMode(&mode);
      if (result == hipSuccess) self.mode = static_cast<hipStreamCaptureMode>(n[0]);
      return code(result) + ' ' + std::to_string(static_cast<int>(mode));
    }
    case Kind::capture_nodes: {
      hipStreamCaptureStatus status{};
      hipGraph_t graph = nullptr;
      const hipGraphNode_t* dependencies = nullptr;
      std::size_t count = 0;
      unsigned long long id = 0;
      const hipError_t result =
          hipStreamGetCaptureInfo_v2(handle_of(n[0]), &status, &id, &graph, &dependencies, &count);
      std::string text = code(result) + ' ' + std::to_string(static_cast<int>(status));
      if (result != hipSuccess || status != hipStreamCaptureStatusActive) return text;
      text += " after=" + std::to_string(count);
      for (std::size_t i = 0; i < count; ++i) {
        hipGraphNodeType type{};
        const hipError_t asked = hipGraphNodeGetType(dependencies[i], &type);
        text += '.' + (asked == hipSuccess ? std::to_string(static_cast<int>(type)) : '!' + code(asked));
      }
      return text;
    }
    case Kind::momentary:
      return do_momentary(step);
    case Kind::capture_behind: {
      Stream& on = stream(n[0], step.thread);
      const Stream& other = stream(n[1], step.thread);
      hipStreamCaptureStatus status{};
      const hipGraphNode_t* behind = nullptr;
      std::size_t count = 0;
      hipError_t result = hipStreamGetCaptureInfo_v2(handle_of(n[1]), &status, nullptr, nullptr, &behind, &count);
      if (result != hipSuccess || status != hipStreamCaptureStatusActive) return code(result) + " not active";
      std::vector<hipGraphNode_t> nodes(behind, behind + count);
      const bool only = n[2] != 0;
      result =
          hipStreamUpdateCaptureDependencies(handle_of(n[0]), nodes.data(), count,
                                             only ? hipStreamSetCaptureDependencies : hipStreamAddCaptureDependencies);
      scribble(nodes.data(), nodes.size() * sizeof nodes[0]);
      if (result != hipSuccess) return code(result);
      const std::vector<int> tail = other.tail;
      if (only) on.tail.clear();
      for (const int node : tail)
        if (std::find(on.tail.begin(), on.tail.end(), node) == on.tail.end()) on.tail.push_back(node);
      return code(result) + ' ' + std::to_string(count);
    }
    case Kind::instantiate: {
      const Graph& of = graphs_[static_cast<std::size_t>(n[1])];
      Exec made;
      hipError_t result;
      switch (n[2] % 3) {
        case 0: {
          hipGraphNode_t node = nullptr;
          char log[64] = {};
          result = hipGraphInstantiate(&made.handle, of.handle, &node, log, sizeof log);
          break;
        }
        case 1:
          result = hipGraphInstantiateWithFlags(&made.handle, of.handle, 0);
          break;
        default:
          result = hipGraphInstantiateWithFlags(&made.handle, of.handle, 1);
          break;
      }
      if (result != hipSuccess) return code(result);
      made.live = true;
      made.known = of.known;
      made.device = of.device;
      made.graph = static_cast<int>(n[1]);
      made.graph_generation = of.generation;
      made.nodes = of.nodes;
      execs_[static_cast<std::size_t>(n[0])] = std::move(made);
      return code(result);
    }
    case Kind::launch: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      Stream& on = stream(n[1], step.thread);
      const hipError_t result =
          spt(n[1]) ? hipGraphLaunch_spt(of.handle, nullptr) : hipGraphLaunch(of.handle, handle_of(n[1]));
      if (result != hipSuccess) return code(result);
      if (features_.exec_serial && !on.capture) joined(&clock_of(on), of.last_launch);
      const Stamp stamp = enqueue(on);
      apply(graph_accesses(of.nodes), stamp);
      of.launches.push_back(stamp);
      joined(&of.last_launch, clock_of(on));
      if (on.capture) on.capture->doubtful = true;
      return code(result);
    }
    case Kind::upload:
      return code(hipGraphUpload(execs_[static_cast<std::size_t>(n[0])].handle, handle_of(n[1])));
    case Kind::exec_destroy: {
      Exec& gone = execs_[static_cast<std::size_t>(n[0])];
      const hipError_t result = hipGraphExecDestroy(gone.handle);
      if (result == hipSuccess) gone_execs_.push_back(gone.handle);
      if (result == hipSuccess) gone = Exec{};
      return code(result);
    }
    case Kind::graph_destroy: {
      Graph& gone = graphs_[static_cast<std::size_t>(n[0])];
      const hipError_t result = hipGraphDestroy(gone.handle);
      if (result != hipSuccess) return code(result);
      gone_graphs_.push_back(gone.handle);
      for (const Node& node : gone.nodes)
        if (node.handle != nullptr) gone_nodes_.push_back(node.handle);
      gone = Graph{};
      return code(result);
    }
    case Kind::exec_update: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      const Graph& from = graphs_[static_cast<std::size_t>(n[1])];
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult update{};
      const hipError_t result = hipGraphExecUpdate(of.handle, from.handle, &node, &update);
      copied_or_not(host_copies(from.nodes));
      const auto same_shape = [](const std::vector<Node>& a, const std::vector<Node>& b) {
        return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Node& x, const Node& y) {
                 return x.after == y.after && x.device == y.device && x.work && y.work && x.work->what == y.work->what;
               });
      };
      if (result == hipSuccess && of.known && from.known && !features_.swallowed && same_shape(of.nodes, from.nodes)) {
        for (std::size_t i = 0; i < of.nodes.size(); ++i) {
          of.nodes[i].work = from.nodes[i].work;
          of.nodes[i].accesses = from.nodes[i].accesses;
          of.nodes[i].module = from.nodes[i].module;
        }
      } else {
        of.known = false;
      }
      return code(result) + ' ' + std::to_string(static_cast<int>(update)) + (node != nullptr ? " node" : "");
    }
    case Kind::clone: {
      const Graph& of = graphs_[static_cast<std::size_t>(n[1])];
      Graph made = of;
      const hipError_t result = hipGraphClone(&made.handle, of.handle);
      if (result != hipSuccess) return code(result);
      made.generation = ++generations_;
      std::string text = code(result);
      for (Node& node : made.nodes) {
        if (node.handle == nullptr) continue;
        hipGraphNode_t found = nullptr;
        const hipError_t asked = hipGraphNodeFindInClone(&found, node.handle, made.handle);
        text += asked == hipSuccess && found != nullptr ? " found" : ' ' + code(asked);
        node.handle = asked == hipSuccess ? found : nullptr;
      }
      graphs_[static_cast<std::size_t>(n[0])] = std::move(made);
      return text;
    }
    case Kind::graph_create: {
      Graph made;
      const hipError_t result = hipGraphCreate(&made.handle, 0);
      if (result != hipSuccess) return code(result);
      made.live = made.by_hand = true;
      made.device = self.device;
      made.begun = made.generation = ++generations_;
      graphs_[static_cast<std::size_t>(n[0])] = std::move(made);
      return code(result);
    }
    case Kind::add_node:
    case Kind::add_child: {
      Graph& into = graphs_[static_cast<std::size_t>(n[0])];
      Node node;
      node.device = self.device;
      std::vector<hipGraphNode_t> after;
      const auto depend = [&](std::int64_t index) {
        if (index < 0 || static_cast<std::size_t>(index) >= into.nodes.size()) return;
        if (std::find(node.after.begin(), node.after.end(), static_cast<int>(index)) != node.after.end()) return;
        node.after.push_back(static_cast<int>(index));
        after.push_back(into.nodes[static_cast<std::size_t>(index)].handle);
      };
      depend(n[1]);
      hipError_t result;
      if (step.kind == Kind::add_node) {
        depend(n[2]);
        node.work = step.work();
        node.accesses = accesses(*node.work);
        node.module = module_of(*node.work);
        result = node_add(*node.work, node.device, into.handle, after, &node.handle);
      } else {
        const Graph& child = graphs_[static_cast<std::size_t>(n[2])];
        node.accesses = graph_accesses(child.nodes);
        node.inner = child.nodes;
        result = hipGraphAddChildGraphNode(&node.handle, into.handle, after.data(), after.size(), child.handle);
      }
      if (result == hipSuccess) into.nodes.push_back(std::move(node));
      return code(result);
    }
    case Kind::child_nodes:
    case Kind::child_set:
      return do_child(step);
    case Kind::add_edge: {
      Graph& in = graphs_[static_cast<std::size_t>(n[0])];
      Node& to = in.nodes[static_cast<std::size_t>(n[2])];
      const hipError_t result =
          hipGraphAddDependencies(in.handle, &in.nodes[static_cast<std::size_t>(n[1])].handle, &to.handle, 1);
      if (result == hipSuccess) to.after.push_back(static_cast<int>(n[1]));
      return code(result);
    }
    case Kind::remove_edge: {
      Graph& in = graphs_[static_cast<std::size_t>(n[0])];
      Node& to = in.nodes[static_cast<std::size_t>(n[2])];
      const hipError_t result =
          hipGraphRemoveDependencies(in.handle, &in.nodes[static_cast<std::size_t>(n[1])].handle, &to.handle, 1);
      if (result == hipSuccess) std::erase(to.after, static_cast<int>(n[1]));
      return code(result);
    }
    case Kind::node_destroy: {
      Graph& in = graphs_[static_cast<std::size_t>(n[0])];
      const hipGraphNode_t gone = in.nodes[static_cast<std::size_t>(n[1])].handle;
      const hipError_t result = hipGraphDestroyNode(gone);
      if (result == hipSuccess) gone_nodes_.push_back(gone);
      if (result == hipSuccess) take_out(&in.nodes, n[1]);
      return code(result);
    }
    case Kind::list_nodes:
      return do_list(step);
    case Kind::node_values:
      return do_values(step);
    case Kind::node_set: {
      Node& node = graphs_[static_cast<std::size_t>(n[0])].nodes[static_cast<std::size_t>(n[1])];
      const Work work = step.work();
      const hipError_t result = node_change(work, node.device, node.handle, nullptr);
      if (result == hipSuccess) {
        node.work = work;
        node.accesses = accesses(work);
      }
      return code(result);
    }
    case Kind::node_edit: {
      Node& node = graphs_[static_cast<std::size_t>(n[0])].nodes[static_cast<std::size_t>(n[1])];
      node.work->value = n[2];
      return code(node_edit(node.handle, n[2], nullptr));
    }
    case Kind::exec_edit: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      Node& node = graphs_[static_cast<std::size_t>(of.graph)].nodes[static_cast<std::size_t>(n[1])];
      node.work->value = n[2];
      const hipError_t result = node_edit(node.handle, n[2], of.handle);
      if (result == hipSuccess) {
        of.nodes[static_cast<std::size_t>(n[1])].work = node.work;
        of.nodes[static_cast<std::size_t>(n[1])].accesses = node.accesses;
      }
      return code(result);
    }
    case Kind::exec_set: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      const Graph& graph = graphs_[static_cast<std::size_t>(of.graph)];
      const Work work = step.work();
      const hipError_t result = node_change(work, of.nodes[static_cast<std::size_t>(n[1])].device,
                                            graph.nodes[static_cast<std::size_t>(n[1])].handle, of.handle);
      Node set;
      set.work = work;
      copied_or_not(host_copies({set}));
      if (result == hipSuccess) {
        Node& node = of.nodes[static_cast<std::size_t>(n[1])];
        node.work = work;
        node.accesses = accesses(work);
      }
      return code(result);
    }
    case Kind::exec_enable: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      const Graph& graph = graphs_[static_cast<std::size_t>(of.graph)];
      const hipError_t result =
          hipGraphNodeSetEnabled(of.handle, graph.nodes[static_cast<std::size_t>(n[1])].handle, n[2] != 0);
      if (result == hipSuccess) of.nodes[static_cast<std::size_t>(n[1])].enabled = n[2] != 0;
      return code(result);
    }
    case Kind::exec_child: {
      Exec& of = execs_[static_cast<std::size_t>(n[0])];
      const Graph& graph = graphs_[static_cast<std::size_t>(of.graph)];
      const Graph& child = graphs_[static_cast<std::size_t>(n[2])];
      const hipError_t result = hipGraphExecChildGraphNodeSetParams(
          of.handle, graph.nodes[static_cast<std::size_t>(n[1])].handle, child.handle);
      copied_or_not(host_copies(child.nodes));
      Node& set = of.nodes[static_cast<std::size_t>(n[1])];
      const bool same_edges = std::equal(set.inner.begin(), set.inner.end(), child.nodes.begin(), child.nodes.end(),
                                         [](const Node& a, const Node& b) { return a.after == b.after; });
      set.inner = child.nodes;
      if (result == hipSuccess && !features_.swallowed && same_edges)
        set.accesses = graph_accesses(child.nodes);
      else
        of.known = false;  // how far it was set is not known, or which node has become which
      return code(result);
    }
    case Kind::mem_info: {
      std::size_t free_bytes = 0, total = 0;
      const hipError_t result = hipMemGetInfo(&free_bytes, &total);
      return code(result) + ' ' + std::to_string(free_bytes) + '/' + std::to_string(total);
    }
    case Kind::address_range: {
      const Buffer& of = buffer(n[0]);
      hipDeviceptr_t base = nullptr;
      std::size_t bytes = 0;
      const hipError_t result = hipMemGetAddressRange(&base, &bytes, reinterpret_cast<char*>(of.base) + n[1]);
      return code(result) + ' ' + std::to_string(static_cast<char*>(base) - reinterpret_cast<char*>(of.base)) + '+' +
             std::to_string(bytes);
    }
    case Kind::attributes: {
      const Buffer& of = buffer(n[0]);
      hipPointerAttribute_t attributes{};
      const hipError_t result = hipPointerGetAttributes(&attributes, reinterpret_cast<char*>(of.base) + n[1]);
      if (result != hipSuccess) return code(result);
      const auto relative = [&](const void* pointer) {
        return pointer == nullptr
                   ? std::string("null")
                   : std::to_string(static_cast<const char*>(pointer) - reinterpret_cast<const char*>(of.base));
      };
      return code(result) + ' ' + std::to_string(static_cast<int>(attributes.memoryType)) + ' ' +
             std::to_string(attributes.device) + ' ' + relative(attributes.devicePointer) + ' ' +
             relative(attributes.hostPointer) + buffer_id(of, n[1]);
    }
    case Kind::last_error:
      return code(hipGetLastError());
    case Kind::peek_error:
      return code(hipPeekAtLastError());
    case Kind::bad_call: {
      const std::string text = bad_call(step) + last();
      return text + refresh_captures();
    }
    case Kind::end_thread: {
      threads_.end(step.thread);
      self = {.mode = step.thread == 0 ? self.mode : hipStreamCaptureModeGlobal};  // the first thread goes on
      bool captured = false;
      for (Stream& each : thread_streams_[static_cast<std::size_t>(step.thread)]) {
        each.agent = add_agent(each.device);
        if (each.capture) {
          // Which streams it leaves in the capture the runtime says.
          captured = each.capture->doubtful = true;
          if (each.capture->own_of == step.thread) --open_captures_;
          each.capture->own_of = -1;
        }
        each.capture.reset();
        each.tail.clear();
      }
      suspicious_ = suspicious_ || captured;
      return captured ? "captured" + refresh_captures() : "";
    }
    case Kind::end_own:
      return end_own(step.thread, n[0]);
    case Kind::fail: {
      using Fail = void (*)(unsigned long long, int);
      static const auto fail = reinterpret_cast<Fail>(dlsym(RTLD_DEFAULT, "cpuhip_fail"));
      for (std::int64_t variant = 0; n[0] != 0 && variant < 2; ++variant) Kernels::module_code(variant);  // not by then
      if (features_.armed && fail != nullptr) fail(static_cast<unsigned long long>(n[0]), 999);
      return "";
    }
  }
  return "?";
}

/// Ends what the thread's own stream still captures, joined or not.
std::string Machine::end_own(int thread, std::int64_t device) {
  std::string text = code(hipSetDevice(static_cast<int>(device)));
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const hipError_t asked = hipStreamGetCaptureInfo_v2(hipStreamPerThread, &status, &id, &graph, nullptr, nullptr);
  text += ' ' + code(asked) + ' ' + std::to_string(static_cast<int>(status));
  if (asked != hipSuccess || status == hipStreamCaptureStatusNone) return text;
  if (status == hipStreamCaptureStatusActive) {
    std::size_t count = 0;
    text += ' ' + code(hipGraphGetNodes(graph, nullptr, &count));
    std::vector<hipGraphNode_t> nodes(count);
    if (count > 0) text += ' ' + code(hipGraphGetNodes(graph, nodes.data(), &count));
    text += ' ' + code(hipStreamUpdateCaptureDependencies(hipStreamPerThread, nodes.data(), count,
                                                          hipStreamSetCaptureDependencies));
  }
  hipGraph_t ended = nullptr;
  text += ' ' + code(hipStreamEndCapture(hipStreamPerThread, &ended));
  if (ended != nullptr) text += ' ' + code(hipGraphDestroy(ended));
  own_stuck_[static_cast<std::size_t>(thread)] =
      hipStreamIsCapturing(hipStreamPerThread, &status) != hipSuccess || status != hipStreamCaptureStatusNone;
  return text;
}

void Machine::finish() {
  if (features_.armed) (void)perform(make(Kind::fail, 0, {0}));
  const auto step = [&](Kind kind, int thread, std::vector<std::int64_t> numbers) {
    const Step made = make(kind, thread, std::move(numbers));
    if (allowed(made)) run(made);
  };
  const auto end = [&](int thread, std::int64_t stream) {
    for (int slot = 0; slot < kGraphs; ++slot) {
      if (graphs_[static_cast<std::size_t>(slot)].live) step(Kind::graph_destroy, 0, {slot});
      if (!graphs_[static_cast<std::size_t>(slot)].live) return step(Kind::end, thread, {stream, slot});
    }
  };
  const auto join_all = [&](const Capture& capture) {
    constexpr int kEvent = 0;
    if (!events_[kEvent].live) step(Kind::event_create, capture.thread, {kEvent});
    for (int i = 0; i < kStreams; ++i) {
      if (i == capture.origin || streams_[static_cast<std::size_t>(i)].capture.get() != &capture) continue;
      step(Kind::event_record, capture.thread, {kEvent, i});
      step(Kind::event_wait, capture.thread, {capture.origin, kEvent});
    }
  };
  for (int i = 0; features_.captures_ended && i < kStreams; ++i) {
    const auto capture = streams_[static_cast<std::size_t>(i)].capture;
    if (!capture || capture->origin != i) continue;
    join_all(*capture);
    end(capture->thread, i);
  }
  for (int i = 0; i < kStreams; ++i) {
    const auto capture = streams_[static_cast<std::size_t>(i)].capture;
    if (capture) step(Kind::stream_destroy, features_.own_destroys ? capture->thread : 0, {i});
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int device = 0; device < devices(); ++device) {
      if (!thread_streams_[static_cast<std::size_t>(thread)][static_cast<std::size_t>(device)].capture) continue;
      step(Kind::set_device, thread, {device});
      end(thread, kPerThread);
      if (!features_.captures_ended) run(make(Kind::end_thread, thread, {}));
    }
    // Whatever is known here: what nothing ended would be captured by the next program.
    const auto number = static_cast<std::size_t>(thread);
    for (int device = 0; own_captured_[number] && device < devices(); ++device)
      run(make(Kind::end_own, thread, {device}));
    if (own_stuck_[number] && thread != 0) run(make(Kind::end_thread, thread, {}));
  }
  for (int device = 0; device < devices(); ++device) {
    step(Kind::set_device, 0, {device});
    step(Kind::device_sync, 0, {});
  }
  for (int i = 0; i < kBuffers; ++i) {
    if (devices() > 1 && buffer(i).live) step(Kind::set_device, 0, {buffer(i).device});
    for (int part = 0; part < kParts; ++part) step(Kind::read, 0, {i, part, 1});
  }
  for (int i = 0; i < kExecs; ++i) step(Kind::exec_destroy, 0, {i});
  for (int i = 0; i < kGraphs; ++i) step(Kind::graph_destroy, 0, {i});
  for (int i = 0; i < kBuffers; ++i) step(Kind::release, 0, {i, 0, kNull});
  for (int i = 0; i < kModules; ++i) step(Kind::module_unload, 0, {i});
  for (int device = 0; device < devices(); ++device) {
    if (std::none_of(limited_.begin(), limited_.end(), [](bool limited) { return limited; })) break;
    if (devices() > 1) step(Kind::set_device, 0, {device});
    for (int what = 0; what <= Work::Nothing; ++what)
      for (int function = 0; limited_[static_cast<std::size_t>(what)] && function < 2; ++function)
        step(Kind::attribute, 0, {what, kMostShared, function});
  }
  for (int i = 0; i < kEvents; ++i) step(Kind::event_destroy, 0, {i});
  for (int i = 0; i < kStreams; ++i) step(Kind::stream_destroy, 0, {i});
  for (int thread = 0; thread < kThreads; ++thread) {
    if (thread_state_[static_cast<std::size_t>(thread)].mode != hipStreamCaptureModeGlobal)
      step(Kind::capture_mode, thread, {hipStreamCaptureModeGlobal});
    step(Kind::set_device, thread, {0});
  }
  step(Kind::mem_info, 0, {});
  for (int thread = 0; thread < kThreads; ++thread) step(Kind::last_error, thread, {});
}

}  // namespace property
