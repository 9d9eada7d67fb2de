// Handles of graphs, execs and nodes that the program has destroyed: every function that takes one, by the rows of
// hip_hooks.def, is called with one, made in each way that there is, and must answer as AMD's runtime does, which looks
// its handles up (CPUHIP_GONE=looked_up). Where AMD's does not look it works on freed memory: such a call is not
// made natively. Under the library a handle of its own is refused there too, for it could only crash.
//
// Handles are never used again here (CPUHIP_REUSE=never): what a used one stands for is the program's affair, unless it
// stands for something of the library's (Reused).
#include <dlfcn.h>

#include <tuple>
#include <type_traits>

#include "node_calls.h"
#include "shim/hip/hook_table.h"

using graphpool::MemoryOperation;

namespace captures {
namespace {

enum class Kind { kNone, kGraph, kExec, kNode };
constexpr const char* kNouns[] = {"", "graph", "executable graph", "graph node"};

/// A graph with its first node and an exec of it.
struct Handles {
  hipGraph_t graph = nullptr, parent = nullptr;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr;
  bool is_deferred = false;  ///< the library has made no graph of the runtime's for it
};

std::size_t live_graphs() {
  cpuhip_statistics_t now{};
  cpuhip_statistics(&now);
  return now.graphs;
}

/// What the tests' calls are given beside handles.
struct World {
  Stream stream;
  Buffer buffer;
  Event event;
  int sequences = 0;

  /// `number`: graphs of different numbers are different ones.
  void enqueue(int number) const {
    for (int bit = 0; bit < 11; ++bit)
      OK((number >> bit & 1) != 0 ? kernels().mix(stream, buffer.get(), kCount, 1)
                                  : kernels().join(stream, buffer.get(), buffer.get(), kCount));
  }
};

World& world() {
  static World* const instance = new World;
  return *instance;
}

constexpr int kSame = 1 << 10;  ///< the number of the graph that is made again and again

hipGraph_t captured(int number) {
  return capture(world().stream, [&] { world().enqueue(number); });
}

hipGraph_t built(int number) {
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipSuccess, hipGraphCreate(&graph, 0));
  hipGraphNode_t node = nullptr;
  for (int bit = 0; bit < 11; ++bit) {
    const hipMemsetParams params = fill_params(world().buffer.get(), 0, (number >> bit & 1) != 0 ? kCount : kCount / 2);
    const hipGraphNode_t before = node;
    EXPECT_EQ(hipSuccess, hipGraphAddMemsetNode(&node, graph, &before, bit == 0 ? 0 : 1, &params));
    if ((number >> bit & 1) != 0) {
      const hipGraphNode_t at = node;
      EXPECT_EQ(hipSuccess, hipGraphAddEmptyNode(&node, graph, &at, 1));
    }
  }
  return graph;
}

hipGraphNode_t node_of(hipGraph_t graph) {
  hipGraphNode_t node = nullptr;
  std::size_t count = 1;
  EXPECT_EQ(hipSuccess, hipGraphGetRootNodes(graph, &node, &count));
  return node;
}

enum class Origin { kCaptured, kCapturedAgain, kBuilt, kBuiltAgain, kCopied, kInside };
constexpr Origin kOrigins[] = {Origin::kCaptured,   Origin::kCapturedAgain, Origin::kBuilt,
                               Origin::kBuiltAgain, Origin::kCopied,        Origin::kInside};
constexpr const char* kOriginNames[] = {"captured",    "captured again", "built",
                                        "built again", "copied",         "inside a node"};

/// `with_node`: asking for a node makes a graph real that was captured.
Handles make(Origin origin, bool with_node) {
  Handles made;
  const std::size_t before = live_graphs();
  const int other = ++world().sequences % kSame;
  switch (origin) {
    case Origin::kCaptured:
      made.graph = captured(other);
      break;
    case Origin::kCapturedAgain:
      made.graph = captured(kSame);
      break;
    case Origin::kBuilt:
      made.graph = built(other);
      break;
    case Origin::kBuiltAgain:
      made.graph = built(kSame);
      break;
    case Origin::kCopied: {
      const hipGraph_t original = captured(kSame);
      EXPECT_EQ(hipSuccess, hipGraphClone(&made.graph, original));
      EXPECT_EQ(hipSuccess, hipGraphDestroy(original));
      break;
    }
    case Origin::kInside: {
      const hipGraph_t child = captured(kSame);
      hipGraphNode_t node = nullptr;
      EXPECT_EQ(hipSuccess, hipGraphCreate(&made.parent, 0));
      EXPECT_EQ(hipSuccess, hipGraphAddChildGraphNode(&node, made.parent, nullptr, 0, child));
      EXPECT_EQ(hipSuccess, hipGraphDestroy(child));
      EXPECT_EQ(hipSuccess, hipGraphInstantiate(&made.exec, made.parent, nullptr, nullptr, 0));
      EXPECT_EQ(hipSuccess, hipGraphChildGraphNodeGetGraph(node, &made.graph));
      break;
    }
  }
  made.is_deferred = under_library() && made.parent == nullptr && live_graphs() == before;
  if (made.exec == nullptr) {
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&made.exec, made.graph, nullptr, nullptr, 0));
  }
  if (with_node) made.node = node_of(made.graph);
  return made;
}

