// Graphs built by node calls: structure, parameters, clones, user objects, what is counted.
#include "graph_support.h"

namespace graph_test {
namespace {

class GraphTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = statistics();
    ASSERT_HIP(hipGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    if (graph_ != nullptr) {
      EXPECT_HIP(hipGraphDestroy(graph_));
    }
    (void)hipGetLastError();
    EXPECT_EQ(before_.graphs, statistics().graphs);
    EXPECT_EQ(before_.nodes, statistics().nodes);
    EXPECT_EQ(before_.user_objects, statistics().user_objects);
  }

  hipGraphNode_t empty(std::vector<hipGraphNode_t> after = {}) {
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphAddEmptyNode(&node, graph_, after.data(), after.size()));
    return node;
  }

  hipGraph_t graph_ = nullptr;
  cpuhip_statistics_t before_;
};

using Nodes = std::vector<hipGraphNode_t>;

Nodes dependencies(hipGraphNode_t node) {
  std::size_t count = 0;
  EXPECT_HIP(hipGraphNodeGetDependencies(node, nullptr, &count));
  Nodes out(count);
  if (count > 0) {
    EXPECT_HIP(hipGraphNodeGetDependencies(node, out.data(), &count));
  }
  return out;
}
Nodes dependents(hipGraphNode_t node) {
  std::size_t count = 0;
  EXPECT_HIP(hipGraphNodeGetDependentNodes(node, nullptr, &count));
  Nodes out(count);
  if (count > 0) {
    EXPECT_HIP(hipGraphNodeGetDependentNodes(node, out.data(), &count));
  }
  return out;
}
int type_of(hipGraphNode_t node) {
  hipGraphNodeType type;
  EXPECT_HIP(hipGraphNodeGetType(node, &type));
  return static_cast<int>(type);
}

