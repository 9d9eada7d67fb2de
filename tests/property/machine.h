// machine.h: runs the steps of one random program with HIP, and knows which steps are well-defined where.
//
// Why: a difference between two runs means something only if the program's results are decided by the program. So the
// machine keeps, beside HIP's objects, a clock for each stream and for the host (what has certainly happened before
// what comes next there) and for each part of each buffer its last write and the reads since. allowed() refuses a step
// that would race, read what was never written, use what was destroyed or freed; such a step is left out. What it knows
// comes from the results of the calls, so it holds whatever HIP answers, as long as both runs get the same answers.
//
// Everything the program can see goes to the transcript: a line a step with error codes, bytes read back, answers. Not
// handles, addresses, capture ids, times (a query's success or not-ready is written only where it is decided).
//
// The host's threads hand over to each other, one step at a time, so the host is one party to ordering.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels.h"
#include "step.h"
#include "threads.h"

namespace property {

inline const hipStream_t kLegacyHandle = reinterpret_cast<hipStream_t>(1);  ///< hipStreamLegacy of newer headers

/// What the runtime, or a rule the library is given, promises or takes away. By name on the command line.
struct Features {
  bool exec_serial = false;      ///< launches of one exec are ordered by the runtime, but for those in captures
  bool params_at_node = false;   ///< an update may change a launch that has not run: never update an exec in flight
  bool free_waits = false;       ///< hipFree waits for the device, and the program relies on it
  bool copies_at_patch = false;  ///< setting a copy from host to host in an exec may run it
  bool handles_return = false;   ///< what is new may have the handle of what was destroyed
  bool stuck = false;            ///< an invalidated capture's events outlive its graph
  bool swallowed = false;        ///< a refused update may answer success
  bool keeps_arguments = false;  ///< of a kernel set in an exec: the program's own are read when it runs
  bool whole_buffers = false;    ///< graphs use whole buffers, through operands that can be seen
  bool no_mem_info = false;
  bool inject = false;          ///< there are `fail` steps
  bool frees_captured = false;  ///< memory may go that a graph not yet instantiated copies or fills
  bool armed = false;           ///< they make calls of the runtime fail
  bool inner_frees = false;     ///< memory is freed by addresses inside it
  bool exports = false;         ///< memory leaves the process
  bool gone = false;  ///< what was destroyed is used: the runtime answers errors, and its handles do not come back
  // What AMD's runtimes do not survive (tests/amd/defects.toml): a program must not do it.
  /// Use a stream of a capture that went wrong after its end, but to destroy it; begin on one before its end.
  bool lost_captures = false;
  bool mixed_captures = false;  ///< wait in a capture for an event of another
  bool kept_nodes = false;      ///< record an event before its capture's first node that knows nodes of an earlier one
  bool own_destroys = false;    ///< destroy a capturing stream in another thread than began
  bool captured_stay = false;   ///< free memory that a capture or a graph names
  bool orphans = false;         ///< ask for an event whose stream was destroyed
  bool legacy_records = false;  ///< record an event on hipStreamLegacy
  bool null_joins = false;      ///< let the null stream wait for an event of a capture
  bool own_captures = false;    ///< let a thread's own stream capture
  bool roots_at_once = false;   ///< rely on a graph's roots, but for the first, to come behind what the stream has
  bool home_instantiates = false;  ///< instantiate or update by what is of another device than the current one
  bool flown_destroys = false;     ///< destroy an exec that may still run
  bool no_legacy = false;          ///< name hipStreamLegacy
  bool captures_ended = false;     ///< destroy a stream that captures, or end a thread whose own stream does
  bool host_fills = false;         ///< fill pinned memory in a graph
  bool rows_at_home = false;       ///< put into a graph a 2D copy of nothing, or of another device's memory
  bool device_rows = false;        ///< put into a graph a 2D copy of memory that is managed or the host's
  bool waits_once = false;         ///< wait in a capture for a node that the stream comes right behind already
  bool null_order_alone = false;   ///< have memory in the null stream's order while a blocking stream captures
  bool left_events = false;    ///< record an event of a capture elsewhere, then destroy it before that capture's end
  bool forks_one_way = false;  ///< let a stream that joined a capture wait for another that did, or for itself

