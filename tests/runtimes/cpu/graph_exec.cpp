// graph_exec.cpp: executable graphs: instantiate, launch, update.
//
// An exec is flat: child graphs are laid out in place, between an empty slot before and one after them. A launch is one
// piece of work of its stream: it starts when everything before it in the stream is done, and what comes after waits
// for it. Inside, run_dag runs the nodes by their edges.
//
// CPUHIP_EXEC_ORDER=serial|overlap   launches of one exec wait for each other (CUDA; default) or only by their streams
//                                    (HIP 6.3)
// CPUHIP_EXEC_PARAMS=launch|node     an update changes later launches only (default), or nodes not yet run as well
#include "graph_exec.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_set>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "kernel.h"
#include "memory.h"

namespace cpuhip {
namespace {

struct Switches {
  bool overlap = false, params_at_node = false;
};
bool one_of(const char* variable, const char* standard, const char* other) {
  const char* text = std::getenv(variable);
  if (text == nullptr || std::strcmp(text, standard) == 0) return false;
  if (std::strcmp(text, other) == 0) return true;
  fatal("%s: '%s' is neither %s nor %s", variable, text, standard, other);
}
const Switches& switches() {
  static const Switches read{one_of("CPUHIP_EXEC_ORDER", "serial", "overlap"),
                             one_of("CPUHIP_EXEC_PARAMS", "launch", "node")};
  return read;
}

/// Lays a graph out into an exec. graph_mutex() is held.
class Builder {
 public:
  explicit Builder(ExecState& state) : state_(state) {}

  bool build(const Graph& graph) {
    if (!add(graph, &state_.top)) return false;
    state_.dag = make_dag(state_.plan->works.size(), edges_);
    return true;
  }

 private:
  struct Ends {
    std::uint32_t first, last;  ///< the same but for child graphs
  };

  std::uint32_t add_slot(Work work) {
    const auto slot = static_cast<std::uint32_t>(state_.plan->works.size());
    state_.argument_bytes += work->argument_bytes();
    if (work->event != nullptr) state_.event_slots.push_back(slot);
    state_.has_memory = state_.has_memory || work->memory != nullptr;
    state_.plan->works.push_back(std::move(work));
    return slot;
  }

  bool add(const Graph& graph, ExecGraph* out) {
    std::vector<GraphNode*> order;
    if (!topological_order(graph, &order)) return false;
    out->device = graph.device;
    out->nodes.reserve(order.size());
    std::vector<Ends> ends(graph.nodes.size());
    for (const GraphNode* node : order) {
      ExecNode made{node->kind(), 0, static_cast<std::uint32_t>(node->dependencies.size()), node->serial, nullptr};
      Ends& its = ends[node->position];
      if (node->child != nullptr) {
        its.first = add_slot(empty_);
        made.child = std::make_unique<ExecGraph>();
        const std::size_t slots_before = state_.plan->works.size();
        if (!add(*node->child, made.child.get())) return false;
        const auto slots_after = static_cast<std::uint32_t>(state_.plan->works.size());
        its.last = add_slot(empty_);
        connect_child(its, static_cast<std::uint32_t>(slots_before), slots_after);
      } else {
        its.first = its.last = made.slot = add_slot(shareable_work(*node));
      }
      for (const GraphNode* dependency : node->dependencies) {
        edges_.emplace_back(ends[dependency->position].last, its.first);
      }
      out->by_serial.emplace_back(node->serial, static_cast<std::uint32_t>(out->nodes.size()));
      out->nodes.push_back(std::move(made));
    }
    std::sort(out->by_serial.begin(), out->by_serial.end());
    return true;
  }