TEST_F(GraphTest, CreateIsChecked) {
  hipGraph_t other = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphCreate(nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphCreate(&other, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphDestroy(nullptr));
}

TEST_F(GraphTest, ListsNodesBreadthFirst) {
  // added depth first: a - b - c, a - d - e
  const auto a = empty(), b = empty({a}), c = empty({b}), d = empty({a}), e = empty({d});
  EXPECT_EQ((Nodes{a, b, d, c, e}), nodes_of(graph_));
  EXPECT_EQ((Nodes{b, d}), dependents(a));
  EXPECT_EQ((Nodes{d}), dependencies(e));
  std::size_t count = 0;
  EXPECT_HIP(hipGraphGetRootNodes(graph_, nullptr, &count));
  EXPECT_EQ(1u, count);
  Nodes from(4), to(4);
  count = 4;
  EXPECT_HIP(hipGraphGetEdges(graph_, from.data(), to.data(), &count));
  EXPECT_EQ((Nodes{a, a, b, d}), from);
  EXPECT_EQ((Nodes{b, d, c, e}), to);
}

TEST_F(GraphTest, ListsAreCutAndFilledUp) {
  const auto a = empty(), b = empty();
  Nodes list(1);
  std::size_t count = 1;
  EXPECT_HIP(hipGraphGetNodes(graph_, list.data(), &count));
  EXPECT_EQ(1u, count);
  EXPECT_EQ(a, list[0]);
  list.assign(4, reinterpret_cast<hipGraphNode_t>(1));
  count = 4;
  EXPECT_HIP(hipGraphGetNodes(graph_, list.data(), &count));
  EXPECT_EQ(2u, count);
  EXPECT_EQ((Nodes{a, b, nullptr, nullptr}), list);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetNodes(graph_, list.data(), nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetNodes(nullptr, list.data(), &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetEdges(graph_, list.data(), nullptr, &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetRootNodes(nullptr, nullptr, &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetDependencies(nullptr, nullptr, &count));
}

TEST_F(GraphTest, DependenciesAreChecked) {
  hipGraph_t other = nullptr;
  ASSERT_HIP(hipGraphCreate(&other, 0));
  hipGraphNode_t foreign = nullptr, node = nullptr;
  ASSERT_HIP(hipGraphAddEmptyNode(&foreign, other, nullptr, 0));
  const auto a = empty(), b = empty();
  const Nodes twice{a, a};
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEmptyNode(&node, graph_, &foreign, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEmptyNode(&node, graph_, twice.data(), 2));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEmptyNode(&node, graph_, nullptr, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEmptyNode(nullptr, graph_, nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEmptyNode(&node, nullptr, nullptr, 0));
  EXPECT_EQ(2u, nodes_of(graph_).size());

  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddDependencies(graph_, &a, &foreign, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddDependencies(graph_, &a, &a, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddDependencies(graph_, nullptr, nullptr, 1));
  EXPECT_HIP(hipGraphAddDependencies(graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphAddDependencies(graph_, &a, &b, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddDependencies(graph_, &a, &b, 1));
  EXPECT_EQ(1u, edge_count(graph_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphRemoveDependencies(graph_, &b, &a, 1));
  EXPECT_HIP(hipGraphRemoveDependencies(graph_, &a, &b, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphRemoveDependencies(graph_, &a, &b, 1));
  EXPECT_EQ(0u, edge_count(graph_));
  EXPECT_HIP(hipGraphDestroy(other));
}

TEST_F(GraphTest, ACycleCannotBeListedOrInstantiated) {
  const auto a = empty(), b = empty({a});
  EXPECT_HIP(hipGraphAddDependencies(graph_, &b, &a, 1));
  std::size_t count = 0;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetNodes(graph_, nullptr, &count));
  hipGraphExec_t exec = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_EQ(before_.execs, statistics().execs);
}

TEST_F(GraphTest, DestroyedNodesLeaveTheirNeighbours) {
  Nodes nodes{empty()};
  for (int i = 0; i < 99; ++i) nodes.push_back(empty({nodes.back()}));
  for (int i = 1; i < 99; ++i) EXPECT_HIP(hipGraphDestroyNode(nodes[static_cast<std::size_t>(i)]));
  EXPECT_EQ((Nodes{nodes.front(), nodes.back()}), nodes_of(graph_));
  EXPECT_EQ(0u, edge_count(graph_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphDestroyNode(nullptr));
}

TEST_F(GraphTest, NodeTypesFollowTheVersion) {
  Buffer buffer(64);
  hipGraphNode_t copy = nullptr, fill = nullptr, host = nullptr, child = nullptr, wait = nullptr, record = nullptr,
                 box = nullptr;
  TestEvent event;
  std::atomic<int> calls{0};
  const hipHostNodeParams call{count_up, &calls};
  hipMemsetParams fill_params = {};
  fill_params.dst = buffer.data();
  fill_params.elementSize = 1;
  fill_params.width = 8;
  fill_params.height = 1;
  hipMemcpy3DParms box_params = {};
  box_params.srcPtr = {buffer.data(), 8, 8, 2};
  box_params.dstPtr = {buffer.data() + 32, 8, 8, 2};
  box_params.extent = {8, 2, 1};
  box_params.kind = hipMemcpyDeviceToDevice;
  hipGraph_t inner = nullptr;
  ASSERT_HIP(hipGraphCreate(&inner, 0));
  EXPECT_HIP(
      hipGraphAddMemcpyNode1D(&copy, graph_, nullptr, 0, buffer.data() + 8, buffer.data(), 8, hipMemcpyDeviceToDevice));
  EXPECT_HIP(hipGraphAddMemcpyNode(&box, graph_, nullptr, 0, &box_params));
  EXPECT_HIP(hipGraphAddMemsetNode(&fill, graph_, nullptr, 0, &fill_params));
  EXPECT_HIP(hipGraphAddHostNode(&host, graph_, nullptr, 0, &call));
  EXPECT_HIP(hipGraphAddChildGraphNode(&child, graph_, nullptr, 0, inner));
  EXPECT_HIP(hipGraphAddEventWaitNode(&wait, graph_, nullptr, 0, event));
  EXPECT_HIP(hipGraphAddEventRecordNode(&record, graph_, nullptr, 0, event));
  EXPECT_HIP(hipGraphDestroy(inner));
  const bool first_numbering = version() < 50300000;
  EXPECT_EQ(first_numbering ? 9 : 1, type_of(copy));
  EXPECT_EQ(first_numbering ? 2 : 1, type_of(box));
  EXPECT_EQ(first_numbering ? 3 : 2, type_of(fill));
  EXPECT_EQ(first_numbering ? 4 : 3, type_of(host));
  EXPECT_EQ(first_numbering ? 5 : 4, type_of(child));
  EXPECT_EQ(first_numbering ? 6 : 5, type_of(empty()));
  EXPECT_EQ(first_numbering ? 7 : 6, type_of(wait));
  EXPECT_EQ(first_numbering ? 8 : 7, type_of(record));
  hipGraphNodeType type;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetType(nullptr, &type));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetType(copy, nullptr));
}

TEST_F(GraphTest, CopiesAreChecked) {
  Buffer buffer(64);
  hipGraphNode_t node = nullptr;
  unsigned char host[16] = {};
  const auto add = [&](void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
    return hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, dst, src, bytes, kind);
  };
  EXPECT_EQ(hipErrorInvalidValue, add(buffer.data(), buffer.data() + 8, 0, hipMemcpyDeviceToDevice));
  EXPECT_EQ(hipErrorInvalidValue, add(nullptr, buffer.data(), 8, hipMemcpyDeviceToDevice));
  EXPECT_EQ(hipErrorInvalidValue, add(buffer.data(), host, 8, hipMemcpyDeviceToDevice));
  EXPECT_EQ(hipErrorInvalidValue, add(host, buffer.data(), 8, hipMemcpyHostToDevice));
  EXPECT_EQ(hipErrorInvalidValue, add(buffer.data() + 60, buffer.data(), 8, hipMemcpyDeviceToDevice));
  EXPECT_HIP(add(buffer.data(), host, 8, hipMemcpyHostToDevice));
  hipMemcpy3DParms params = {};
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddMemcpyNode(&node, graph_, nullptr, 0, &params));
  params.srcPtr = {buffer.data(), 4, 8, 1};
  params.dstPtr = {buffer.data(), 8, 8, 1};
  EXPECT_EQ(hipErrorInvalidPitchValue, hipGraphAddMemcpyNode(&node, graph_, nullptr, 0, &params));
  params.srcPtr.pitch = 8;
  params.extent = {9, 1, 1};
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddMemcpyNode(&node, graph_, nullptr, 0, &params));
  EXPECT_EQ(1u, nodes_of(graph_).size());
}

TEST_F(GraphTest, FillsAreChecked) {
  Buffer buffer(64);
  hipGraphNode_t node = nullptr;
  hipMemsetParams params = {};
  params.dst = buffer.data();
  params.elementSize = 4;
  params.width = 4;
  params.height = 1;
  const auto add = [&](auto change) {
    hipMemsetParams changed = params;
    change(changed);
    return hipGraphAddMemsetNode(&node, graph_, nullptr, 0, &changed);
  };
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.width = 0; }));
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.height = 0; }));
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.elementSize = 3; }));
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.width = 17; }));
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.dst = nullptr; }));
  EXPECT_EQ(hipErrorInvalidValue, add([](hipMemsetParams& p) { p.height = 2, p.pitch = 15; }));
  EXPECT_HIP(add([](hipMemsetParams& p) { p.height = 2, p.pitch = 32; }));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddMemsetNode(&node, graph_, nullptr, 0, nullptr));
}