void destroy(const Handles& made) {
  EXPECT_EQ(hipSuccess, hipGraphExecDestroy(made.exec));
  EXPECT_EQ(hipSuccess, hipGraphDestroy(made.parent != nullptr ? made.parent : made.graph));
}

// --- calls ---

/// What a call gets: live handles but for one.
struct Arguments {
  const Handles& live;
  const Handles& dead;
  int position;  ///< of the dead one among the handles
  int next = 0;
  Kind kind = Kind::kNone;  ///< of the one at the position
  hipGraphNode_t node = nullptr;
  hipKernelNodeParams kernel{};
  hipMemsetParams fill = fill_params(world().buffer.get(), 1, kCount);
  hipMemcpy3DParms copy = copy_params(world().buffer.get(), world().buffer.get() + kCount / 2, 64);
  hipHostNodeParams host{[](void*) {}, nullptr};

  const Handles& handles(Kind of) {
    if (next++ != position) return live;
    kind = of;
    return dead;
  }
};

template <typename T>
constexpr Kind kind_of() {
  if (std::is_same_v<T, hipGraph_t>) return Kind::kGraph;
  if (std::is_same_v<T, hipGraphExec_t>) return Kind::kExec;
  if (std::is_same_v<T, hipGraphNode_t> || std::is_same_v<T, const hipGraphNode_t*>) return Kind::kNode;
  return Kind::kNone;
}

template <typename T>
T argument(Arguments& all) {
  if constexpr (std::is_same_v<T, hipGraph_t>) {
    return all.handles(Kind::kGraph).graph;
  } else if constexpr (std::is_same_v<T, hipGraphExec_t>) {
    return all.handles(Kind::kExec).exec;
  } else if constexpr (std::is_same_v<T, hipGraphNode_t>) {
    return all.handles(Kind::kNode).node;
  } else if constexpr (std::is_same_v<T, const hipGraphNode_t*>) {
    all.node = all.handles(Kind::kNode).node;
    return &all.node;
  } else if constexpr (std::is_same_v<T, const hipKernelNodeParams*>) {
    static int* at = world().buffer.get();
    static int count = kCount, constant = 1;
    static void* arguments[] = {&at, &count, &constant};
    all.kernel.func = reinterpret_cast<void*>(kernels().mix_function());
    all.kernel.gridDim = all.kernel.blockDim = dim3(1);
    all.kernel.kernelParams = arguments;
    return &all.kernel;
  } else if constexpr (std::is_same_v<T, const hipMemsetParams*>) {
    return &all.fill;
  } else if constexpr (std::is_same_v<T, const hipMemcpy3DParms*> || std::is_same_v<T, hipMemcpy3DParms*>) {
    return &all.copy;
  } else if constexpr (std::is_same_v<T, const hipHostNodeParams*>) {
    return &all.host;
  } else if constexpr (std::is_same_v<T, hipStream_t>) {
    return world().stream;
  } else if constexpr (std::is_same_v<T, hipEvent_t>) {
    return world().event;
  } else if constexpr (std::is_same_v<T, hipMemcpyKind>) {
    return hipMemcpyDeviceToDevice;
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    return 1;
  } else if constexpr (std::is_pointer_v<T> && !std::is_same_v<T, hipCtx_t>) {
    // Where something is written to, or read that says nothing: memory of the device, which is the host's too here.
    static void* const scratch = [] {
      void* at = nullptr;
      EXPECT_EQ(hipSuccess, hipHostMalloc(&at, 4096, 0));
      return at;
    }();
    std::memset(scratch, 0, 4096);
    return reinterpret_cast<T>(scratch);
  } else {
    return T{};
  }
}