  bool weighed = false;  ///< weigh_captures() was called before the first program

  bool set(const std::string& name);
};

/// Captures graphs of many forks at the place at which programs capture, so often that the library has weighed what
/// that costs: from then on it leaves the place alone for a while.
void weigh_captures();

enum class Memory : std::int64_t { Malloc, ExtMalloc, Async, Pinned, Pageable, Managed, kCount };

using Clock = std::vector<std::uint32_t>;  ///< by agent: everything it did up to this number
struct Stamp {
  std::size_t agent = 0;
  std::uint32_t number = 0;
};

struct Buffer {
  bool live = false, exported = false;
  Memory memory{};
  int device = 0;
  std::uint64_t generation = 0;
  int* base = nullptr;
  std::int64_t part_ints = 0;
  struct Part {
    bool written = false;
    Stamp write;
    std::vector<Stamp> reads;
  } parts[kParts];

  std::size_t bytes() const { return static_cast<std::size_t>(part_ints) * kParts * sizeof(int); }
  bool on_host() const { return memory == Memory::Pinned || memory == Memory::Pageable; }
};

struct Access {
  std::int64_t buffer = 0;
  std::uint64_t generation = 0;
  std::int64_t first = 0, parts = 0;
  bool write = false;
  bool whole = false;  ///< writes every byte
};

struct Node {
  std::optional<Work> work;  ///< none: a child graph, or a node that was destroyed
  std::vector<Access> accesses;
  std::vector<int> after;
  int device = 0;
  hipGraphNode_t handle = nullptr;  ///< null while the program has not asked
  bool enabled = true;
  std::uint64_t module = 0;  ///< the generation of the one whose kernel it is; 0: one that stays
  std::vector<Node> inner;   ///< of a child graph: its nodes as they were when it was added
};

struct Capture {
  std::uint64_t number = 0;
  int origin = -1;  ///< the stream it began on; -1: not known
  int thread = 0, device = 0;
  unsigned long long id = 0;
  std::uint64_t begun = 0;  ///< in the order of generations; 0: not known
  std::vector<Node> nodes;
  int own_of = -1;        ///< it began on this thread's own stream; -1: on another
  bool doubtful = false;  ///< what it holds is not known for sure: its graph is never launched
};

struct Stream {
  hipStream_t handle = nullptr;
  bool live = false, blocking = true;
  int device = 0;
  std::size_t agent = 0;
  std::shared_ptr<Capture> capture;
  std::vector<int> tail;
  bool stale = false;  ///< a capture it began ended as invalidated: it is not to capture, or be ended, again
  bool lost = false;   ///< its capture went wrong and was ended: it can only be destroyed
};

struct Event {
  hipEvent_t handle = nullptr;
  bool live = false, recorded = false;
  bool dangling = false;  ///< it may stand for nodes of a graph that is gone
  bool foreign = false;   ///< it may be taken for one of a capture, and stand for nodes of another, which may be gone
  std::shared_ptr<const Capture> noted;  ///< the capture it was last recorded in; null: in none yet
  int device = 0;
  Clock clock;
  std::uint64_t captured = 0;                        ///< number of the capture it was last recorded in
  int recorded_on = -1;                              ///< there: the stream
  std::vector<std::shared_ptr<const Capture>> left;  ///< it was recorded in these, then on another stream
  std::vector<int> tail;
  bool had_nodes = false;  ///< it has been recorded behind nodes of a capture
  bool orphan = false;     ///< the stream it was recorded on is gone
  std::size_t agent = 0;   ///< of that stream
};

struct Graph {
  hipGraph_t handle = nullptr;
  bool live = false, known = true, by_hand = false;
  int device = 0;
  std::uint64_t generation = 0;
  std::uint64_t begun = 0;  ///< when its capture began, or, of another, its generation
  std::vector<Node> nodes;
};

struct Exec {
  hipGraphExec_t handle = nullptr;
  bool live = false, known = true;
  int device = 0;
  int graph = -1;  ///< made of this graph, of that generation
  std::uint64_t graph_generation = 0;
  std::vector<Node> nodes;
  std::vector<Stamp> launches;
  Clock last_launch;
};

/// Code that comes and goes.
struct Module {
  hipModule_t handle = nullptr;
  bool live = false;
  int device = 0;
  std::uint64_t generation = 0;
  std::array<hipFunction_t, std::size(kOfModules)> functions{};
};

struct Thread {
  int device = 0;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
};

class Machine {
 public:
  Machine(const Kernels& kernels, const Features& features, Threads& threads, std::string* transcript);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool allowed(const Step& step);
  void run(const Step& step);
  /// Reads back everything and destroys what is left.
  void finish();