TEST_F(GraphTest, ParametersComeBack) {
  Buffer buffer(256);
  std::atomic<int> calls{0};
  hipGraphNode_t fill = nullptr, host = nullptr, box = nullptr, wait = nullptr, record = nullptr;
  hipMemsetParams fill_params = {}, fill_found = {};
  fill_params.dst = buffer.data();
  fill_params.elementSize = 2;
  fill_params.value = 0x1234;
  fill_params.width = 4;
  fill_params.height = 3;
  fill_params.pitch = 16;
  ASSERT_HIP(hipGraphAddMemsetNode(&fill, graph_, nullptr, 0, &fill_params));
  const hipMemsetParams fill_original = fill_params;
  std::memset(&fill_params, 0xEE, sizeof fill_params);  // copied at the call
  ASSERT_HIP(hipGraphMemsetNodeGetParams(fill, &fill_found));
  EXPECT_EQ(fill_original.dst, fill_found.dst);
  EXPECT_EQ(fill_original.value, fill_found.value);
  EXPECT_EQ(fill_original.width, fill_found.width);
  EXPECT_EQ(fill_original.height, fill_found.height);
  EXPECT_EQ(fill_original.pitch, fill_found.pitch);
  fill_found.value = 9;
  fill_found.height = 1;  // several rows are refused: the memory was not allocated as such
  EXPECT_HIP(hipGraphMemsetNodeSetParams(fill, &fill_found));
  ASSERT_HIP(hipGraphMemsetNodeGetParams(fill, &fill_found));
  EXPECT_EQ(9u, fill_found.value);

  hipHostNodeParams call{count_up, &calls}, call_found{};
  ASSERT_HIP(hipGraphAddHostNode(&host, graph_, nullptr, 0, &call));
  ASSERT_HIP(hipGraphHostNodeGetParams(host, &call_found));
  EXPECT_EQ(call.fn, call_found.fn);
  EXPECT_EQ(call.userData, call_found.userData);
  call.userData = nullptr;
  EXPECT_HIP(hipGraphHostNodeSetParams(host, &call));
  ASSERT_HIP(hipGraphHostNodeGetParams(host, &call_found));
  EXPECT_EQ(nullptr, call_found.userData);
  call.fn = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphHostNodeSetParams(host, &call));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphMemsetNodeGetParams(host, &fill_found));

  hipMemcpy3DParms box_params = {}, box_found = {};
  box_params.srcPtr = {buffer.data(), 16, 16, 4};
  box_params.dstPtr = {buffer.data() + 128, 16, 16, 4};
  box_params.srcPos = {4, 1, 0};
  box_params.extent = {8, 2, 1};
  box_params.kind = hipMemcpyDeviceToDevice;
  ASSERT_HIP(hipGraphAddMemcpyNode(&box, graph_, nullptr, 0, &box_params));
  ASSERT_HIP(hipGraphMemcpyNodeGetParams(box, &box_found));
  EXPECT_EQ(0, std::memcmp(&box_params, &box_found, sizeof box_found));
  box_params.srcPos = {0, 0, 0};
  EXPECT_HIP(hipGraphMemcpyNodeSetParams(box, &box_params));
  ASSERT_HIP(hipGraphMemcpyNodeGetParams(box, &box_found));
  EXPECT_EQ(0u, box_found.srcPos.x);

  TestEvent first, second;
  hipEvent_t event = nullptr;
  ASSERT_HIP(hipGraphAddEventWaitNode(&wait, graph_, nullptr, 0, first));
  ASSERT_HIP(hipGraphAddEventRecordNode(&record, graph_, nullptr, 0, first));
  EXPECT_HIP(hipGraphEventWaitNodeSetEvent(wait, second));
  EXPECT_HIP(hipGraphEventWaitNodeGetEvent(wait, &event));
  EXPECT_EQ(second, event);
  EXPECT_HIP(hipGraphEventRecordNodeGetEvent(record, &event));
  EXPECT_EQ(first, event);
  EXPECT_HIP(hipGraphEventRecordNodeSetEvent(record, second));
  EXPECT_HIP(hipGraphEventRecordNodeGetEvent(record, &event));
  EXPECT_EQ(second, event);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphEventRecordNodeGetEvent(wait, &event));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphEventWaitNodeSetEvent(wait, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddEventWaitNode(&wait, graph_, nullptr, 0, nullptr));
}

