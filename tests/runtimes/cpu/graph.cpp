// graph.cpp: graphs and user objects as objects: building, cloning, destroying, listing. The entries that take them
// apart are in graph_api.cpp (structure) and graph_nodes.cpp (what nodes do).
#include "graph.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "device.h"
#include "memory.h"

namespace cpuhip {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// The quirk shared_node_ids: a counter that each call reads when it begins and writes when it makes a node.
std::atomic<std::uint64_t> g_node_id{0};
thread_local std::uint64_t t_node_id = 0;

std::uint64_t take_node_id() {
  const std::uint64_t id = t_node_id++;
  g_node_id.store(t_node_id, std::memory_order_relaxed);
  return id;
}

void count_arguments(const NodeWork& work, bool added) {
  if (work.kind != NodeKind::Kernel) return;
  std::atomic<std::size_t>& counter = graph_counters().node_argument_bytes;
  if (added) {
    counter.fetch_add(work.argument_bytes(), std::memory_order_relaxed);
  } else {
    counter.fetch_sub(work.argument_bytes(), std::memory_order_relaxed);
  }
}

/// Takes `count` references away; appends the object when these were the last. One whose references the program
/// released more often than it owned is gone already.
void drop_references(UserObject* object, std::uint64_t count, std::vector<UserObject>* dead) {
  if (user_object_pool().state(object) != SlotState::Live) return;
  object->references -= std::min(object->references, count);
  if (object->references != 0) return;
  dead->push_back(*object);
  user_object_pool().destroy(object);
}

void destroy_contents(Graph& graph, bool answers, std::vector<UserObject>* dead) {
  for (GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    if (node->child != nullptr) destroy_contents(*node->child, answers, dead);
    count_arguments(*node->work, false);
    nodes().destroy(node);
  }
  for (const auto& [object, references] : graph.user_objects) drop_references(object, references, dead);
  graphs().destroy(&graph, answers);
}

}  // namespace

void read_node_id() {
  if (!quirks().shared_node_ids) return;
  t_node_id = g_node_id.load(std::memory_order_relaxed);
  // Some calls take as long as several others, so that the counter goes back.
  thread_local std::minstd_rand random;
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

std::mutex& graph_mutex() {
  static std::mutex* const mutex = new std::mutex;
  return *mutex;
}

HandlePool<Graph>& graphs() {
  static auto* const pool = new HandlePool<Graph>("graph");
  return *pool;
}
HandlePool<GraphNode>& nodes() {
  static auto* const pool = new HandlePool<GraphNode>("graph node");
  return *pool;
}
HandlePool<Exec>& execs() {
  static auto* const pool = new HandlePool<Exec>("executable graph");
  return *pool;
}
HandlePool<UserObject>& user_object_pool() {
  static auto* const pool = new HandlePool<UserObject>("user object");
  return *pool;
}

GraphCounters& graph_counters() {
  static GraphCounters* const counters = new GraphCounters;
  return *counters;
}

Quirks parse_quirks(std::string_view list) {
  struct Name {
    std::string_view name;
    bool Quirks::*quirk;
  };
  constexpr Name kNames[] = {{"external_waits", &Quirks::external_waits},
                             {"partial_update", &Quirks::partial_update},
                             {"fitting_calls", &Quirks::fitting_calls},
                             {"empty_graph", &Quirks::empty_graph},
                             {"swallowed_errors", &Quirks::swallowed_errors},
                             {"host_copy_at_patch", &Quirks::host_copy_at_patch},
                             {"stuck_invalidation", &Quirks::stuck_invalidation},
                             {"stale_packets", &Quirks::stale_packets},
                             {"lazy_peers", &Quirks::lazy_peers},
                             {"kept_arguments", &Quirks::kept_arguments},
                             {"exec_streams", &Quirks::exec_streams},
                             {"event_keeps_nodes", &Quirks::event_keeps_nodes},
                             {"shared_limits", &Quirks::shared_limits},
                             {"module_launches_at_once", &Quirks::module_launches_at_once},
                             {"late_kernargs", &Quirks::late_kernargs},
                             {"destroyed_streams_events", &Quirks::destroyed_streams_events},
                             {"unjoined_ends", &Quirks::unjoined_ends},
                             {"shared_node_ids", &Quirks::shared_node_ids},
                             {"stray_stubs", &Quirks::stray_stubs},
                             {"current_device_stubs", &Quirks::current_device_stubs}};
  Quirks quirks;
  for (const Name& name : kNames) quirks.*name.quirk = false;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    const auto* found =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& n) { return n.name == word; });
    if (found != std::end(kNames)) {
      quirks.*found->quirk = true;
    } else if (word != "none" && !word.empty()) {
      fatal(
          "CPUHIP_QUIRKS: '%.*s' is none of external_waits, partial_update, fitting_calls, empty_graph, "
          "swallowed_errors, host_copy_at_patch, stuck_invalidation, stale_packets, lazy_peers, kept_arguments, "
          "event_keeps_nodes, shared_limits, module_launches_at_once, late_kernargs, shared_node_ids, "
          "stray_stubs, current_device_stubs, exec_streams, destroyed_streams_events, unjoined_ends, none",
          static_cast<int>(word.size()), word.data());
    }
  }
  return quirks;
}