  /// The child's slots [begin, end) run after the slot before them, and the one after waits for all of them.
  void connect_child(const Ends& ends, std::uint32_t begin, std::uint32_t end) {
    if (begin == end) {
      edges_.emplace_back(ends.first, ends.last);
      return;
    }
    std::vector<bool> has_dependency(end - begin), has_dependent(end - begin);
    for (auto edge = edges_.rbegin(); edge != edges_.rend() && edge->second >= begin; ++edge) {
      has_dependency[edge->second - begin] = true;
      has_dependent[edge->first - begin] = true;
    }
    for (std::uint32_t slot = begin; slot < end; ++slot) {
      if (!has_dependency[slot - begin]) edges_.emplace_back(ends.first, slot);
      if (!has_dependent[slot - begin]) edges_.emplace_back(slot, ends.last);
    }
  }

  ExecState& state_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
  const Work empty_ = std::make_shared<NodeWork>();
};

// What an exec holds of the device's memory, as clr's sources have it (rocm-5.7.1 to 6.2.2, and f9f995c6 for 6.3):
// from 6.0 on the arguments of its kernels, from 6.3 on with room for updates; up to 7.1 a stream of its own, whose
// arguments are in device memory from 6.1 on. An update takes new room each time, and a chunk where there is none left.
constexpr std::size_t kStreamArguments = std::size_t{1} << 20, kArgumentChunk = std::size_t{128} << 10;
constexpr int kKeepsArguments = 60000000, kStreamsOnDevice = 60100000, kUpdatesInChunks = 60200000,
              kRoomForUpdates = 60300000, kNoStream = 70200000;

/// With the hidden ones.
std::size_t argument_memory(const NodeWork& work) {
  constexpr std::size_t kHidden = 256, kAlignment = 64;
  if (work.kind != NodeKind::Kernel) return 0;
  return (work.argument_bytes() + kHidden + kAlignment - 1) / kAlignment * kAlignment;
}

bool take_device_memory(ExecState& state, std::size_t bytes) {
  if (!device(state.device).take_untold_memory(bytes)) return false;
  state.device_bytes += bytes;
  return true;
}

bool take_exec_memory(ExecState& state) {
  const int version = config().version;
  std::size_t arguments = 0;
  for (const Work& work : state.plan->works) arguments += argument_memory(*work);
  std::size_t bytes = version >= kKeepsArguments ? arguments : 0;
  if (version >= kStreamsOnDevice && version < kNoStream) bytes += kStreamArguments;
  if (version >= kUpdatesInChunks) state.argument_chunk = kArgumentChunk;
  if (version >= kRoomForUpdates) {
    state.argument_room = kArgumentChunk;
    state.argument_chunk += arguments;
    bytes += kArgumentChunk;
  }
  return take_device_memory(state, bytes);
}

/// Nobody looks whether there is a chunk.
void take_argument_room(ExecState& state, const NodeWork& work) {
  const std::size_t bytes = argument_memory(work);
  if (state.argument_chunk == 0) return;
  if (bytes > state.argument_room) {
    if (!take_device_memory(state, state.argument_chunk))
      fatal("this runtime crashes where an update needs memory for kernel arguments and the device has none left");
    state.argument_room = state.argument_chunk;
  }
  state.argument_room -= std::min(bytes, state.argument_room);
}

/// Quirk late_kernargs: what the thread has set and the device does not see yet.
struct Unseen {
  std::weak_ptr<ExecState> state;
  std::uint32_t slot;
  Work work;
};
thread_local std::vector<Unseen> t_unseen;

/// One launch, kept by the work enqueued for it.
struct Launch {
  std::shared_ptr<ExecState> state;
  std::shared_ptr<Plan> plan;
  Device* device = nullptr;  ///< the launch stream's
  struct Event {
    std::uint32_t slot;
    bool record;  ///< to finish; else to wait for
    Token token;
  };
  std::vector<Event> events;  ///< sorted by slot
  std::atomic<hipError_t> result{hipSuccess};

  Launch(std::shared_ptr<ExecState> exec, Device& on) : state(std::move(exec)), plan(state->plan), device(&on) {
    plan->in_flight.fetch_add(1, std::memory_order_relaxed);
    graph_counters().launches.fetch_add(1, std::memory_order_relaxed);
  }
  ~Launch() {
    plan->in_flight.fetch_sub(1, std::memory_order_release);
    state.reset();  // who sees no launch any more sees what it held gone, too
    graph_counters().launches.fetch_sub(1, std::memory_order_release);
  }