TEST_F(GraphTest, CallsForAnotherKindOfCopyHaveNoEffect) {
  Buffer buffer(64);
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, buffer.data() + 32, buffer.data(), 8,
                                     hipMemcpyDeviceToDevice));
  hipMemcpy3DParms params = {}, found = {};
  params.srcPtr = {buffer.data() + 8, 8, 8, 1};
  params.dstPtr = {buffer.data() + 48, 8, 8, 1};
  params.extent = {8, 1, 1};
  params.kind = hipMemcpyDeviceToDevice;
  EXPECT_HIP(hipGraphMemcpyNodeSetParams(node, &params));
  EXPECT_HIP(hipGraphMemcpyNodeGetParams(node, &found));
  EXPECT_NE(params.srcPtr.ptr, found.srcPtr.ptr);
  TestStream stream;
  EXPECT_HIP(hipMemset(buffer.data(), 5, 8));
  hipGraphExec_t exec = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(exec, stream));
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_EQ(5, buffer.read()[32]);
  EXPECT_EQ(0, buffer.read()[48]);
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_HIP(hipGraphMemcpyNodeSetParams1D(node, buffer.data() + 56, buffer.data(), 4, hipMemcpyDeviceToDevice));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphMemcpyNodeSetParams1D(node, buffer.data(), buffer.data(), 4, hipMemcpyDeviceToDevice));
}

/// Params: HIP_MEMCPY3D as it is in the runtime's version.
template <typename Params>
void driver_style_nodes(hipGraph_t graph) {
  Buffer buffer(64);
  hipGraphNode_t copy = nullptr, fill = nullptr;
  Params params = {}, found = {};
  auto* const given = reinterpret_cast<const HIP_MEMCPY3D*>(&params);
  const auto device_type = static_cast<hipMemoryType>(version() < 60000000 ? 1 : 2);
  params.srcMemoryType = params.dstMemoryType = device_type;
  params.srcDevice = buffer.data();
  params.dstDevice = buffer.data() + 32;
  params.WidthInBytes = 4;
  params.Height = 2;
  params.Depth = 1;
  params.srcPitch = params.dstPitch = 8;
  auto* const context = reinterpret_cast<hipCtx_t>(&params);
  EXPECT_EQ(hipErrorInvalidValue, hipDrvGraphAddMemcpyNode(&copy, graph, nullptr, 0, given, nullptr));
  ASSERT_HIP(hipDrvGraphAddMemcpyNode(&copy, graph, nullptr, 0, given, context));
  EXPECT_HIP(hipDrvGraphMemcpyNodeGetParams(copy, reinterpret_cast<HIP_MEMCPY3D*>(&found)));
  EXPECT_EQ(params.srcDevice, found.srcDevice);
  EXPECT_EQ(params.dstDevice, found.dstDevice);
  EXPECT_EQ(params.dstPitch, found.dstPitch);
  EXPECT_EQ(params.Depth, found.Depth);
  hipfront::MemsetNodeParams fill_params = {buffer.data(), 0, 7, 1, 8, 1};
  ASSERT_HIP(hipDrvGraphAddMemsetNode(&fill, graph, nullptr, 0, &fill_params, context));
  EXPECT_HIP(hipGraphAddDependencies(graph, &fill, &copy, 1));
  hipGraphExec_t exec = nullptr;
  TestStream stream;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(exec, stream));
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_EQ(7, buffer.read()[35]);
  EXPECT_EQ(0, buffer.read()[36]);
  EXPECT_HIP(hipGraphExecDestroy(exec));
}

TEST_F(GraphTest, DriverStyleNodes) {
  if (version() < 60000000) {
    driver_style_nodes<HIP_MEMCPY3D>(graph_);
  } else {
    driver_style_nodes<hipfront::WideMemcpy3D>(graph_);
  }
}

// --- Clones and child graphs ---

