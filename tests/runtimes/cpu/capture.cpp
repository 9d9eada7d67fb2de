// capture.cpp: stream capture. A stream that takes part in a capture has a Capture: status, mode, graph, and what ties
// it to others. As in HIP 6.3 each stream has a status of its own: what invalidates an origin leaves the streams forked
// from it active, and what invalidates a forked stream leaves its origin active.
//
// What begins, ends and invalidates (HIP 6.3; "own" = begun by the calling thread and not relaxed):
//
//   hipStreamBeginCapture     null or legacy stream                        StreamCaptureUnsupported
//                             the stream's capture is active               IllegalState (an invalidated one: begins
//                             anew) unknown mode                                 InvalidValue
//     ...ToGraph              edge data                                    NotSupported
//                             no graph, dependencies without count or v.v. InvalidValue
//   hipStreamEndCapture       null, legacy or idle stream                  IllegalState
//                             not where it began                           StreamCaptureUnmatched
//                             not relaxed, another thread                  StreamCaptureWrongThread
//                             invalidated                                  StreamCaptureInvalidated; the graph is
//                             destroyed,
//                                                                          one given by ...ToGraph too; all streams
//                                                                          leave
//                             more than one leaf, none of which was added  StreamCaptureUnjoined; the streams stay
//                             by handle, or was ever taken from the        active, but the capture is in no list any
//                             stream's dependencies                        more; with the quirk unjoined_ends as an
//                                                                          invalidated one
//   UpdateCaptureDependencies idle stream                                  IllegalState
//                             more nodes than the graph has, foreign ones  InvalidValue
//   IsCapturing, GetInfo      null stream, a blocking stream captures      StreamCaptureImplicit, nothing invalidated
//   any captured call         stream invalidated                           StreamCaptureInvalidated
//
//   call                      condition                                    answer; invalidates
//   hipMalloc, hipFree, ...   thread mode ThreadLocal: own captures        StreamCaptureUnsupported; the own ones
//                             thread mode Global: own captures             StreamCaptureUnsupported; the own ones
//                               none of its own, global ones anywhere      StreamCaptureUnsupported; the global ones
//                             thread mode Relaxed                          allowed
//   hipMallocAsync,           a blocking stream of the stream's device     StreamCaptureUnsupported (HIP 6 on), nothing
//   hipFreeAsync elsewhere    captures                                     invalidated
//   hipDeviceSynchronize      any capture                                  StreamCaptureUnsupported; all
//   synchronous copies, fills any capture                                  StreamCaptureImplicit; all
//   hipStreamQuery,           stream active                                StreamCaptureUnsupported; the stream
//   hipStreamSynchronize      stream invalidated                           StreamCaptureUnsupported
//     (never the null stream) stream idle, thread mode not Relaxed:
//                               global captures anywhere                   StreamCaptureUnsupported; the global ones
//                               else own captures                          StreamCaptureUnsupported; the own ones
//   hipEventQuery             recorded last on an active stream            CapturedEvent; that stream
//   hipEventSynchronize       the same                                     CapturedEvent; that stream
//                             else as hipStreamSynchronize of that stream  StreamCaptureUnsupported
//   hipEventRecord            stream active: the event stands for the stream's last nodes; no node is made
//   hipStreamWaitEvent        event of the capture: the stream joins or is joined
//                               null stream                                InvalidHandle
//                               stream is in another capture               StreamCaptureMerge; both (HIP 6.3 mixes the
//                               graphs)
//                             recorded on an active stream, before its     StreamCaptureIsolation
//                             capture began
//                             any other event                              performed at once, outside the capture;
//                             without
//                                                                          the quirk external_waits, on an active
//                                                                          stream: StreamCaptureIsolation
//   hipStreamDestroy          ends the stream's part and those forked from it
//
// Lists (global, own, all) hold origins only, from begin to end.
#include "capture.h"

#include <algorithm>
#include <unordered_set>

#include "api.h"
#include "device.h"
#include "graph.h"
#include "memory.h"

