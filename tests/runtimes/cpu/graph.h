// graph.h: graphs, their nodes and executable graphs, as the runtime keeps them.
//
// A node's work is a NodeWork that nobody changes once it is set: an exec shares it with the node it was made from, a
// launch with the exec. Setting parameters makes a new one. The one exception is a kernel node whose parameters were
// asked for: HIP hands out pointers to the node's own copies of the arguments and writing through them changes the
// node, so from then on the node keeps its work to itself (`exposed`).
//
// Threads: everything below but Exec is guarded by graph_mutex(), which also guards captures (capture.cpp). Nobody
// calls out to the program (user-object destructors) or waits while holding it. An exec has a lock of its own.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/graph_abi.h"
#include "cpuhip_statistics.h"
#include "graph_run.h"
#include "handle_pool.h"
#include "operation.h"
#include "stream.h"

namespace cpuhip {

struct Graph;
class GraphMemory;
struct UserObject;

enum class NodeKind : std::uint8_t {
  Kernel,
  Memcpy,
  Memset,
  Host,
  Graph,
  Empty,
  WaitEvent,
  EventRecord,
  MemAlloc,
  MemFree,
  ValueOp
};

/// What a node does when it runs.
struct NodeWork {
  NodeKind kind = NodeKind::Empty;
  int device = 0;                       ///< current at the call, or the stream's when captured
  Operation operation;                  ///< Kernel, Memcpy, Memset, Host, ValueOp
  ihipEvent_t* event = nullptr;         ///< WaitEvent, EventRecord; Kernel: recorded when it is complete, or null
  std::shared_ptr<GraphMemory> memory;  ///< MemAlloc, and MemFree of memory of an alloc node
  void* freed = nullptr;                ///< MemFree
  std::shared_ptr<const hipMemcpy3DParms> copy;  ///< Memcpy made from such a description
  std::shared_ptr<const hipfront::WideMemcpy3D> driver_copy;
  void** kept_arguments = nullptr;  ///< Kernel: the program's own array, read when the node runs (quirk kept_arguments)

  std::size_t argument_bytes() const;
};
using Work = std::shared_ptr<const NodeWork>;

/// What hipGraphKernelNodeGetParams points to.
struct KernelView {
  std::vector<void*> params;
  void* extra[5] = {};
  std::size_t extra_bytes = 0;
};
struct KernelAttributes {
  int in_use = 0;
  hipAccessPolicyWindow window{};
  int cooperative = 0, priority = 0;
};

struct GraphNode {
  Graph* graph = nullptr;
  std::size_t position = 0;  ///< in graph->nodes
  std::uint64_t id = 0;      ///< a clone has its original's
  std::uint64_t serial = 0;  ///< nobody else's
  bool exposed = false;      ///< the program may hold pointers into the work
  bool manual = false;       ///< added by handle while its graph was being captured into
  std::shared_ptr<NodeWork> work;
  Graph* child = nullptr;  ///< NodeKind::Graph: owned
  std::vector<GraphNode*> dependencies, dependents;
  std::unique_ptr<KernelView> view;
  std::unique_ptr<KernelAttributes> attributes;

  NodeKind kind() const { return work->kind; }
};

struct Graph {
  explicit Graph(int device_ordinal) : device(device_ordinal) {}

  int device;
  std::uint64_t number = 0;       ///< for debug prints
  std::vector<GraphNode*> nodes;  ///< in the order they were added; null where one was destroyed
  std::size_t count = 0;          ///< of nodes that are not null
  std::uint64_t cloned_from = 0;  ///< the original's number, 0: none
  bool captured = false;
  bool instantiated = false;
  std::vector<std::pair<UserObject*, unsigned>> user_objects;  ///< and how many references this graph holds
};

struct UserObject {
  void* pointer = nullptr;
  hipHostFn_t destroy = nullptr;
  std::uint64_t references = 0;
};

/// Memory of an alloc node: one address for the life of its graph and of all execs made from it.
class GraphMemory {
 public:
  static hipError_t create(int device, std::size_t bytes, std::shared_ptr<GraphMemory>* out);
  ~GraphMemory();
  void* pointer() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  int device() const { return device_; }
  /// Between the launch of the alloc node and the launch of the free node, or the program's own free. In the order of
  /// these calls, not of what they enqueue: HIP refuses to launch an alloc node again by what was called before.
  bool live() const { return live_.load(std::memory_order_acquire); }
  void set_live(bool live);
  /// The free node of this memory exists already.
  bool freed_by_node = false;

 private:
  GraphMemory() = default;
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
  std::atomic<bool> live_{false};
};

/// One node of an exec, in topological order.
struct ExecGraph;
struct ExecNode {
  NodeKind kind;
  std::uint32_t slot = 0;  ///< into the plan; unused for a child graph
  std::uint32_t dependency_count = 0;
  std::uint64_t serial = 0;  ///< of the node it was made from
  std::unique_ptr<ExecGraph> child;
};
struct ExecGraph {
  int device = 0;
  std::vector<ExecNode> nodes;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_serial;  ///< sorted: original's serial -> index
};

/// What the nodes of an exec do; launches in flight share it, so it is copied before a change while any is.
struct Plan {
  std::vector<Work> works;
  std::vector<unsigned char> disabled;
  std::atomic<int> in_flight{0};
};

struct ExecState : std::enable_shared_from_this<ExecState> {
  ~ExecState();  ///< calls destructors of user objects: hold no lock