TEST_F(GraphTest, ClonesAreFoundNodeByNode) {
  const auto a = empty(), gone = empty({a}), b = empty({a}), c = empty({b});
  EXPECT_HIP(hipGraphDestroyNode(gone));
  hipGraph_t clone = nullptr, second = nullptr;
  ASSERT_HIP(hipGraphClone(&clone, graph_));
  EXPECT_EQ(3u, nodes_of(clone).size());
  EXPECT_EQ(2u, edge_count(clone));
  for (const auto node : {a, b, c}) {
    hipGraphNode_t found = nullptr;
    EXPECT_HIP(hipGraphNodeFindInClone(&found, node, clone));
    EXPECT_NE(node, found);
    EXPECT_EQ(dependencies(node).size(), dependencies(found).size());
  }
  hipGraphNode_t found = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeFindInClone(&found, a, graph_));  // no clone
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeFindInClone(nullptr, a, clone));
  const auto later = empty();
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeFindInClone(&found, later, clone));
  // positions move when nodes of the clone are destroyed
  EXPECT_HIP(hipGraphNodeFindInClone(&found, a, clone));
  EXPECT_HIP(hipGraphDestroyNode(found));
  EXPECT_HIP(hipGraphNodeFindInClone(&found, c, clone));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeFindInClone(&found, a, clone));
  ASSERT_HIP(hipGraphClone(&second, clone));
  EXPECT_HIP(hipGraphNodeFindInClone(&found, c, second));
  EXPECT_HIP(hipGraphDestroy(clone));
  EXPECT_HIP(hipGraphDestroy(second));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphClone(nullptr, graph_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphClone(&clone, nullptr));
}

TEST_F(GraphTest, AChildGraphIsACopy) {
  hipGraph_t inner = nullptr, found = nullptr;
  hipGraphNode_t node = nullptr, inside = nullptr;
  ASSERT_HIP(hipGraphCreate(&inner, 0));
  ASSERT_HIP(hipGraphAddEmptyNode(&inside, inner, nullptr, 0));
  ASSERT_HIP(hipGraphAddChildGraphNode(&node, graph_, nullptr, 0, inner));
  ASSERT_HIP(hipGraphAddEmptyNode(&inside, inner, nullptr, 0));
  ASSERT_HIP(hipGraphChildGraphNodeGetGraph(node, &found));
  EXPECT_NE(inner, found);
  EXPECT_EQ(1u, nodes_of(found).size());
  EXPECT_HIP(hipGraphDestroy(inner));
  EXPECT_EQ(1u, nodes_of(found).size());
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddChildGraphNode(&node, graph_, nullptr, 0, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphChildGraphNodeGetGraph(empty(), &found));
  EXPECT_HIP(hipGraphDestroyNode(node));  // with its graph: TearDown counts
}

TEST_F(GraphTest, DebugDotNamesNodesEdgesAndChildren) {
  Buffer buffer(64);
  hipGraph_t inner = nullptr;
  hipGraphNode_t child = nullptr, copy = nullptr;
  ASSERT_HIP(hipGraphCreate(&inner, 0));
  const auto root = empty();
  ASSERT_HIP(
      hipGraphAddMemcpyNode1D(&copy, inner, nullptr, 0, buffer.data() + 8, buffer.data(), 8, hipMemcpyDeviceToDevice));
  ASSERT_HIP(hipGraphAddChildGraphNode(&child, graph_, &root, 1, inner));
  EXPECT_HIP(hipGraphDestroy(inner));
  const std::string text = debug_dot(graph_, 1);
  EXPECT_EQ(0u, text.find("digraph"));
  EXPECT_NE(std::string::npos, text.find(" -> "));
  EXPECT_NE(std::string::npos, text.find("EMPTY"));
  EXPECT_NE(std::string::npos, text.find("MEMCPY\\n(8)"));
  EXPECT_EQ(hipErrorOperatingSystem, hipGraphDebugDotPrint(graph_, "/no/such/folder/file", 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphDebugDotPrint(graph_, nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphDebugDotPrint(nullptr, "/dev/null", 0));
}

// --- User objects ---

TEST_F(GraphTest, UserObjectsGoWithTheLastReference) {
  std::atomic<int> destroyed{0};
  hipUserObject_t object = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, count_up, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, count_up, 0, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipUserObjectCreate(&object, &destroyed, nullptr, 1, 1));
  ASSERT_HIP(hipUserObjectCreate(&object, &destroyed, count_up, 2, 1));
  EXPECT_HIP(hipUserObjectRetain(object, 1));
  EXPECT_HIP(hipUserObjectRelease(object, 2));
  EXPECT_EQ(hipErrorInvalidValue, hipUserObjectRelease(object, 0));
  EXPECT_HIP(hipUserObjectRelease(object, 5));  // more than there are: ignored
  EXPECT_EQ(0, destroyed);
  EXPECT_HIP(hipUserObjectRelease(object, 1));
  EXPECT_EQ(1, destroyed);
}

TEST_F(GraphTest, GraphsClonesAndExecsHoldUserObjects) {
  std::atomic<int> destroyed{0};
  hipUserObject_t object = nullptr;
  ASSERT_HIP(hipUserObjectCreate(&object, &destroyed, count_up, 1, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphRetainUserObject(graph_, object, 1, 2));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphRetainUserObject(graph_, nullptr, 1, 0));
  EXPECT_HIP(hipGraphRetainUserObject(graph_, object, 2, 0));
  EXPECT_HIP(hipGraphRetainUserObject(graph_, object, 1, 1));  // moved: the program holds none now
  EXPECT_HIP(hipGraphReleaseUserObject(graph_, object, 1));
  hipGraph_t clone = nullptr;
  hipGraphExec_t exec = nullptr;
  ASSERT_HIP(hipGraphClone(&clone, graph_));
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphDestroy(graph_));
  graph_ = nullptr;
  EXPECT_EQ(0, destroyed);
  EXPECT_HIP(hipGraphDestroy(clone));
  EXPECT_EQ(0, destroyed);
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_EQ(1, destroyed);
}