  // For the generator.
  int devices() const { return kernels_.devices(); }
  const Features& features() const { return features_; }
  Stream& stream(std::int64_t number, int thread);
  const Stream& stream_slot(int slot) const { return streams_[static_cast<std::size_t>(slot)]; }
  const Event& event(int slot) const { return events_[static_cast<std::size_t>(slot)]; }
  const Buffer& buffer(std::int64_t slot) const { return buffers_[static_cast<std::size_t>(slot)]; }
  const Graph& graph(int slot) const { return graphs_[static_cast<std::size_t>(slot)]; }
  const Exec& exec(int slot) const { return execs_[static_cast<std::size_t>(slot)]; }
  const Module& module(std::int64_t slot) const { return modules_[static_cast<std::size_t>(slot)]; }
  const Thread& thread(int number) const { return thread_state_[static_cast<std::size_t>(number)]; }
  bool capturing() const { return open_captures_ > 0; }
  /// Why launching the exec on the stream is not allowed now: a part never written (its buffer and number), or work it
  /// would race with (the agent).
  struct Obstacle {
    bool unwritten = false, race = false;
    std::int64_t buffer = 0, part = 0;
    std::size_t agent = 0;
  };
  bool launchable(const Exec& exec, Stream& on, Obstacle* obstacle);
  bool ready(const std::vector<Access>& accesses, const Clock& clock, Obstacle* obstacle) const;
  Clock clock_of_next(Stream& stream) const;
  std::vector<Access> accesses(const Work& work) const;
  int stream_of_agent(std::size_t agent) const;  ///< a stream slot; -1: none
  std::vector<Access> graph_accesses(const std::vector<Node>& nodes) const;

 private:
  struct Agent {
    int device = 0;
  };
  using Accesses = std::vector<Access>;

  std::size_t add_agent(int device);
  void joined(Clock* clock, const Clock& other) const;
  static bool covers(const Clock& clock, const Stamp& stamp);
  Clock& clock_of(const Stream& stream) { return clocks_[stream.agent]; }
  Stamp enqueue(Stream& stream);  ///< one more piece of work of the stream
  void apply(const Accesses& accesses, const Stamp& stamp);
  void host_waits(const Clock& clock) { joined(&host_, clock); }
  bool host_covers_device(int device) const;
  bool host_covers(const Buffer& buffer) const;

  bool fits(const Work& work, int device) const;
  bool live(const Accesses& accesses) const;
  bool modules_live(const std::vector<Node>& nodes) const;
  bool devices_certain(const std::vector<Node>& nodes) const;
  bool names_dead_module(const Step& step) const;
  bool captured(std::int64_t buffer) const;
  bool fills_host(const Step& step);
  bool survived(const Step& step);
  bool waits_again(const Step& step);
  bool copies_rows_away(const Step& step);
  bool copies_other_rows(const Step& step);
  bool forks_back(const Step& step);
  bool is_open(const Capture* capture) const;
  bool in_null_order(const Step& step);
  bool free_is_ordered(const Buffer& target, Stream& on, bool in_order) const;
  std::uint64_t module_of(const Work& work) const { return work.module() < 0 ? 0 : module(work.module()).generation; }
  bool nodes_ordered(const std::vector<Node>& nodes) const;
  static int roots(const std::vector<Node>& nodes);
  bool in_flight(const Exec& exec) const;
  Accesses host_copies(const std::vector<Node>& nodes) const;
  bool may_copy_now(const Accesses& copies) const;
  void copied_or_not(const Accesses& copies);
  static bool node_in(const std::vector<Node>& nodes, std::int64_t node);
  static void take_out(std::vector<Node>* nodes, std::int64_t node);
  bool exec_node_known(const Exec& exec, std::int64_t node) const;