namespace cpuhip {

class Capture {
 public:
  hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  unsigned long long id = 0;
  Graph* graph = nullptr;
  bool graph_of_program = false;  ///< begun with ...ToGraph
  bool origin = false;
  bool listed = false;       ///< an origin whose capture has begun and not ended
  std::uint64_t thread = 0;  ///< that began it
  Stream* parent = nullptr;  ///< whose event made this stream join; null for an origin
  std::vector<Stream*> forked;
  std::unordered_set<ihipEvent_t*> events;  ///< recorded on this stream in this capture
};

namespace {

Capture* part(const Stream& stream) { return stream.capture.load(std::memory_order_relaxed); }

/// All streams that take part in a capture. Guarded by graph_mutex().
std::vector<Stream*>& capturing() {
  static auto* const streams = new std::vector<Stream*>;
  return *streams;
}
bool none_capturing() { return graph_counters().captures.load(std::memory_order_acquire) == 0; }

hipStreamCaptureMode& thread_mode() {
  thread_local hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  return mode;
}

bool is_active(const Stream* stream) {
  return stream != nullptr && part(*stream) != nullptr && part(*stream)->status == hipStreamCaptureStatusActive;
}

/// HIP keeps a list of captures in each thread: a later thread is another one, although it may have the id of one that
/// has ended.
std::uint64_t thread_number() {
  static constinit std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

enum class List { Own, Global, All };
bool in_list(const Capture& capture, List list) {
  if (!capture.listed) return false;
  switch (list) {
    case List::Own:
      return capture.mode != hipStreamCaptureModeRelaxed && capture.thread == thread_number();
    case List::Global:
      return capture.mode == hipStreamCaptureModeGlobal;
    case List::All:
      return true;
  }
  return false;
}
/// Invalidates the captures of a list; false when it is empty.
bool invalidate(List list) {
  bool any = false;
  for (Stream* stream : capturing()) {
    if (!in_list(*part(*stream), list)) continue;
    part(*stream)->status = hipStreamCaptureStatusInvalidated;
    any = true;
  }
  return any;
}

Capture& join(Stream& stream) {
  if (part(stream) == nullptr) {
    stream.capture = new Capture;
    capturing().push_back(&stream);
    graph_counters().captures.fetch_add(1, std::memory_order_release);
  }
  return *part(stream);
}

/// Ends the part of a stream and of all that were forked from it. The graph is the caller's business.
void leave(Stream& stream) {
  Capture* const capture = part(stream);
  if (capture == nullptr) return;
  stream.capture = nullptr;
  stream.capture_tail.clear();
  std::erase(capturing(), &stream);
  graph_counters().captures.fetch_sub(1, std::memory_order_release);
  for (ihipEvent_t* event : capture->events) {
    if (event->last_stream == &stream) event->last_stream = nullptr;
    event->capture_id = 0;
  }
  for (Stream* forked : capture->forked) {
    const Capture* its = part(*forked);
    if (its != nullptr && !its->origin && its->id == capture->id) leave(*forked);
  }
  delete capture;
}

/// The stream of the event's last record when it takes part in a capture; null also when that stream is gone.
Stream* recorder_of(const ihipEvent_t& event) {
  const auto found = std::find(capturing().begin(), capturing().end(), event.last_stream.load());
  if (found == capturing().end() || (*found)->generation() != event.last_stream_generation) return nullptr;
  return *found;
}

/// The first version that does not note a node twice that a stream comes behind.
constexpr int kNotesNodesOnce = 60100000;

void depend_on(Stream& stream, const std::vector<GraphNode*>& nodes_after) {
  std::vector<GraphNode*>& tail = stream.capture_tail;
  if (quirks().event_keeps_nodes && config().version < kNotesNodesOnce) {
    tail.insert(tail.end(), nodes_after.begin(), nodes_after.end());
    return;
  }
  for (GraphNode* node : nodes_after) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
}

/// Whether it is a node of the graph. An event may have kept one that is gone, whose place may be another's by now.
bool is_node_of(const GraphNode* node, const Graph& graph) {
  return nodes().state(node) == SlotState::Live && node->graph == &graph;
}

/// Adds a node after the stream's last ones. Where these are refused it stays in the graph all the same, behind those
/// before the one that is wrong. graph_mutex() is held.
hipError_t append(Stream& stream, std::shared_ptr<NodeWork> work) {
  work->device = stream.device().ordinal();
  Graph* graph = graphs().check(part(stream)->graph);
  std::vector<GraphNode*> behind;
  for (GraphNode* dependency : stream.capture_tail) {
    if (!is_node_of(dependency, *graph) || std::find(behind.begin(), behind.end(), dependency) != behind.end()) break;
    behind.push_back(dependency);
  }
  GraphNode* node = nullptr;
  const hipError_t result = add_node(*graph, std::move(work), behind.data(), behind.size(), &node);
  if (result != hipSuccess) return result;
  if (behind.size() != stream.capture_tail.size()) return hipErrorInvalidValue;
  stream.capture_tail.assign(1, node);
  return hipSuccess;
}

hipError_t idle_stream_in_use() {
  if (thread_mode() == hipStreamCaptureModeRelaxed) return hipSuccess;
  return invalidate(List::Global) || invalidate(List::Own) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t stream_in_use(Stream& stream) {
  if (stream.is_null()) return hipSuccess;
  if (part(stream) != nullptr) {
    part(stream)->status = hipStreamCaptureStatusInvalidated;
    return hipErrorStreamCaptureUnsupported;
  }
  return idle_stream_in_use();
}

NodeKind kind_of(const Operation& operation) {
  constexpr NodeKind kKinds[] = {NodeKind::Kernel, NodeKind::Memcpy,  NodeKind::Memset,
                                 NodeKind::Host,   NodeKind::ValueOp, NodeKind::ValueOp};
  static_assert(std::variant_size_v<Operation> == std::size(kKinds));
  return kKinds[operation.index()];
}

hipError_t run_now(Stream& stream, Operation operation) {
  Device* device = &stream.device();
  stream.enqueue([operation = std::move(operation), device] { return execute(operation, *device); });
  return hipSuccess;
}

/// Values are written and waited for at once, whatever the stream does, before the version that captures them.
constexpr int kCapturesValues = 71600000;

/// Of this device, or of any where it is null. Under graph_mutex().
bool blocking_stream_captures(const Device* device) {
  return std::any_of(capturing().begin(), capturing().end(), [device](const Stream* stream) {
    return is_active(stream) && stream->blocking() && (device == nullptr || &stream->device() == device);
  });
}

}  // namespace

hipError_t capture_operation(Stream& stream, Operation operation) {
  const NodeKind kind = kind_of(operation);
  {
    const std::lock_guard lock(graph_mutex());
    if (part(stream) != nullptr && (kind != NodeKind::ValueOp || config().version >= kCapturesValues)) {
      if (part(stream)->status != hipStreamCaptureStatusActive) return hipErrorStreamCaptureInvalidated;
      if (kind == NodeKind::Memset && std::get<FillWork>(operation).width == 0) return hipErrorInvalidValue;
      auto work = std::make_shared<NodeWork>();
      work->kind = kind;
      work->operation = std::move(operation);
      return append(stream, std::move(work));
    }
  }
  return run_now(stream, std::move(operation));
}

hipError_t capture_launch_with_events(Stream& stream, Operation operation, ihipEvent_t* start, ihipEvent_t* stop) {
  const std::lock_guard lock(graph_mutex());
  if (part(stream) == nullptr) return hipErrorIllegalState;
  if (part(stream)->status != hipStreamCaptureStatusActive) return hipErrorStreamCaptureInvalidated;
  if (start != nullptr) {
    auto record = std::make_shared<NodeWork>();
    record->kind = NodeKind::EventRecord;
    record->event = start;
    const hipError_t result = append(stream, std::move(record));
    if (result != hipSuccess) return result;
  }
  auto work = std::make_shared<NodeWork>();
  work->kind = NodeKind::Kernel;
  work->operation = std::move(operation);
  work->event = stop;
  return append(stream, std::move(work));
}

hipStreamCaptureStatus capture_status(const Stream& stream) {
  if (part(stream) == nullptr) return hipStreamCaptureStatusNone;
  const std::lock_guard lock(graph_mutex());
  return part(stream) == nullptr ? hipStreamCaptureStatusNone : part(stream)->status;
}

bool capture_event_record(Stream& stream, ihipEvent_t& event) {
  const std::lock_guard lock(graph_mutex());
  if (!is_active(&stream)) return false;
  event.last_stream_generation = stream.generation();
  event.last_stream = &stream;
  event.capture_id = part(stream)->id;
  if (!stream.capture_tail.empty() || !quirks().event_keeps_nodes) event.capture_nodes = stream.capture_tail;
  part(stream)->events.insert(&event);
  return true;
}

hipError_t capture_wait_event(Stream& stream, ihipEvent_t& event, bool* captured) {
  *captured = false;
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  Stream* const recorder = recorder_of(event);
  if (recorder != nullptr && part(*recorder)->events.contains(&event)) {
    *captured = true;
    Stream& from = *recorder;
    if (stream.is_null()) return hipErrorInvalidHandle;
    if (part(stream) != nullptr && part(stream)->id != part(from)->id) {
      part(stream)->status = hipStreamCaptureStatusInvalidated;
      part(from)->status = hipStreamCaptureStatusInvalidated;
      return hipErrorStreamCaptureMerge;
    }
    if (&stream != &from && (part(stream) == nullptr || !part(stream)->origin)) {
      Capture& joined = join(stream);
      joined.status = hipStreamCaptureStatusActive;
      joined.mode = part(from)->mode;
      joined.id = part(from)->id;
      joined.graph = part(from)->graph;
      joined.parent = &from;
      std::vector<Stream*>& forked = part(from)->forked;
      if (std::find(forked.begin(), forked.end(), &stream) == forked.end()) forked.push_back(&stream);
    }
    depend_on(stream, event.capture_nodes);
    return hipSuccess;
  }
  if (is_active(recorder) || (is_active(&stream) && !quirks().external_waits)) {
    *captured = true;
    return hipErrorStreamCaptureIsolation;
  }
  return hipSuccess;
}

hipError_t capture_malloc(Stream& stream, void** pointer, std::size_t bytes) {
  if (config().version < 60000000) return hipErrorNotSupported;
  const std::lock_guard lock(graph_mutex());
  if (part(stream) == nullptr) return hipErrorIllegalState;
  if (part(stream)->status != hipStreamCaptureStatusActive) return hipErrorStreamCaptureInvalidated;
  auto work = std::make_shared<NodeWork>();
  work->kind = NodeKind::MemAlloc;
  hipError_t result = GraphMemory::create(stream.device().ordinal(), bytes, &work->memory);
  if (result != hipSuccess) return result;
  void* const address = work->memory->pointer();
  result = append(stream, std::move(work));
  if (result == hipSuccess) *pointer = address;
  return result;
}

hipError_t capture_free(Stream& stream, void* pointer) {
  if (config().version < 60000000) return hipErrorNotSupported;
  const std::lock_guard lock(graph_mutex());
  if (part(stream) == nullptr) return hipErrorIllegalState;
  if (part(stream)->status != hipStreamCaptureStatusActive) return hipErrorStreamCaptureInvalidated;
  auto work = std::make_shared<NodeWork>();
  work->kind = NodeKind::MemFree;
  work->freed = pointer;
  work->memory = find_graph_memory(pointer);
  if (work->memory) work->memory->freed_by_node = true;
  return append(stream, std::move(work));
}

hipError_t check_capture_unsafe_call() {
  if (thread_mode() == hipStreamCaptureModeRelaxed || none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  if (invalidate(List::Own)) return hipErrorStreamCaptureUnsupported;
  if (thread_mode() != hipStreamCaptureModeGlobal) return hipSuccess;
  return invalidate(List::Global) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t check_capture_ordered_memory(const Stream& stream) {
  if (config().version < 60000000 || none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  return blocking_stream_captures(&stream.device()) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t check_capture_device_synchronize() {
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  return invalidate(List::All) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t check_capture_implicit() {
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  return invalidate(List::All) ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t check_capture_stream_query(Stream& stream) {
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  return stream_in_use(stream);
}

namespace {

/// hipErrorCapturedEvent when the event's last record is on a stream that is capturing now.
hipError_t event_in_use(Stream* recorder) {
  if (!is_active(recorder)) return hipSuccess;
  part(*recorder)->status = hipStreamCaptureStatusInvalidated;
  return hipErrorCapturedEvent;
}

}  // namespace

hipError_t check_capture_event_query(ihipEvent_t& event) {
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  return event_in_use(recorder_of(event));
}

hipError_t check_capture_event_synchronize(ihipEvent_t& event) {
  if (none_capturing()) return hipSuccess;
  const std::lock_guard lock(graph_mutex());
  Stream* const recorder = recorder_of(event);
  const hipError_t result = event_in_use(recorder);
  if (result != hipSuccess) return result;
  if (recorder != nullptr) return stream_in_use(*recorder);
  const Stream* const last = event.last_stream;
  if (last == nullptr || last == &device(event.device).null_stream()) return hipSuccess;
  return idle_stream_in_use();
}

void capture_stream_destroyed(Stream& stream) {
  if (none_capturing()) return;
  Graph* abandoned = nullptr;
  {
    const std::lock_guard lock(graph_mutex());
    Capture* capture = part(stream);
    if (capture == nullptr) return;
    if (capture->parent != nullptr && part(*capture->parent) != nullptr) {
      std::erase(part(*capture->parent)->forked, &stream);
    }
    if (capture->origin && !capture->graph_of_program) abandoned = capture->graph;
    leave(stream);
  }
  if (abandoned != nullptr) release_user_objects(destroy_graph(*abandoned));
}

void capture_event_destroyed(ihipEvent_t& event) {
  if (none_capturing()) return;
  const std::lock_guard lock(graph_mutex());
  for (Stream* stream : capturing()) part(*stream)->events.erase(&event);
}

bool is_captured_into(const Graph& graph) {
  return std::any_of(capturing().begin(), capturing().end(),
                     [&](const Stream* stream) { return part(*stream)->graph == &graph; });
}

namespace {

/// `abandoned`: the graph of an invalidated capture that nobody ended, to be destroyed with no lock held.
hipError_t begin(Stream& stream, hipStreamCaptureMode mode, Graph* graph, Graph** abandoned) {
  if (stream.is_null()) return hipErrorStreamCaptureUnsupported;
  if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
  if (is_active(&stream)) return hipErrorIllegalState;
  static unsigned long long last_id = 0;
  const Capture* const invalid = part(stream);
  if (invalid != nullptr && invalid->origin && !invalid->graph_of_program) *abandoned = invalid->graph;
  leave(stream);
  Capture& capture = join(stream);
  capture.mode = mode;
  capture.id = ++last_id;
  capture.graph_of_program = graph != nullptr;
  capture.graph = graph != nullptr ? graph : new_graph(stream.device().ordinal());
  capture.graph->captured = true;
  capture.origin = capture.listed = true;
  capture.thread = thread_number();
  return hipSuccess;
}

hipError_t begin_capture(Call& call, hipStream_t handle, hipStreamCaptureMode mode, bool per_thread) {
  Stream* stream = nullptr;
  hipError_t result = resolve(call, handle, per_thread, &stream);
  if (result != hipSuccess) return result;
  Graph* abandoned = nullptr;
  {
    const std::lock_guard lock(graph_mutex());
    result = begin(*stream, mode, nullptr, &abandoned);
  }
  if (abandoned != nullptr) release_user_objects(destroy_graph(*abandoned));
  return result;
}

/// Whether branches end that nothing joined, counting as HIP does.
bool unjoined(const Stream& stream) {
  const Capture& capture = *part(stream);
  const std::vector<GraphNode*>& tail = stream.capture_tail;
  std::size_t leaves = 0, counted = 0;
  bool was_removed = false;
  for (const GraphNode* node : capture.graph->nodes) {
    if (node == nullptr || !node->dependents.empty() || std::find(tail.begin(), tail.end(), node) != tail.end())
      continue;
    ++leaves;
    if (node->manual) continue;
    ++counted;
    was_removed = was_removed || stream.capture_removed.contains(node->serial);
  }
  // the stream's own end is one more leaf, joining its last nodes
  return leaves + 1 > 1 && counted + 1 > 1 && !was_removed;
}

hipError_t end_capture(Call& call, hipStream_t handle, hipGraph_t* out, bool per_thread) {
  if (out == nullptr) return hipErrorInvalidValue;
  Stream* stream = nullptr;
  const hipError_t result = resolve(call, handle, per_thread, &stream);
  if (result != hipSuccess) return result;
  Graph* invalid = nullptr;
  bool active = false;
  {
    const std::lock_guard lock(graph_mutex());
    Capture* capture = part(*stream);
    if (stream->is_null() || capture == nullptr) return hipErrorIllegalState;
    if (!capture->origin) return hipErrorStreamCaptureUnmatched;
    if (capture->mode != hipStreamCaptureModeRelaxed && !in_list(*capture, List::Own)) {
      return hipErrorStreamCaptureWrongThread;
    }
    capture->listed = false;
    active = capture->status == hipStreamCaptureStatusActive;
    if (active) graphs().check(capture->graph);
    const bool branches = active && unjoined(*stream);
    if (branches && !quirks().unjoined_ends) return hipErrorStreamCaptureUnjoined;
    if (active && !branches) {
      for (GraphNode* node : capture->graph->nodes) {
        if (node != nullptr) node->manual = false;
      }
      *out = cpuhip::handle(capture->graph);
      leave(*stream);
      return hipSuccess;
    }
    *out = nullptr;
    invalid = capture->graph;
    if (active || !quirks().stuck_invalidation) {
      leave(*stream);
    } else {
      capture->graph = nullptr;
      for (Stream* other : std::vector<Stream*>(capturing())) {
        if (other != stream && part(*other) != nullptr && part(*other)->graph == invalid) leave(*other);
      }
    }
  }
  if (invalid != nullptr) release_user_objects(destroy_graph(*invalid, true));
  return active ? hipErrorStreamCaptureUnjoined : hipErrorStreamCaptureInvalidated;
}

struct Info {
  hipStreamCaptureStatus* status = nullptr;
  unsigned long long* id = nullptr;
  hipGraph_t* graph = nullptr;
  const hipGraphNode_t** dependencies = nullptr;
  std::size_t* count = nullptr;
};
hipError_t capture_info(Call& call, hipStream_t handle, bool per_thread, const Info& out) {
  if (out.status == nullptr) return hipErrorInvalidValue;
  Stream* stream = nullptr;
  const hipError_t result = resolve(call, handle, per_thread, &stream);
  if (result != hipSuccess) return result;
  if (none_capturing()) {
    *out.status = hipStreamCaptureStatusNone;
    return hipSuccess;
  }
  const std::lock_guard lock(graph_mutex());
  if (stream->is_null() && blocking_stream_captures(nullptr)) return hipErrorStreamCaptureImplicit;
  *out.status = part(*stream) == nullptr ? hipStreamCaptureStatusNone : part(*stream)->status;
  if (*out.status != hipStreamCaptureStatusActive) return hipSuccess;
  if (out.id != nullptr) *out.id = part(*stream)->id;
  if (out.graph != nullptr) *out.graph = cpuhip::handle(part(*stream)->graph);
  if (out.dependencies != nullptr) {
    *out.dependencies = reinterpret_cast<const hipGraphNode_t*>(stream->capture_tail.data());
  }
  if (out.count != nullptr) *out.count = stream->capture_tail.size();
  return hipSuccess;
}

hipError_t update_dependencies(Stream& stream, const hipGraphNode_t* dependencies, std::size_t count, unsigned flags) {
  if (part(stream) == nullptr) return hipErrorIllegalState;
  Capture& capture = *part(stream);
  const Graph* graph = graphs().check(capture.graph);
  if (graph == nullptr) return hipErrorIllegalState;
  if (graph->count < count || (count > 0 && dependencies == nullptr) ||
      (flags != hipStreamAddCaptureDependencies && flags != hipStreamSetCaptureDependencies)) {
    return hipErrorInvalidValue;
  }
  std::vector<GraphNode*> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = find(dependencies[i]);
    if (node == nullptr || node->graph != graph) return hipErrorInvalidValue;
    wanted.push_back(node);
  }
  if (flags == hipStreamSetCaptureDependencies) {
    for (const GraphNode* node : stream.capture_tail) stream.capture_removed.insert(node->serial);
    stream.capture_tail.clear();
  }
  depend_on(stream, wanted);
  return hipSuccess;
}

hipError_t begin_capture_to_graph(Call& call, hipStream_t handle, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                  std::size_t count, hipStreamCaptureMode mode) {
  Stream* stream = nullptr;
  hipError_t result = resolve(call, handle, false, &stream);
  if (result != hipSuccess) return result;
  Graph* abandoned = nullptr;
  {
    const std::lock_guard lock(graph_mutex());
    Graph* into = find(graph);
    if (into == nullptr) return hipErrorInvalidValue;
    result = begin(*stream, mode, into, &abandoned);
    if (result != hipSuccess) return result;
    for (GraphNode* node : into->nodes) {
      if (node != nullptr) node->manual = true;
    }
    if (dependencies != nullptr) {
      result = update_dependencies(*stream, dependencies, count, hipStreamSetCaptureDependencies);
    }
  }
  if (abandoned != nullptr) release_user_objects(destroy_graph(*abandoned));
  return result;
}

}  // namespace
}  // namespace cpuhip

using cpuhip::Call;
using cpuhip::Stream;

CPUHIP_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return cpuhip::api("hipStreamBeginCapture",
                     [&](Call& call) { return cpuhip::begin_capture(call, stream, mode, false); });
}
CPUHIP_EXPORT hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode) {
  return cpuhip::api("hipStreamBeginCapture_spt",
                     [&](Call& call) { return cpuhip::begin_capture(call, stream, mode, true); });
}

/// The edge data is opaque: it must be null.
CPUHIP_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph,
                                                      const hipGraphNode_t* dependencies, const void* dependency_data,
                                                      size_t count, hipStreamCaptureMode mode) {
  return cpuhip::api("hipStreamBeginCaptureToGraph", [&](Call& call) {
    if (dependency_data != nullptr) return hipErrorNotSupported;
    if (graph == nullptr || (dependencies == nullptr) != (count == 0)) return hipErrorInvalidValue;
    return cpuhip::begin_capture_to_graph(call, stream, graph, dependencies, count, mode);
  });
}

CPUHIP_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  return cpuhip::api("hipStreamEndCapture",
                     [&](Call& call) { return cpuhip::end_capture(call, stream, graph, false); });
}
CPUHIP_EXPORT hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t* graph) {
  return cpuhip::api("hipStreamEndCapture_spt",
                     [&](Call& call) { return cpuhip::end_capture(call, stream, graph, true); });
}

CPUHIP_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return cpuhip::api("hipStreamIsCapturing",
                     [&](Call& call) { return cpuhip::capture_info(call, stream, false, {.status = status}); });
}
CPUHIP_EXPORT hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus* status) {
  return cpuhip::api("hipStreamIsCapturing_spt",
                     [&](Call& call) { return cpuhip::capture_info(call, stream, true, {.status = status}); });
}