struct CallsBack {
  std::atomic<bool> proceed{false}, entered{false};
  static void run(void* self) {
    auto* const it = static_cast<CallsBack*>(self);
    hipGraph_t graph = nullptr;
    hipGraphNode_t node = nullptr;
    TestStream stream;
    EXPECT_HIP(hipGraphCreate(&graph, 0));
    EXPECT_HIP(hipGraphAddEmptyNode(&node, graph, nullptr, 0));
    EXPECT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    hipGraph_t captured = nullptr;
    EXPECT_HIP(hipStreamEndCapture(stream, &captured));
    EXPECT_HIP(hipGraphDestroy(captured));
    EXPECT_HIP(hipGraphDestroy(graph));
    it->entered = true;
    while (!it->proceed) std::this_thread::yield();
  }
};

TEST_F(GraphTest, DestructorsMayCallBackAndBlock) {
  CallsBack object;
  hipUserObject_t handle = nullptr;
  ASSERT_HIP(hipUserObjectCreate(&handle, &object, CallsBack::run, 1, 1));
  EXPECT_HIP(hipGraphRetainUserObject(graph_, handle, 1, 1));
  std::thread destroyer([this] { EXPECT_HIP(hipGraphDestroy(graph_)); });
  EXPECT_TRUE(eventually([&] { return object.entered.load(); }));
  // while the destructor blocks, everybody else goes on
  hipGraph_t other = nullptr;
  EXPECT_HIP(hipGraphCreate(&other, 0));
  EXPECT_HIP(hipGraphDestroy(other));
  object.proceed = true;
  destroyer.join();
  graph_ = nullptr;
}

// --- Destroyed handles ---

using GraphDeathTest = GraphTest;

TEST_F(GraphDeathTest, DestroyedHandlesAreNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto node = empty();
  std::size_t count = 0;
  EXPECT_HIP(hipGraphDestroyNode(node));
  EXPECT_DEATH((void)hipGraphNodeGetDependencies(node, nullptr, &count), "destroyed graph node");
  hipGraphExec_t exec = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_DEATH((void)hipGraphLaunch(exec, nullptr), "destroyed executable graph");
  hipGraph_t other = nullptr;
  ASSERT_HIP(hipGraphCreate(&other, 0));
  EXPECT_HIP(hipGraphDestroy(other));
  EXPECT_DEATH((void)hipGraphGetNodes(other, nullptr, &count), "destroyed graph");
  EXPECT_DEATH((void)hipGraphDestroy(other), "destroyed graph");
}

/// With CPUHIP_GONE=refused.
TEST_F(GraphDeathTest, GoneHandlesAreRefused) {
  const auto node = empty();
  hipGraphExec_t exec = nullptr;
  hipGraph_t other = nullptr, made = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  ASSERT_HIP(hipGraphCreate(&other, 0));
  EXPECT_HIP(hipGraphDestroyNode(node));
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_HIP(hipGraphDestroy(other));
  std::size_t count = 0;
  hipGraphNodeType type{};
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetType(node, &type));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphDestroyNode(node));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphLaunch(exec, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphUpload(exec, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecDestroy(exec));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetNodes(other, nullptr, &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphClone(&made, other));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiate(&exec, other, nullptr, nullptr, 0));
  EXPECT_EQ(hipErrorIllegalState, hipGraphDestroy(other));
}

TEST_F(GraphTest, WhatNeverWasAHandleIsInvalid) {
  std::size_t count = 0;
  alignas(64) char garbage[64] = {};
  auto* const graph = reinterpret_cast<hipGraph_t>(garbage);
  auto* const node = reinterpret_cast<hipGraphNode_t>(garbage);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetDependencies(node, nullptr, &count));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphLaunch(reinterpret_cast<hipGraphExec_t>(garbage), nullptr));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphNodeGetDependencies(reinterpret_cast<hipGraphNode_t>(reinterpret_cast<char*>(graph_) + 8), nullptr,
                                        &count));
  EXPECT_EQ(hipErrorIllegalState, hipGraphDestroy(graph));
}

// --- What is held ---