struct Row {
  const char* name;
  std::vector<Kind> kinds;  ///< of its handles
  hipError_t (*call)(const char* name, Arguments& arguments);
};

template <typename Signature>
struct Caller {
  static constexpr int kHandles = 0;
};
template <typename... A>
struct Caller<hipError_t(A...)> {
  static constexpr int kHandles = (0 + ... + (kind_of<A>() != Kind::kNone ? 1 : 0));

  static std::vector<Kind> kinds() {
    std::vector<Kind> found;
    (void)(0 + ... + (kind_of<A>() == Kind::kNone ? 0 : (found.push_back(kind_of<A>()), 0)));
    return found;
  }
  static hipError_t call(const char* name, Arguments& arguments) {
    auto* const function = reinterpret_cast<hipError_t (*)(A...)>(dlsym(RTLD_DEFAULT, name));
    // In the order of the parameters.
    std::tuple<A...> values{argument<A>(arguments)...};
    return std::apply(function, values);
  }
};

template <typename Signature>
void add_row(const char* name, std::vector<Row>* rows) {
  // This program has no variables that a symbol could name, which is judged first.
  if (std::strstr(name, "Symbol") != nullptr) return;
  if constexpr (Caller<Signature>::kHandles != 0) {
    if (dlsym(RTLD_DEFAULT, name) != nullptr)
      rows->push_back({name, Caller<Signature>::kinds(), &Caller<Signature>::call});
  }
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> found;
#define HIP_HOOK(result, name, params, args, node, declared, effect) add_row<result params>(#name, &found);
#define HIP_NEXT(result, name, params, args, node, declared, effect) add_row<result params>(#name, &found);
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
    return found;
  }();
  return all;
}

/// AMD's runtime is the only one to say so of a graph that is destroyed twice.
hipError_t expected(const char* name) {
  return std::strcmp(name, "hipGraphDestroy") == 0 ? hipErrorIllegalState : hipErrorInvalidValue;
}

class Destroyed : public ::testing::TestWithParam<Origin> {};

TEST_P(Destroyed, handles_are_refused_by_every_function_that_takes_one) {
  const Origin origin = GetParam();
  destroy(make(Origin::kCapturedAgain, false));
  destroy(make(Origin::kBuiltAgain, false));
  int asked = 0, deferred_ones = 0;
  for (const Row& row : rows()) {
    for (std::size_t position = 0; position < row.kinds.size(); ++position) {
      const Kind kind = row.kinds[position];
      const Handles live = make(Origin::kCapturedAgain, true);
      Handles dead = make(origin, kind == Kind::kNode);
      const bool is_deferred = kind == Kind::kExec
                                   ? under_library() && dead.parent == nullptr
                                   : dead.is_deferred && (kind == Kind::kGraph || origin == Origin::kBuiltAgain);
      destroy(dead);
      const bool looked_up = cpuhip_looks_up(row.name, kNouns[static_cast<int>(kind)]) != 0;
      if (looked_up || is_deferred) {
        Arguments arguments{live, dead, static_cast<int>(position)};
        static_cast<void>(hipGetLastError());
        const hipError_t result = row.call(row.name, arguments);
        const hipError_t left = hipGetLastError();
        if (result != hipErrorNotSupported) {
          ++asked;
          deferred_ones += is_deferred ? 1 : 0;
          EXPECT_EQ(expected(row.name), result) << row.name << ", handle " << position;
          EXPECT_EQ(result, left) << row.name << ", handle " << position;
        }
      }
      // The call may have destroyed what is live, or begun a capture, where it should not have: then the test has
      // failed.
      static_cast<void>(hipGraphExecDestroy(live.exec));
      static_cast<void>(hipGraphDestroy(live.graph));
    }
  }
  EXPECT_GT(asked, 50);
  const bool makes_deferred = origin != Origin::kCaptured && origin != Origin::kBuilt && origin != Origin::kInside;
  if (compares_captures() && makes_deferred) {
    EXPECT_GT(deferred_ones, 30);
  }
}