CPUHIP_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                                 unsigned long long* id) {
  return cpuhip::api("hipStreamGetCaptureInfo", [&](Call& call) {
    return cpuhip::capture_info(call, stream, false, {.status = status, .id = id});
  });
}
CPUHIP_EXPORT hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                                     unsigned long long* id) {
  return cpuhip::api("hipStreamGetCaptureInfo_spt", [&](Call& call) {
    return cpuhip::capture_info(call, stream, true, {.status = status, .id = id});
  });
}

CPUHIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                                    unsigned long long* id, hipGraph_t* graph,
                                                    const hipGraphNode_t** dependencies, size_t* count) {
  return cpuhip::api("hipStreamGetCaptureInfo_v2", [&](Call& call) {
    return cpuhip::capture_info(call, stream, false, {status, id, graph, dependencies, count});
  });
}
CPUHIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                                        unsigned long long* id, hipGraph_t* graph,
                                                        const hipGraphNode_t** dependencies, size_t* count) {
  return cpuhip::api("hipStreamGetCaptureInfo_v2_spt", [&](Call& call) {
    return cpuhip::capture_info(call, stream, true, {status, id, graph, dependencies, count});
  });
}

CPUHIP_EXPORT hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t* dependencies,
                                                            size_t count, unsigned flags) {
  return cpuhip::api("hipStreamUpdateCaptureDependencies", [&](Call& call) {
    Stream* resolved = nullptr;
    const hipError_t result = cpuhip::resolve(call, stream, false, &resolved);
    if (result != hipSuccess) return result;
    const std::lock_guard lock(cpuhip::graph_mutex());
    return cpuhip::update_dependencies(*resolved, dependencies, count, flags);
  });
}

CPUHIP_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return cpuhip::api("hipThreadExchangeStreamCaptureMode", [&](Call&) {
    if (mode == nullptr || *mode < hipStreamCaptureModeGlobal || *mode > hipStreamCaptureModeRelaxed) {
      return hipErrorInvalidValue;
    }
    std::swap(*mode, cpuhip::thread_mode());
    return hipSuccess;
  });
}