TEST_F(GraphTest, NothingGrows) {
  TestStream stream;
  Buffer buffer(64);
  const auto cycle = [&] {
    EXPECT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int i = 0; i < 5; ++i) EXPECT_HIP(hipMemsetAsync(buffer.data(), i, 8, stream));
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    EXPECT_HIP(hipStreamEndCapture(stream, &graph));
    EXPECT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipGraphExecDestroy(exec));  // in flight
    EXPECT_HIP(hipGraphDestroy(graph));
  };
  cycle();
  EXPECT_HIP(hipStreamSynchronize(stream));
  const auto before = statistics();
  for (int i = 0; i < 1000; ++i) {
    cycle();
    // An exec in flight keeps its megabyte of the device on 6.x; a thousand of them are all that the device has.
    if (i % 100 == 99) {
      EXPECT_HIP(hipStreamSynchronize(stream));
    }
  }
  const auto after = statistics();
  EXPECT_EQ(before.graphs, after.graphs);
  EXPECT_EQ(before.nodes, after.nodes);
  EXPECT_EQ(before.execs, after.execs);
  EXPECT_EQ(before.captures, after.captures);
  EXPECT_EQ(0u, after.launches);
  EXPECT_EQ(before.helper_threads, after.helper_threads);
}

// --- Memory nodes ---

hipfront::MemAllocNodeParams allocation(std::size_t bytes) {
  hipfront::MemAllocNodeParams params = {};
  params.pool.allocType = hipMemAllocationTypePinned;
  params.pool.location = {hipMemLocationTypeDevice, 0};
  params.bytes = bytes;
  return params;
}

std::uint64_t memory_attribute(int attribute) {
  std::uint64_t value = 0;
  EXPECT_HIP(hipDeviceGetGraphMemAttribute(0, attribute, &value));
  return value;
}

TEST_F(GraphTest, MemoryNodesOfNewerVersions) {
  auto params = allocation(256);
  hipGraphNode_t alloc = nullptr, fill = nullptr, free = nullptr;
  if (version() < 60000000) {
    EXPECT_EQ(hipErrorNotSupported, hipGraphAddMemAllocNode(&alloc, graph_, nullptr, 0, &params));
    return;
  }
  ASSERT_HIP(hipGraphAddMemAllocNode(&alloc, graph_, nullptr, 0, &params));
  ASSERT_NE(nullptr, params.pointer);
  EXPECT_EQ(10, type_of(alloc));
  hipMemsetParams fill_params = {};
  fill_params.dst = params.pointer;
  fill_params.elementSize = 1;
  fill_params.width = 256;
  fill_params.height = 1;
  ASSERT_HIP(hipGraphAddMemsetNode(&fill, graph_, &alloc, 1, &fill_params));
  ASSERT_HIP(hipGraphAddMemFreeNode(&free, graph_, &fill, 1, params.pointer));
  EXPECT_EQ(11, type_of(free));
  hipGraphNode_t again = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddMemFreeNode(&again, graph_, &fill, 1, params.pointer));
  auto found = allocation(0);
  EXPECT_HIP(hipGraphMemAllocNodeGetParams(alloc, &found));
  EXPECT_EQ(params.pointer, found.pointer);
  void* freed = nullptr;
  EXPECT_HIP(hipGraphMemFreeNodeGetParams(free, &freed));
  EXPECT_EQ(params.pointer, freed);
  EXPECT_EQ(256u, memory_attribute(hipfront::kMemReservedCurrent));

  hipGraph_t clone = nullptr;
  EXPECT_EQ(hipErrorNotSupported, hipGraphClone(&clone, graph_));
  EXPECT_EQ(hipErrorNotSupported, hipGraphDestroyNode(alloc));
  TestStream stream;
  hipGraphExec_t exec = nullptr, second = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_EQ(hipErrorNotSupported, hipGraphInstantiate(&second, graph_, nullptr, nullptr, 0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipStreamSynchronize(stream));
  }
  EXPECT_EQ(0u, memory_attribute(hipfront::kMemUsedCurrent));
  EXPECT_EQ(256u, memory_attribute(hipfront::kMemUsedHigh));
  std::uint64_t none = 0;
  EXPECT_HIP(hipDeviceSetGraphMemAttribute(0, hipfront::kMemUsedHigh, &none));
  EXPECT_EQ(0u, memory_attribute(hipfront::kMemUsedHigh));
  EXPECT_HIP(hipDeviceGraphMemTrim(0));
  EXPECT_EQ(hipErrorInvalidDevice, hipDeviceGraphMemTrim(99));
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_HIP(hipGraphDestroy(graph_));
  graph_ = nullptr;
  EXPECT_EQ(0u, statistics().graph_memory_bytes);
}