  const Event* event_of(std::uint32_t slot) const {
    const auto found = std::lower_bound(events.begin(), events.end(), slot,
                                        [](const Event& event, std::uint32_t wanted) { return event.slot < wanted; });
    return found != events.end() && found->slot == slot ? &*found : nullptr;
  }

  void run(std::uint32_t slot) {
    Work work;
    bool disabled = false;
    if (switches().params_at_node) {
      const std::lock_guard lock(state->mutex);
      work = state->plan->works[slot];
      disabled = state->plan->disabled[slot] != 0;
    } else {
      work = plan->works[slot];
      disabled = plan->disabled[slot] != 0;
    }
    hipError_t status = result.load(std::memory_order_relaxed);
    // nodes of the graph's own device run where the graph is launched
    Device& where = work->device == state->device ? *device : cpuhip::device(work->device);
    if (status == hipSuccess && !disabled) status = perform(*work, where, slot);
    if (work->event != nullptr) {
      const Event* event = event_of(slot);
      if (event != nullptr && event->record) event->token->finish(status);
    }
    if (status == hipSuccess) return;
    hipError_t none = hipSuccess;
    result.compare_exchange_strong(none, status);
    where.note(status);
  }

  /// A graph launched on another device than it was made on: host stubs stand for that device's code.
  static hipError_t perform_kernel(const NodeWork& work, Device& where) {
    const auto& kernel = std::get<KernelWork>(work.operation);
    if (work.kept_arguments != nullptr) {
      KernelWork now = kernel;
      const hipError_t packed = pack_arguments(*kernel.kernel, work.kept_arguments, nullptr, &now.args);
      return packed == hipSuccess ? execute(now, where) : packed;
    }
    if (kernel.kernel->device == where.ordinal() || (quirks().current_device_stubs && is_stub(kernel.handle)))
      return execute(work.operation, where);
    KernelWork there = kernel;
    there.kernel = find_kernel(kernel.handle, where);
    if (there.kernel == nullptr || there.kernel->device != where.ordinal()) return hipErrorInvalidDeviceFunction;
    return execute(there, where);
  }