const Quirks& quirks() {
  static const Quirks* const read = [] {
    const char* text = std::getenv("CPUHIP_QUIRKS");
    return text == nullptr ? new Quirks : new Quirks(parse_quirks(text));
  }();
  return *read;
}

std::size_t NodeWork::argument_bytes() const {
  return kind == NodeKind::Kernel ? std::get<KernelWork>(operation).args.size() : 0;
}

int node_type_value(const NodeWork& work) {
  // up to 5.2 the numbers began at 1 and copies had types of their own; no alloc and free nodes
  if (config().version < 50300000) {
    if (work.kind == NodeKind::Memcpy) {
      switch (std::get<CopyWork>(work.operation).form) {
        case CopyWork::Form::FromSymbol:
          return 10;
        case CopyWork::Form::ToSymbol:
          return 11;
        case CopyWork::Form::OneD:
        case CopyWork::Form::Peer:
          return 9;
        case CopyWork::Form::ThreeD:
          return 2;
      }
    }
    return static_cast<int>(work.kind) + 1;
  }
  switch (work.kind) {
    case NodeKind::MemAlloc:
      return 10;
    case NodeKind::MemFree:
      return 11;
    case NodeKind::ValueOp:
      return 14;
    default:
      return static_cast<int>(work.kind);
  }
}

Graph* new_graph(int device) {
  Graph* graph = graphs().create(device);
  graph->number = next_serial();
  return graph;
}

void add_edge(GraphNode& from, GraphNode& to) {
  from.dependents.push_back(&to);
  to.dependencies.push_back(&from);
}

bool remove_edge(GraphNode& from, GraphNode& to) {
  const auto dependent = std::find(from.dependents.begin(), from.dependents.end(), &to);
  if (dependent == from.dependents.end()) return false;
  from.dependents.erase(dependent);
  to.dependencies.erase(std::find(to.dependencies.begin(), to.dependencies.end(), &from));
  return true;
}

hipError_t add_node(Graph& graph, std::shared_ptr<NodeWork> work, GraphNode* const* dependencies, std::size_t count,
                    GraphNode** out, Graph* child) {
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode* dependency = nodes().check(dependencies[i]);
    if (dependency == nullptr || dependency->graph != &graph) return hipErrorInvalidValue;
  }
  if (count > 1) {
    std::vector<GraphNode*> sorted(dependencies, dependencies + count);
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return hipErrorInvalidValue;
  }
  GraphNode* node = nodes().create();
  node->graph = &graph;
  node->position = graph.nodes.size();
  node->id = node->serial = next_serial();
  if (quirks().shared_node_ids) node->id = take_node_id();
  node->work = std::move(work);
  node->child = child;
  node->dependencies.reserve(count);
  for (std::size_t i = 0; i < count; ++i) add_edge(*dependencies[i], *node);
  count_arguments(*node->work, true);
  graph.nodes.push_back(node);
  ++graph.count;
  *out = node;
  return hipSuccess;
}

void remove_node(GraphNode& node) {
  Graph& graph = *node.graph;
  for (GraphNode* dependency : node.dependencies) std::erase(dependency->dependents, &node);
  for (GraphNode* dependent : node.dependents) std::erase(dependent->dependencies, &node);
  count_arguments(*node.work, false);
  graph.nodes[node.position] = nullptr;
  --graph.count;
  nodes().destroy(&node);
  if (graph.nodes.size() > 2 * graph.count + 16) {
    std::erase(graph.nodes, nullptr);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i]->position = i;
  }
}