TEST_F(GraphTest, MemoryIsLiveInTheOrderOfCalls) {
  if (version() < 60000000) GTEST_SKIP() << "no alloc nodes";
  for (const bool frees : {false, true}) {
    hipGraph_t graph = nullptr;
    hipGraphNode_t node = nullptr;
    hipGraphExec_t exec = nullptr;
    TestStream stream;
    auto params = allocation(64);
    ASSERT_HIP(hipGraphCreate(&graph, 0));
    ASSERT_HIP(hipGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
    if (frees) {
      ASSERT_HIP(hipGraphAddMemFreeNode(&node, graph, &node, 1, params.pointer));
    }
    ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    Gate gate;
    EXPECT_HIP(hipLaunchHostFunc(stream, Gate::wait, &gate));
    EXPECT_HIP(hipGraphLaunch(exec, stream));  // none of these runs before the gate opens
    EXPECT_EQ(frees ? hipSuccess : hipErrorInvalidValue, hipGraphLaunch(exec, stream));
    if (!frees) {
      EXPECT_HIP(hipFreeAsync(params.pointer, stream));
    }
    EXPECT_EQ(0u, memory_attribute(hipfront::kMemUsedCurrent));
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_EQ(frees ? 0u : 64u, memory_attribute(hipfront::kMemUsedCurrent));
    if (!frees) {
      EXPECT_HIP(hipFreeAsync(params.pointer, stream));
    }
    gate.open = true;
    EXPECT_HIP(hipStreamSynchronize(stream));
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
    EXPECT_EQ(0u, statistics().graph_memory_bytes);
  }
}

TEST_F(GraphTest, MemoryThatTheGraphDoesNotFree) {
  if (version() < 60000000) GTEST_SKIP() << "no alloc nodes";
  for (const bool auto_free : {false, true}) {
    hipGraph_t graph = nullptr;
    hipGraphNode_t alloc = nullptr;
    hipGraphExec_t exec = nullptr;
    TestStream stream;
    auto params = allocation(64);
    ASSERT_HIP(hipGraphCreate(&graph, 0));
    ASSERT_HIP(hipGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
    ASSERT_HIP(hipGraphInstantiateWithFlags(&exec, graph, auto_free ? 1 : 0));
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipStreamSynchronize(stream));
    EXPECT_EQ(auto_free ? hipSuccess : hipErrorInvalidValue, hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipStreamSynchronize(stream));
    EXPECT_HIP(hipFree(params.pointer));
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipFreeAsync(params.pointer, stream));
    EXPECT_HIP(hipStreamSynchronize(stream));
    EXPECT_HIP(hipGraphLaunch(exec, stream));
    EXPECT_HIP(hipStreamSynchronize(stream));
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
    EXPECT_HIP(hipFree(params.pointer));  // live, and its graph is gone
  }
}

TEST_F(GraphTest, CapturedAllocations) {
  TestStream stream;
  void* memory = nullptr;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  const hipError_t expected = version() < 60000000 ? hipErrorNotSupported : hipSuccess;
  EXPECT_EQ(expected, hipMallocAsync(&memory, 128, stream));
  if (expected == hipSuccess) {
    EXPECT_HIP(hipMemsetAsync(memory, 1, 128, stream));
    EXPECT_HIP(hipFreeAsync(memory, stream));
  }
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream, &graph));
  EXPECT_EQ(expected == hipSuccess ? 3u : 0u, nodes_of(graph).size());
  hipGraphExec_t exec = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(exec, stream));
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_HIP(hipGraphExecDestroy(exec));
  EXPECT_HIP(hipGraphDestroy(graph));
}

// --- hipGraphAddNode ---

TEST_F(GraphTest, AddNodeOfAnyKind) {
  Buffer buffer(64);
  TestEvent event;
  std::atomic<int> calls{0};
  hipfront::NodeParams params = {};
  hipGraphNode_t fill = nullptr, host = nullptr, record = nullptr, node = nullptr;
  params.type = 2;
  params.memset.dst = buffer.data();
  params.memset.elementSize = 1;
  params.memset.value = 3;
  params.memset.width = 8;
  params.memset.height = 1;
  ASSERT_HIP(hipGraphAddNode(&fill, graph_, nullptr, 0, &params));
  hipfront::NodeParams other = {};
  other.type = 3;
  other.host = {count_up, &calls};
  ASSERT_HIP(hipGraphAddNode(&host, graph_, &fill, 1, &other));
  other = {};
  other.type = 7;
  other.event = event;
  ASSERT_HIP(hipGraphAddNode(&record, graph_, &host, 1, &other));
  other.type = 8;
  EXPECT_EQ(hipErrorNotSupported, hipGraphAddNode(&node, graph_, nullptr, 0, &other));
  other.type = 77;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddNode(&node, graph_, nullptr, 0, &other));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddNode(&node, graph_, nullptr, 0, nullptr));
  params.memset.value = 4;
  EXPECT_HIP(hipGraphNodeSetParams(fill, &params));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeSetParams(host, &params));
  hipGraphExec_t exec = nullptr;
  TestStream stream;
  ASSERT_HIP(hipGraphInstantiate(&exec, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(exec, stream));
  EXPECT_HIP(hipEventSynchronize(event));
  EXPECT_EQ(1, calls);
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_EQ(4, buffer.read()[7]);
  params.memset.value = 5;
  EXPECT_HIP(hipGraphExecNodeSetParams(exec, fill, &params));
  EXPECT_HIP(hipGraphLaunch(exec, stream));
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_EQ(5, buffer.read()[7]);
  EXPECT_HIP(hipGraphExecDestroy(exec));
}

}  // namespace
}  // namespace graph_test