  hipError_t perform(const NodeWork& work, Device& where, std::uint32_t slot) const {
    switch (work.kind) {
      case NodeKind::Kernel:
        return perform_kernel(work, where);
      case NodeKind::Memcpy:
      case NodeKind::Memset:
      case NodeKind::Host:
      case NodeKind::ValueOp:
        return execute(work.operation, where);
      case NodeKind::WaitEvent:
        if (const Event* event = event_of(slot)) (void)event->token->wait();
        return hipSuccess;
      case NodeKind::MemFree:
        return work.memory == nullptr ? pool_free(work.freed) : hipSuccess;
      case NodeKind::MemAlloc:
      case NodeKind::Graph:
      case NodeKind::Empty:
      case NodeKind::EventRecord:
        return hipSuccess;
    }
    return hipErrorUnknown;
  }
};

/// The tokens of event nodes, in topological order: a wait sees the records of this launch that come before it.
hipError_t prepare_events(Launch& launch, Stream& stream) {
  for (const std::uint32_t slot : launch.state->event_slots) {
    const NodeWork& work = *launch.plan->works[slot];
    if (work.event == nullptr) continue;
    ihipEvent_t* event = nullptr;
    const hipError_t result = resolve(work.event, &event);
    if (result != hipSuccess) return result;
    const bool record = work.kind != NodeKind::WaitEvent;
    if (record) {
      event->last_stream_generation = stream.generation();
      event->last_stream = &stream;
    }
    Token token = record ? std::make_shared<Completion>() : nullptr;
    {
      const std::lock_guard lock(event->mutex);
      if (record) {
        event->recorded = token;
      } else {
        token = event->recorded;
      }
    }
    if (token) launch.events.push_back({slot, record, std::move(token)});
  }
  return hipSuccess;
}

hipError_t launch(Call& call, hipGraphExec_t handle, hipStream_t stream_handle, bool per_thread) {
  if (handle == nullptr) return hipErrorInvalidValue;
  const Exec* exec = find(handle);
  if (exec == nullptr) return hipErrorInvalidValue;
  Stream* stream = nullptr;
  const hipError_t resolved = resolve(call, stream_handle, per_thread, &stream);
  if (resolved != hipSuccess) return resolved;
  const std::shared_ptr<ExecState> state = exec->state;
  const std::lock_guard lock(state->mutex);
  if (state->has_memory) {
    for (const Work& work : state->plan->works) {
      if (work->kind != NodeKind::MemAlloc || !work->memory->live()) continue;
      if ((state->flags & hipfront::kInstantiateAutoFree) != 0) {
        work->memory->set_live(false);
      } else if (state->launched) {
        return hipErrorInvalidValue;
      }
    }
  }
  state->launched = true;
  auto run = std::make_shared<Launch>(state, stream->device());
  if (const hipError_t result = prepare_events(*run, *stream); result != hipSuccess) return result;
  if (state->has_memory) {
    for (const Work& work : state->plan->works) {
      if (work->memory != nullptr) work->memory->set_live(work->kind == NodeKind::MemAlloc);
    }
  }
  std::vector<Token> after;
  if (!switches().overlap && state->last_launch && !state->last_launch->done()) after.push_back(state->last_launch);
  // HIP does not capture launches: on a capturing stream this runs at once
  state->last_launch = stream->enqueue(
      [run = std::move(run)] {
        const hipError_t sticky = run->device->sticky.load(std::memory_order_acquire);
        if (sticky != hipSuccess) run->result.store(sticky);
        run_dag(run->state->dag, [&run](std::uint32_t slot) {
          jitter();
          run->run(slot);
        });
        return run->result.load();
      },
      std::move(after));
  return hipSuccess;
}

/// The quirk shared_node_ids: of nodes with one id only the first one runs.
void leave_out_shared_ids(const Graph& graph, ExecState& state) {
  std::vector<GraphNode*> order;
  topological_order(graph, &order);
  std::unordered_set<std::uint64_t> seen;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (!seen.insert(order[i]->id).second && state.top.nodes[i].kind != NodeKind::Graph)
      state.plan->disabled[state.top.nodes[i].slot] = 1;
}

hipError_t instantiate(hipGraph_t handle, unsigned long long flags, hipGraphExec_t* out) {
  auto state = std::make_shared<ExecState>();
  {
    const std::lock_guard lock(graph_mutex());
    Graph* graph = find(handle);
    if (graph == nullptr) return hipErrorInvalidValue;
    if (quirks().empty_graph && graph->count == 0) fatal("this runtime crashes on empty graphs");
    const bool memory = std::any_of(graph->nodes.begin(), graph->nodes.end(), [](const GraphNode* node) {
      return node != nullptr && (node->kind() == NodeKind::MemAlloc || node->kind() == NodeKind::MemFree);
    });
    if (graph->instantiated && memory) return hipErrorNotSupported;
    state->plan = std::make_shared<Plan>();
    state->plan->works.reserve(graph->count);
    state->device = graph->device;
    state->flags = flags;
    graph_counters().exec_states.fetch_add(1, std::memory_order_relaxed);
    if (!Builder(*state).build(*graph)) {
      state->argument_bytes = 0;
      return hipErrorInvalidValue;
    }
    if (!take_exec_memory(*state)) {
      state->argument_bytes = 0;
      return hipErrorOutOfMemory;
    }
    graph->instantiated = true;
    state->plan->disabled.resize(state->plan->works.size());
    if (quirks().shared_node_ids) leave_out_shared_ids(*graph, *state);
    state->user_objects = retain_user_objects(*graph);
  }
  if (quirks().exec_streams) state->stream = &make_private_stream(device(state->device));
  graph_counters().exec_argument_bytes.fetch_add(state->argument_bytes, std::memory_order_relaxed);
  *out = cpuhip::handle(execs().create(Exec{std::move(state)}));
  return hipSuccess;
}

bool known_flags(unsigned long long flags, bool with_params) {
  return flags == 0 || flags == hipfront::kInstantiateAutoFree || flags == hipfront::kInstantiateNodePriority ||
         (with_params && (flags == hipfront::kInstantiateUpload || flags == hipfront::kInstantiateDeviceLaunch));
}

hipError_t upload(Call& call, hipGraphExec_t exec, hipStream_t stream_handle) {
  if (find(exec) == nullptr) return hipErrorInvalidValue;
  Stream* stream = nullptr;
  return resolve(call, stream_handle, false, &stream);
}

/// What hipGraphExecUpdate finds wrong with one node.
struct UpdateFailure {
  GraphNode* node = nullptr;
  hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
};

hipGraphExecUpdateResult result_of(hipError_t status) {
  switch (status) {
    case hipSuccess:
      return hipGraphExecUpdateSuccess;
    case hipErrorInvalidDeviceFunction:
      return hipGraphExecUpdateErrorUnsupportedFunctionChange;
    case hipErrorInvalidValue:
    case hipErrorInvalidDevicePointer:
      return hipGraphExecUpdateErrorParametersChanged;
    default:
      return hipGraphExecUpdateErrorNotSupported;
  }
}

/// Updates a child graph's slots by position, as HIP does.
hipError_t update_child(ExecState& state, const ExecGraph& old_graph, const Graph& graph) {
  std::vector<GraphNode*> order;
  if (!topological_order(graph, &order) || order.size() != old_graph.nodes.size()) return hipErrorInvalidValue;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ExecNode& old_node = old_graph.nodes[i];
    if (order[i]->kind() != old_node.kind) return hipErrorInvalidValue;
    const hipError_t result = old_node.child
                                  ? update_child(state, *old_node.child, *order[i]->child)
                                  : set_exec_work(state, old_node.slot, shareable_work(*order[i]), WorkChange::Update);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

/// Both graphs by position; stops at the first difference that HIP sees, with the nodes before it updated.
UpdateFailure update(ExecState& state, const Graph& graph) {
  std::vector<GraphNode*> order;
  (void)topological_order(graph, &order);
  if (order.size() != state.top.nodes.size()) return {nullptr, hipGraphExecUpdateErrorTopologyChanged};
  for (std::size_t i = 0; i < order.size(); ++i) {
    GraphNode* const node = order[i];
    const ExecNode& old_node = state.top.nodes[i];
    if (node->kind() != old_node.kind) return {node, hipGraphExecUpdateErrorNodeTypeChanged};
    if (node->kind() != NodeKind::Host && node->kind() != NodeKind::Empty && graph.device != state.device) {
      return {node, hipGraphExecUpdateErrorUnsupportedFunctionChange};
    }
    if (node->kind() == NodeKind::Memcpy && !same_copy_class(*node->work, *state.plan->works[old_node.slot])) {
      return {node, hipGraphExecUpdateErrorParametersChanged};
    }
    if (node->dependencies.size() != old_node.dependency_count) return {node, hipGraphExecUpdateErrorTopologyChanged};
    const hipError_t result = old_node.child
                                  ? update_child(state, *old_node.child, *node->child)
                                  : set_exec_work(state, old_node.slot, shareable_work(*node), WorkChange::Update);
    if (result != hipSuccess) return {node, result_of(result)};
  }
  return {};
}

}  // namespace

ExecState::~ExecState() {
  graph_counters().exec_states.fetch_sub(1, std::memory_order_relaxed);
  graph_counters().exec_argument_bytes.fetch_sub(argument_bytes, std::memory_order_relaxed);
  cpuhip::device(device).give_untold_memory(device_bytes);
  release_exec_user_objects(user_objects);
  if (stream != nullptr) end_private_stream(*stream);
}

bool swallowed(hipError_t error) { return quirks().swallowed_errors && error != hipErrorInvalidValue; }

Plan& writable_plan(ExecState& state) {
  if (state.plan->in_flight.load(std::memory_order_acquire) != 0 && !switches().params_at_node) {
    auto copy = std::make_shared<Plan>();
    copy->works = state.plan->works;
    copy->disabled = state.plan->disabled;
    state.plan = std::move(copy);
  }
  return *state.plan;
}

/// Whether a function is not the current device's. AMD's 5.7.1, 6.4.3 and 7.2.4 look it up there for an update.
static bool of_another_device(const NodeWork& work) {
  const auto& kernel = std::get<KernelWork>(work.operation);
  return !is_stub(kernel.handle) && kernel.kernel->device != current_device().ordinal();
}

hipError_t set_exec_work(ExecState& state, std::uint32_t slot, Work work, WorkChange change) {
  const Work old_work = state.plan->works[slot];
  switch (work->kind) {
    case NodeKind::Empty:
    case NodeKind::Graph:
    case NodeKind::MemAlloc:
    case NodeKind::MemFree:
      return hipSuccess;  // nothing of these changes
    default:
      break;
  }
  if (change == WorkChange::Update && work->kind == NodeKind::Kernel && of_another_device(*work))
    return hipErrorInvalidDevice;
  const hipError_t valid = check_change(*old_work, *work, change);
  if (valid != hipSuccess) return swallowed(valid) ? hipSuccess : valid;
  if (quirks().host_copy_at_patch) copy_at_patch(*work);
  if (quirks().stale_packets && work->kind == NodeKind::Kernel && change == WorkChange::ExecNode) return hipSuccess;
  if (work->kind == NodeKind::Kernel) {
    if (work->event != old_work->event) {  // a launch's events are no parameters
      auto copy = std::make_shared<NodeWork>(*work);
      copy->event = old_work->event;
      work = std::move(copy);
    }
    state.argument_bytes += work->argument_bytes();
    graph_counters().exec_argument_bytes.fetch_add(work->argument_bytes(), std::memory_order_relaxed);
    take_argument_room(state, *work);
    if (quirks().late_kernargs) {
      t_unseen.push_back({state.weak_from_this(), slot, work});
      auto stale = std::make_shared<NodeWork>(*work);
      std::get<KernelWork>(stale->operation).args = std::get<KernelWork>(old_work->operation).args;
      work = std::move(stale);
    }
  }
  writable_plan(state).works[slot] = std::move(work);
  return hipSuccess;
}

void see_arguments() {
  for (Unseen& unseen : std::exchange(t_unseen, {})) {
    const std::shared_ptr<ExecState> state = unseen.state.lock();
    if (state == nullptr) continue;
    const std::lock_guard lock(state->mutex);
    writable_plan(*state).works[unseen.slot] = std::move(unseen.work);
  }
}

const ExecNode* find_in_exec(const ExecState& state, const GraphNode& node) {
  const auto& index = state.top.by_serial;
  const auto found = std::lower_bound(index.begin(), index.end(), std::pair{node.serial, std::uint32_t{0}});
  return found != index.end() && found->first == node.serial ? &state.top.nodes[found->second] : nullptr;
}

hipError_t set_exec_child(ExecState& state, const ExecNode& node, const Graph& graph) {
  std::vector<GraphNode*> order;
  if (node.child == nullptr || !topological_order(graph, &order)) return hipErrorInvalidValue;
  if (order.size() != node.child->nodes.size()) return hipErrorUnknown;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->kind() != node.child->nodes[i].kind) return hipErrorUnknown;
  }
  return update_child(state, *node.child, graph);
}

}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipGraphInstantiate(hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return api("hipGraphInstantiate", [&](Call&) {
    return exec == nullptr || graph == nullptr ? hipErrorInvalidValue : instantiate(graph, 0, exec);
  });
}