void set_work(GraphNode& node, std::shared_ptr<NodeWork> work) {
  count_arguments(*node.work, false);
  count_arguments(*work, true);
  node.work = std::move(work);
  node.view.reset();
  node.exposed = false;
}

std::shared_ptr<NodeWork> shareable_work(const GraphNode& node) {
  return node.exposed ? std::make_shared<NodeWork>(*node.work) : node.work;
}

Graph* clone_graph(const Graph& graph) {
  Graph* clone = new_graph(graph.device);
  clone->cloned_from = graph.number;
  clone->captured = graph.captured;
  clone->nodes.reserve(graph.nodes.size());
  // positions are the same in both, holes included: that is how edges and hipGraphNodeFindInClone find their nodes
  for (const GraphNode* node : graph.nodes) {
    if (node == nullptr) {
      clone->nodes.push_back(nullptr);
      continue;
    }
    GraphNode* copy = nodes().create();
    copy->graph = clone;
    copy->position = node->position;
    copy->id = node->id;
    copy->serial = next_serial();
    copy->work = shareable_work(*node);
    if (node->child != nullptr) copy->child = clone_graph(*node->child);
    if (node->attributes) copy->attributes = std::make_unique<KernelAttributes>(*node->attributes);
    count_arguments(*copy->work, true);
    clone->nodes.push_back(copy);
  }
  clone->count = graph.count;
  for (const GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    GraphNode* copy = clone->nodes[node->position];
    copy->dependencies.reserve(node->dependencies.size());
    for (const GraphNode* other : node->dependencies) copy->dependencies.push_back(clone->nodes[other->position]);
    copy->dependents.reserve(node->dependents.size());
    for (const GraphNode* other : node->dependents) copy->dependents.push_back(clone->nodes[other->position]);
  }
  // a clone holds one reference of each object, however many its original holds
  for (const auto& [object, references] : graph.user_objects) {
    ++object->references;
    clone->user_objects.emplace_back(object, 1);
  }
  return clone;
}

bool topological_order(const Graph& graph, std::vector<GraphNode*>* order) {
  order->clear();
  order->reserve(graph.count);
  std::vector<std::size_t> pending(graph.nodes.size());
  for (GraphNode* node : graph.nodes) {
    if (node == nullptr) continue;
    pending[node->position] = node->dependencies.size();
    if (node->dependencies.empty()) order->push_back(node);
  }
  for (std::size_t i = 0; i < order->size(); ++i) {
    for (GraphNode* dependent : (*order)[i]->dependents) {
      if (--pending[dependent->position] == 0) order->push_back(dependent);
    }
  }
  return order->size() == graph.count;
}

std::vector<UserObject> destroy_graph(Graph& graph, bool destroy_answers) {
  std::vector<UserObject> dead;
  const std::lock_guard lock(graph_mutex());
  destroy_contents(graph, destroy_answers, &dead);
  return dead;
}

void release_user_objects(const std::vector<UserObject>& dead) {
  for (const UserObject& object : dead) object.destroy(object.pointer);
}

std::vector<UserObject*> retain_user_objects(const Graph& graph) {
  std::vector<UserObject*> retained;
  for (const auto& [object, references] : graph.user_objects) {
    ++object->references;
    retained.push_back(object);
  }
  return retained;
}

void release_exec_user_objects(const std::vector<UserObject*>& objects) {
  std::vector<UserObject> dead;
  {
    const std::lock_guard lock(graph_mutex());
    for (UserObject* object : objects) drop_references(object, 1, &dead);
  }
  release_user_objects(dead);
}

}  // namespace cpuhip