/// A node alone, in a graph that lives.
TEST(DestroyedNode, is_refused_by_every_function_that_takes_one) {
  for (const Origin origin : {Origin::kCapturedAgain, Origin::kBuiltAgain, Origin::kCaptured, Origin::kBuilt})
    for (const Row& row : rows())
      for (std::size_t position = 0; position < row.kinds.size(); ++position) {
        if (row.kinds[position] != Kind::kNode || cpuhip_looks_up(row.name, kNouns[3]) == 0) continue;
        const Handles made = make(origin, true);
        OK(hipGraphDestroyNode(made.node));
        Arguments arguments{made, made, static_cast<int>(position)};
        static_cast<void>(hipGetLastError());
        const hipError_t result = row.call(row.name, arguments);
        const hipError_t left = hipGetLastError();
        if (result != hipErrorNotSupported) {
          EXPECT_EQ(hipErrorInvalidValue, result) << row.name << ", " << kOriginNames[static_cast<int>(origin)];
          EXPECT_EQ(result, left) << row.name;
        }
        destroy(made);
      }
}

/// AMD's execs have streams of their own: where the library makes one, the handle of the destroyed stream may be good
/// again before the program's launch is judged.
TEST(DestroyedStream, takes_no_launch) {
  for (int i = 0; i < 6; ++i) {
    const bool wanted = i % 2 == 0;
    const hipGraph_t graph = captured(kSame);
    hipGraphExec_t exec = nullptr;
    hipStream_t stream = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipStreamCreate(&stream));
    if (wanted) OK(hipGraphLaunch(exec, stream));
    OK(hipStreamDestroy(stream));
    EXPECT_EQ(hipErrorContextIsDestroyed, hipGraphLaunch(exec, stream)) << i;
    EXPECT_EQ(hipErrorContextIsDestroyed, hipGetLastError());
    OK(hipGraphLaunch(exec, world().stream));
    OK(hipStreamSynchronize(world().stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
}

/// Handles are used again at once (CPUHIP_REUSE=once), and the library makes objects of its own where natively nothing
/// is made: what the program has destroyed stays destroyed.
class Reused : public ::testing::Test {
 protected:
  /// What the program makes by itself, and destroys.
  struct Own {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;

    Own() { make(); }

   private:
    void make() {
      hipGraphNode_t node = nullptr;
      OK(hipGraphCreate(&graph, 0));
      OK(hipGraphAddEventRecordNode(&node, graph, nullptr, 0, world().event));  // nobody can compare it
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphExecDestroy(exec));
      OK(hipGraphDestroy(graph));
    }
  };

  static void expect(hipError_t wanted, hipError_t result) {
    EXPECT_EQ(wanted, result);
    EXPECT_EQ(wanted, hipGetLastError());
  }
  static hipGraph_t mixing(const Buffer& buffer) {
    return capture(world().stream, [&] { OK(kernels().mix(world().stream, buffer.get(), kCount, 3)); });
  }
};

TEST_F(Reused, graphs_and_execs_that_were_destroyed_stay_so) {
  const Buffer buffers[] = {Buffer{}, Buffer{}, Buffer{}};
  int values[3] = {};
  hipGraphExec_t exec = nullptr;
  hipGraph_t graphs[3];
  for (int i = 0; i < 3; ++i) graphs[i] = mixing(buffers[i]);
  OK(hipGraphInstantiate(&exec, graphs[0], nullptr, nullptr, 0));
  for (int i = 1; i < 3; ++i) {
    const Own own;
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult updated;
    OK(hipGraphExecUpdate(exec, graphs[i], &node, &updated));  // the library makes a graph and an exec
    static_cast<void>(hipGetLastError());
    expect(hipErrorInvalidValue, hipGraphLaunch(own.exec, world().stream));
    expect(hipErrorInvalidValue, hipGraphAddKernelNode(&node, own.graph, nullptr, 0, nullptr));
    if (under_library()) {  // AMD's runtime does not look it up
      expect(hipErrorInvalidValue, hipGraphExecDestroy(own.exec));
      expect(hipErrorInvalidValue, hipGraphInstantiate(&exec, own.graph, nullptr, nullptr, 0));
    }
    expect(hipErrorIllegalState, hipGraphDestroy(own.graph));
    OK(hipGraphLaunch(exec, world().stream));
    OK(hipStreamSynchronize(world().stream));
    values[i] = mixed(values[i], 3);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(values[i], buffers[i].value());
    OK(hipGraphDestroy(graphs[i]));
  }
  OK(hipGraphExecDestroy(exec));
}

TEST_F(Reused, streams_and_events_that_were_destroyed_stay_so) {
  const Buffer& buffer = world().buffer;
  const Stream& s = world().stream;
  OK(hipMemset(buffer.get(), 0, kCount * sizeof(int)));
  int value = 0;
  int* gate = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&gate), sizeof(int), 0));
  for (int i = 0; i < 3; ++i) {
    std::vector<hipStream_t> streams(4);
    std::vector<hipEvent_t> events(4);
    for (hipStream_t& stream : streams) OK(hipStreamCreate(&stream));
    for (hipEvent_t& event : events) OK(hipEventCreate(&event));
    void* memory = nullptr;
    OK(hipMalloc(&memory, 4096));
    for (const hipStream_t stream : streams) OK(hipStreamDestroy(stream));
    for (const hipEvent_t event : events) OK(hipEventDestroy(event));
    *gate = 0;
    OK(kernels().spin(s, gate));
    OK(kernels().mix(s, buffer.get(), kCount, 7));
    value = mixed(value, 7);
    std::atomic<bool> freed{false};
    std::thread opener([&] {
      static_cast<void>(call_waits(freed));
      *reinterpret_cast<volatile int*>(gate) = 1;
    });
    OK(hipFree(memory));  // waits: the library by streams and events of its own
    freed = true;
    opener.join();
    for (const hipStream_t stream : streams) {
      EXPECT_EQ(hipErrorContextIsDestroyed, kernels().mix(stream, buffer.get(), kCount, 8));
      EXPECT_EQ(hipErrorContextIsDestroyed, hipMemsetAsync(buffer.get(), 0, 4, stream));
      EXPECT_EQ(hipErrorContextIsDestroyed, hipEventRecord(world().event, stream));
      expect(hipErrorContextIsDestroyed, hipStreamDestroy(stream));
    }
    for (const hipEvent_t event : events) expect(hipErrorContextIsDestroyed, hipEventDestroy(event));
  }
  OK(hipStreamSynchronize(s));
  EXPECT_EQ(value, buffer.value());
  OK(hipHostFree(gate));
}

INSTANTIATE_TEST_SUITE_P(Origins, Destroyed, ::testing::ValuesIn(kOrigins), [](const auto& info) {
  std::string name = kOriginNames[static_cast<int>(info.param)];
  for (char& letter : name) letter = letter == ' ' ? '_' : letter;
  return name;
});

}  // namespace
}  // namespace captures