CPUHIP_EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* exec, hipGraph_t graph,
                                                      unsigned long long flags) {
  return api("hipGraphInstantiateWithFlags", [&](Call&) {
    if (exec == nullptr || graph == nullptr || !known_flags(flags, false)) return hipErrorInvalidValue;
    return instantiate(graph, flags, exec);
  });
}

CPUHIP_EXPORT hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph,
                                                       hipfront::InstantiateParams* params) {
  return api("hipGraphInstantiateWithParams", [&](Call& call) {
    if (exec == nullptr || graph == nullptr || params == nullptr) return hipErrorInvalidValue;
    params->result = 1;
    if (!known_flags(params->flags, true)) return hipErrorInvalidValue;
    const hipError_t result = instantiate(graph, params->flags, exec);
    if (result != hipSuccess) return result;
    params->result = 0;
    params->error_node = nullptr;
    return params->flags == hipfront::kInstantiateUpload ? upload(call, *exec, params->upload_stream) : hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  return api("hipGraphExecDestroy", [&](Call&) {
    Exec* found = find(exec);
    if (found == nullptr) return hipErrorInvalidValue;
    // launches in flight keep the state; user objects go with the last of them
    const std::shared_ptr<ExecState> state = std::move(found->state);
    execs().destroy(found);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return api("hipGraphLaunch", [&](Call& call) { return launch(call, exec, stream, false); });
}
CPUHIP_EXPORT hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream) {
  return api("hipGraphLaunch_spt", [&](Call& call) { return launch(call, exec, stream, true); });
}

CPUHIP_EXPORT hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream) {
  return api("hipGraphUpload", [&](Call& call) { return upload(call, exec, stream); });
}

CPUHIP_EXPORT hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long* flags) {
  return api("hipGraphExecGetFlags", [&](Call&) {
    const Exec* found = find(exec);
    if (found == nullptr || flags == nullptr) return hipErrorInvalidValue;
    *flags = found->state->flags;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                                            hipGraphExecUpdateResult* update_result) {
  return api("hipGraphExecUpdate", [&](Call&) {
    if (exec == nullptr || graph == nullptr || error_node == nullptr || update_result == nullptr) {
      return hipErrorInvalidValue;
    }
    const Exec* found = find(exec);
    if (found == nullptr) return hipErrorInvalidValue;
    const std::lock_guard graph_lock(graph_mutex());
    const Graph* from = find(graph);
    if (from == nullptr) return hipErrorInvalidValue;
    ExecState& state = *found->state;
    const std::lock_guard lock(state.mutex);
    const std::vector<Work> before = quirks().partial_update ? std::vector<Work>() : state.plan->works;
    const UpdateFailure failure = update(state, *from);
    *update_result = failure.result;
    if (failure.result == hipGraphExecUpdateSuccess) return hipSuccess;
    if (!quirks().partial_update) writable_plan(state).works = before;
    *error_node = handle(failure.node);
    return hipErrorGraphExecUpdateFailure;
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned enabled) {
  return api("hipGraphNodeSetEnabled", [&](Call&) {
    return with_exec_node(exec, node, [&](ExecState& state, const ExecNode& in_exec, GraphNode&) {
      if (!can_be_disabled(in_exec.kind)) return hipErrorInvalidValue;
      writable_plan(state).disabled[in_exec.slot] = enabled == 0;
      return hipSuccess;
    });
  });
}

CPUHIP_EXPORT hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned* enabled) {
  return api("hipGraphNodeGetEnabled", [&](Call&) {
    if (enabled == nullptr) return hipErrorInvalidValue;
    return with_exec_node(exec, node, [&](ExecState& state, const ExecNode& in_exec, GraphNode&) {
      if (!can_be_disabled(in_exec.kind)) return hipErrorInvalidValue;
      *enabled = state.plan->disabled[in_exec.slot] == 0;
      return hipSuccess;
    });
  });
}