extern "C" __attribute__((visibility("default"))) void cpuhip_statistics(cpuhip_statistics_t* out) {
  const cpuhip::GraphCounters& counters = cpuhip::graph_counters();
  *out = {};
  out->graphs = cpuhip::graphs().live();
  out->nodes = cpuhip::nodes().live();
  out->execs = counters.exec_states;
  out->user_objects = cpuhip::user_object_pool().live();
  out->captures = counters.captures;
  out->node_argument_bytes = counters.node_argument_bytes;
  out->exec_argument_bytes = counters.exec_argument_bytes;
  out->graph_memory_bytes = counters.memory_bytes;
  out->launches = counters.launches;
  out->helper_threads = cpuhip::helper_thread_count();
  for (int i = 0; i < cpuhip::device_count(); ++i) out->device_bytes += cpuhip::device(i).used_bytes();
  out->streams = cpuhip::live_streams();
  out->events = cpuhip::live_events();
  out->waiting_calls = cpuhip::waiting_calls();
  cpuhip::count_vmm(&out->reservations, &out->physical_handles);
}

namespace {

using cpuhip::Call;

cpuhip::UserObject* find(hipUserObject_t object) { return cpuhip::user_object_pool().check(object); }
bool bad_count(unsigned count) { return count == 0 || count > 0x7fffffffu; }

}  // namespace

CPUHIP_EXPORT hipError_t hipUserObjectCreate(hipUserObject_t* object_out, void* ptr, hipHostFn_t destroy,
                                             unsigned initial_references, unsigned flags) {
  return cpuhip::api("hipUserObjectCreate", [&](Call&) {
    if (object_out == nullptr || destroy == nullptr || flags != hipfront::kUserObjectNoDestructorSync ||
        bad_count(initial_references)) {
      return hipErrorInvalidValue;
    }
    *object_out = reinterpret_cast<hipUserObject_t>(
        cpuhip::user_object_pool().create(cpuhip::UserObject{ptr, destroy, initial_references}));
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned count) {
  return cpuhip::api("hipUserObjectRetain", [&](Call&) {
    if (object == nullptr || bad_count(count)) return hipErrorInvalidValue;
    const std::lock_guard lock(cpuhip::graph_mutex());
    if (cpuhip::UserObject* found = find(object)) found->references += count;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned count) {
  return cpuhip::api("hipUserObjectRelease", [&](Call&) {
    if (object == nullptr || bad_count(count)) return hipErrorInvalidValue;
    std::vector<cpuhip::UserObject> dead;
    {
      const std::lock_guard lock(cpuhip::graph_mutex());
      cpuhip::UserObject* found = find(object);
      if (found == nullptr || found->references < count) return hipSuccess;  // as HIP: ignored
      cpuhip::drop_references(found, count, &dead);
    }
    cpuhip::release_user_objects(dead);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count,
                                                  unsigned flags) {
  return cpuhip::api("hipGraphRetainUserObject", [&](Call&) {
    if (graph == nullptr || object == nullptr || bad_count(count) ||
        (flags != 0 && flags != hipfront::kGraphUserObjectMove)) {
      return hipErrorInvalidValue;
    }
    const std::lock_guard lock(cpuhip::graph_mutex());
    cpuhip::Graph* owner = cpuhip::find(graph);
    cpuhip::UserObject* found = find(object);
    if (owner == nullptr || found == nullptr) return hipErrorInvalidValue;
    if (flags == 0) found->references += count;  // a move gives the caller's references to the graph
    const auto held = std::find_if(owner->user_objects.begin(), owner->user_objects.end(),
                                   [&](const auto& entry) { return entry.first == found; });
    if (held == owner->user_objects.end()) {
      owner->user_objects.emplace_back(found, count);
    } else {
      held->second += count;
    }
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned count) {
  return cpuhip::api("hipGraphReleaseUserObject", [&](Call&) {
    if (graph == nullptr || object == nullptr || bad_count(count)) return hipErrorInvalidValue;
    std::vector<cpuhip::UserObject> dead;
    {
      const std::lock_guard lock(cpuhip::graph_mutex());
      cpuhip::Graph* owner = cpuhip::find(graph);
      cpuhip::UserObject* found = find(object);
      if (owner == nullptr || found == nullptr) return hipErrorInvalidValue;
      const auto held = std::find_if(owner->user_objects.begin(), owner->user_objects.end(),
                                     [&](const auto& entry) { return entry.first == found; });
      if (held == owner->user_objects.end() || held->second < count) return hipSuccess;  // as HIP: ignored
      held->second -= count;
      if (held->second == 0) owner->user_objects.erase(held);
      cpuhip::drop_references(found, count, &dead);
    }
    cpuhip::release_user_objects(dead);
    return hipSuccess;
  });
}