  hipError_t issue(const Work& work, Stream& stream, std::int64_t number);
  hipError_t node_add(const Work& work, int device, hipGraph_t graph, const std::vector<hipGraphNode_t>& after,
                      hipGraphNode_t* node);
  void* function_of(const Work& work, int device) const;
  hipFunction_t loaded_function(const Work& work, int device) const;
  hipError_t node_edit(hipGraphNode_t node, std::int64_t value, hipGraphExec_t exec);
  hipError_t node_change(const Work& work, int device, hipGraphNode_t node, hipGraphExec_t exec);
  template <typename Body>
  hipError_t with_kernel(const Work& work, Body&& body);
  int* address(std::int64_t buffer, std::int64_t first) const;
  hipMemcpyKind copy_kind(const Work& work) const;
  std::size_t count_of(const Work& work) const;

  void write(const std::string& line);
  void on(const Step& step, const std::function<void()>& body);
  std::string perform(const Step& step);
  std::string bad_call(const Step& step);
  std::string buffer_id(const Buffer& of, std::int64_t offset);
  std::string do_work(const Step& step);
  std::string do_allocate(const Step& step);
  std::string do_release(const Step& step);
  std::string do_release_inside(const Step& step);
  void released(Buffer& target);
  std::string do_module(const Step& step);
  std::string do_use_gone(const Step& step);
  std::string do_momentary(const Step& step);
  std::string do_wait(const Step& step);
  std::string do_end(const Step& step);
  void lose_capture(const Capture* capture, hipError_t result, const Stream& origin);
  std::string end_own(int thread, std::int64_t device);
  std::string do_list(const Step& step);
  std::string do_values(const Step& step);
  std::string do_child(const Step& step);
  std::string refresh_captures();
  bool ask_streams(const Step& step, std::string* refused);
  void doubt_thread_captures();
  void leave_capture(const Capture* capture);
  std::string contents(const Buffer& buffer, std::int64_t first, std::int64_t parts, const int* bytes) const;

  const Kernels& kernels_;
  const Features features_;
  Threads& threads_;
  std::string& transcript_;
  std::array<Stream, kStreams> streams_;
  std::vector<Stream> null_streams_;                          ///< by device
  std::array<std::vector<Stream>, kThreads> thread_streams_;  ///< by thread and device
  std::array<Event, kEvents> events_;
  std::array<Buffer, kBuffers> buffers_;
  std::array<Graph, kGraphs> graphs_;
  std::array<Exec, kExecs> execs_;
  std::array<Module, kModules> modules_;
  std::array<Thread, kThreads> thread_state_;
  std::vector<hipGraph_t> gone_graphs_;  ///< destroyed by the program
  std::vector<hipGraphExec_t> gone_execs_;
  std::vector<hipGraphNode_t> gone_nodes_;
  std::array<bool, Work::kCount> limited_{};   ///< whether an attribute of the kernel was set
  std::array<bool, kThreads> own_captured_{};  ///< the thread's own stream may have taken part in a capture
  std::array<bool, kThreads> own_stuck_{};     ///< it does still, and nobody can end that
  std::vector<Agent> agents_;
  std::vector<Clock> clocks_;  ///< by agent
  Clock host_;
  std::vector<Stamp> stream_frees_;
  std::map<unsigned, std::uint64_t> buffer_ids_;  ///< generations of allocations by what the runtime tells them by
  std::uint64_t generations_ = 0, captures_ = 0;
  std::uint64_t last_free_ = 0;  ///< in the order of generations
  int open_captures_ = 0;
  int acting_device_ = 0;    ///< the current one of the thread whose step it is
  bool suspicious_ = false;  ///< there has been a doubtful capture
  std::uint64_t steps_ = 0;
};

}  // namespace property