  std::mutex mutex;
  std::shared_ptr<Plan> plan;
  Token last_launch;
  std::size_t argument_bytes = 0;
  std::size_t argument_room = 0;   ///< for arguments of updates; then there is a new chunk
  std::size_t argument_chunk = 0;  ///< bytes of that; 0: this version keeps none
  std::size_t device_bytes = 0;    ///< of the device's memory that it holds
  bool launched = false;
  // constant after instantiate
  int device = 0;
  unsigned long long flags = 0;
  ExecGraph top;
  Dag dag;
  std::vector<std::uint32_t> event_slots;  ///< in topological order
  bool has_memory = false;
  std::vector<UserObject*> user_objects;
  Stream* stream = nullptr;  ///< quirk exec_streams
};
struct Exec {
  std::shared_ptr<ExecState> state;
};

std::mutex& graph_mutex();

/// What a call that may make nodes begins with.
void read_node_id();

HandlePool<Graph>& graphs();
HandlePool<GraphNode>& nodes();
HandlePool<Exec>& execs();
HandlePool<UserObject>& user_object_pool();

inline hipGraph_t handle(Graph* graph) { return reinterpret_cast<hipGraph_t>(graph); }
inline hipGraphNode_t handle(GraphNode* node) { return reinterpret_cast<hipGraphNode_t>(node); }
inline hipGraphExec_t handle(Exec* exec) { return reinterpret_cast<hipGraphExec_t>(exec); }
/// The object behind a handle, null for one that never was; ends the process for a destroyed one.
inline Graph* find(hipGraph_t graph) { return graphs().check(graph); }
inline GraphNode* find(hipGraphNode_t node) { return nodes().check(node); }
inline Exec* find(hipGraphExec_t exec) { return execs().check(exec); }

/// The value hipGraphNodeGetType answers, which depends on the version.
int node_type_value(const NodeWork& work);

// With graph_mutex() held:
Graph* new_graph(int device);
/// Appends a node after `dependencies`. hipErrorInvalidValue when one is not of this graph or named twice.
hipError_t add_node(Graph& graph, std::shared_ptr<NodeWork> work, GraphNode* const* dependencies, std::size_t count,
                    GraphNode** out, Graph* child = nullptr);
void add_edge(GraphNode& from, GraphNode& to);
bool remove_edge(GraphNode& from, GraphNode& to);
void remove_node(GraphNode& node);
void set_work(GraphNode& node, std::shared_ptr<NodeWork> work);
Graph* clone_graph(const Graph& graph);
/// Breadth first, as HIP lists nodes. False when there is a cycle.
bool topological_order(const Graph& graph, std::vector<GraphNode*>* order);
/// The work as an exec or a clone takes it: shared, or a copy when the program may write to it.
std::shared_ptr<NodeWork> shareable_work(const GraphNode& node);

/// Destroys a graph. Takes graph_mutex(); the returned user objects lost their last reference: call
/// release_user_objects with no lock held.
[[nodiscard]] std::vector<UserObject> destroy_graph(Graph& graph, bool destroy_answers = false);
void release_user_objects(const std::vector<UserObject>& dead);
/// Takes one reference for an exec (graph_mutex() held) and gives it back (not held).
std::vector<UserObject*> retain_user_objects(const Graph& graph);
void release_exec_user_objects(const std::vector<UserObject*>& objects);

/// Whether a stream captures into the graph (graph_mutex() held).
bool is_captured_into(const Graph& graph);

/// The memory of a graph that begins at this address, or null. Takes a lock of its own.
std::shared_ptr<GraphMemory> find_graph_memory(const void* pointer);

/// Defects of runtimes that CPUHIP_QUIRKS switches on; see README.md for what each does.
struct Quirks {
  bool external_waits = true;
  bool partial_update = true;
  bool fitting_calls = true;
  bool empty_graph = false;
  bool swallowed_errors = false;
  bool host_copy_at_patch = false;
  bool stuck_invalidation = false;
  bool stale_packets = false;
  bool current_device_stubs = false;
  bool exec_streams = false;
  bool lazy_peers = false;
  bool kept_arguments = false;
  bool event_keeps_nodes = false;
  bool destroyed_streams_events = false;
  bool unjoined_ends = false;
  bool shared_limits = false;
  bool module_launches_at_once = false;
  bool late_kernargs = false;
  bool shared_node_ids = false;
  bool stray_stubs = false;
};
const Quirks& quirks();
Quirks parse_quirks(std::string_view list);  ///< ends the process for an unknown name

/// Counters behind cpuhip_statistics.
struct GraphCounters {
  std::atomic<std::size_t> exec_states{0}, captures{0}, node_argument_bytes{0}, exec_argument_bytes{0}, memory_bytes{0},
      launches{0};
};
GraphCounters& graph_counters();

}  // namespace cpuhip
