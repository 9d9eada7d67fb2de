// graphs.cpp: what nodes and execs tell, and what reaches a launch when they are set.
#include <algorithm>

#include "tests/probes/probe.h"

namespace probes {
namespace {

/// A graph of one node.
struct OneNode {
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphExec_t exec = nullptr;

  OneNode() { WORKS(hip::hipGraphCreate(&graph, 0)); }
};

OneNode kernel_graph(KernelCall& call) {
  OneNode made;
  const hipKernelNodeParams params = call.node_params();
  WORKS(hip::hipGraphAddKernelNode(&made.node, made.graph, nullptr, 0, &params));
  return made;
}

OneNode fill_graph(int* at, int value) {
  OneNode made;
  const hipMemsetParams params = fill_params(at, value);
  WORKS(hip::hipGraphAddMemsetNode(&made.node, made.graph, nullptr, 0, &params));
  return made;
}

Finding launches_show(const std::string& wrong) { return holds_if(wrong.empty(), wrong); }

/// Sets the kernel of an exec again and again, by another word and value each time. `scribbles`: what the runtime was
/// given is something else before the launch.
std::string wrong_after_patches(bool scribbles) {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word words[2];
  KernelCall first(put, words[0].at(), 1);
  OneNode made = kernel_graph(first);
  made.exec = instantiate(made.graph);
  run(made.exec, stream);
  if (words[0].value() != 1) throw Unknown("an exec does nothing");
  for (int i = 2; i < 8; ++i) {
    const Word& word = words[i % 2];
    KernelCall call(put, word.at(), i);
    const hipKernelNodeParams params = call.node_params();
    WORKS(hip::hipGraphExecKernelNodeSetParams(made.exec, made.node, &params));
    if (scribbles) call.scribble();
    const hipError_t launched = hip::hipGraphLaunch(made.exec, stream);
    const hipError_t ran = launched == hipSuccess ? hip::hipStreamSynchronize(stream) : launched;
    if (ran != hipSuccess) return "a launch ends with " + error_name(ran);
    if (word.value() != i) return i == 2 ? "the first setting is not seen" : "a later setting is not seen";
  }
  return "";
}

Finding set_kernel_reaches_launch() { return launches_show(wrong_after_patches(false)); }
Finding set_kernel_copies_arguments() {
  if (!wrong_after_patches(false).empty()) throw Unknown("what is set is not seen at all");
  return launches_show(wrong_after_patches(true));
}

Finding set_kernel_takes_little_memory() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall call(put, word.at(), 1);
  OneNode made = kernel_graph(call);
  made.exec = instantiate(made.graph);
  run(made.exec, stream);
  std::size_t before = 0, after = 0, total = 0;
  WORKS(hip::hipMemGetInfo(&before, &total));
  // With what the runtime adds to them, arguments of a launch are less than 320 bytes.
  constexpr int kRoomBytes = 120 << 10, kArgumentBytes = 320;
  for (int i = 0; i < kRoomBytes / kArgumentBytes; ++i) {
    const hipKernelNodeParams params = call.node_params();
    WORKS(hip::hipGraphExecKernelNodeSetParams(made.exec, made.node, &params));
  }
  WORKS(hip::hipMemGetInfo(&after, &total));
  return holds_if(after >= before, after >= before ? "" : std::to_string((before - after) >> 10) + " KiB");
}

Finding set_fill_reaches_launch() {
  needs_device_work();
  const Stream stream;
  const Word words[2];
  OneNode made = fill_graph(words[0].at(), 1);
  made.exec = instantiate(made.graph);
  run(made.exec, stream);
  if (words[0].value() != 1) throw Unknown("an exec does nothing");
  for (int i = 2; i < 6; ++i) {
    hipMemsetParams params = fill_params(words[i % 2].at(), i);
    const hipError_t set = hip::hipGraphExecMemsetNodeSetParams(made.exec, made.node, &params);
    if (set != hipSuccess) return {Answer::kFails, error_name(set)};
    params = {};
    run(made.exec, stream);
    if (words[i % 2].value() != i) return {Answer::kFails, "a setting is not seen"};
  }
  return {Answer::kHolds, ""};
}

Finding set_copy_reaches_launch() {
  needs_device_work();
  const Stream stream;
  const Word from[2], to[2];
  from[0].set(11);
  from[1].set(12);
  OneNode made;
  WORKS(hip::hipGraphAddMemcpyNode1D(&made.node, made.graph, nullptr, 0, to[0].at(), from[0].at(), sizeof(int),
                                     hipMemcpyDeviceToDevice));
  made.exec = instantiate(made.graph);
  run(made.exec, stream);
  if (to[0].value() != 11) throw Unknown("an exec does nothing");
  for (int i = 0; i < 4; ++i) {
    to[i % 2].set(0);
    const hipError_t set = hip::hipGraphExecMemcpyNodeSetParams1D(
        made.exec, made.node, to[i % 2].at(), from[(i + 1) % 2].at(), sizeof(int), hipMemcpyDeviceToDevice);
    if (set != hipSuccess) return {Answer::kFails, error_name(set)};
    if (to[i % 2].value() != 0) return {Answer::kFails, "it runs when it is set"};
    run(made.exec, stream);
    if (to[i % 2].value() != 11 + (i + 1) % 2) return {Answer::kFails, "a setting is not seen"};
  }
  return {Answer::kHolds, ""};
}

Finding host_copy_waits_for_launch() {
  static int from[2] = {21, 22}, to[2] = {0, 0};
  OneNode made;
  WORKS(hip::hipGraphAddMemcpyNode1D(&made.node, made.graph, nullptr, 0, &to[0], &from[0], sizeof(int),
                                     hipMemcpyHostToHost));
  made.exec = instantiate(made.graph);
  if (to[0] != 0) return {Answer::kFails, "it runs when it is instantiated"};
  WORKS(
      hip::hipGraphExecMemcpyNodeSetParams1D(made.exec, made.node, &to[1], &from[1], sizeof(int), hipMemcpyHostToHost));
  return holds_if(to[1] == 0, to[1] == 0 ? "" : "it runs when it is set");
}

Finding set_node_reaches_next_exec() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall first(put, word.at(), 1);
  OneNode made = kernel_graph(first);
  made.exec = instantiate(made.graph);
  for (int i = 2; i < 5; ++i) {
    KernelCall call(put, word.at(), i);
    const hipKernelNodeParams params = call.node_params();
    WORKS(hip::hipGraphKernelNodeSetParams(made.node, &params));
    call.scribble();
    run(instantiate(made.graph), stream);
    if (word.value() != i) return {Answer::kFails, "the new exec has the old arguments"};
  }
  run(made.exec, stream);
  return holds_if(word.value() == 1, word.value() == 1 ? "" : "the old exec has changed");
}

Finding node_copies_arguments() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall call(put, word.at(), 6);
  OneNode made = kernel_graph(call);
  call.scribble();
  run(instantiate(made.graph), stream);
  return holds_if(word.value() == 6);
}

Finding update_reaches_launch() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall first(put, word.at(), 1), second(put, word.at(), 2);
  OneNode made = kernel_graph(first);
  const OneNode other = kernel_graph(second);
  made.exec = instantiate(made.graph);
  run(made.exec, stream);
  hipGraphNode_t where = nullptr;
  hipGraphExecUpdateResult told{};
  WORKS(hip::hipGraphExecUpdate(made.exec, other.graph, &where, &told));
  run(made.exec, stream);
  return holds_if(word.value() == 2);
}

Finding node_types_are_in_order() {
  const Word word;
  OneNode empty;
  WORKS(hip::hipGraphAddEmptyNode(&empty.node, empty.graph, nullptr, 0));
  const OneNode filled = fill_graph(word.at(), 1);
  OneNode host;
  hipHostNodeParams params{};
  params.fn = [](void*) {};
  WORKS(hip::hipGraphAddHostNode(&host.node, host.graph, nullptr, 0, &params));
  const auto type = [](const OneNode& made) {
    hipGraphNodeType type{};
    WORKS(hip::hipGraphNodeGetType(made.node, &type));
    return static_cast<int>(type);
  };
  const int first = type(empty) - 5;
  return holds_if(type(filled) == first + 2 && type(host) == first + 3, "kernels are " + std::to_string(first));
}

Finding captured_kernel_has_parameters() {
  const hipFunction_t put = kernel_named("put");
  const Stream stream;
  const Word word;
  KernelCall call(put, word.at(), 5);
  const hipGraph_t graph = capture(stream, [&] { WORKS(call.launch(stream)); });
  const std::vector<hipGraphNode_t> nodes = nodes_of(graph);
  if (nodes.size() != 1) throw Unknown("kernels are not captured");
  hipKernelNodeParams told{};
  WORKS(hip::hipGraphKernelNodeGetParams(nodes[0], &told));
  if (told.func != reinterpret_cast<void*>(put)) return {Answer::kFails, "another function"};
  if (told.kernelParams == nullptr) return {Answer::kFails, "no arguments"};
  return holds_if(told.gridDim.x == 1 && told.blockDim.x == 1 &&
                  *static_cast<int**>(told.kernelParams[0]) == word.at() &&
                  *static_cast<int*>(told.kernelParams[1]) == 5);
}

Finding captured_fill_has_parameters() {
  const Stream stream;
  const Word word;
  const hipGraph_t graph = capture(stream, [&] { WORKS(hip::hipMemsetD32Async(word.at(), 0x01020304, 5, stream)); });
  const std::vector<hipGraphNode_t> nodes = nodes_of(graph);
  if (nodes.size() != 1) return {Answer::kFails, "there is no node"};
  hipMemsetParams told{};
  WORKS(hip::hipGraphMemsetNodeGetParams(nodes[0], &told));
  return holds_if(told.dst == word.at() && told.elementSize == 4 && told.value == 0x01020304 && told.width == 5 &&
                  told.height == 1);
}

Finding edges_follow_streams() {
  const Stream stream, other;
  const Word words[4];
  hipEvent_t fork = nullptr, join = nullptr;
  WORKS(hip::hipEventCreateWithFlags(&fork, hipEventDisableTiming));
  WORKS(hip::hipEventCreateWithFlags(&join, hipEventDisableTiming));
  const auto fill = [&](hipStream_t where, int i) { WORKS(hip::hipMemsetAsync(words[i].at(), i, sizeof(int), where)); };
  const hipGraph_t graph = capture(stream, [&] {
    fill(stream, 0);
    WORKS(hip::hipEventRecord(fork, stream));
    WORKS(hip::hipStreamWaitEvent(other, fork, 0));
    fill(stream, 1);
    fill(other, 2);
    WORKS(hip::hipEventRecord(join, other));
    WORKS(hip::hipStreamWaitEvent(stream, join, 0));
    fill(stream, 3);
  });
  const auto word_of = [&](hipGraphNode_t node) {
    hipMemsetParams told{};
    WORKS(hip::hipGraphMemsetNodeGetParams(node, &told));
    return static_cast<int>(std::find_if(words, words + 4, [&](const Word& each) { return each.at() == told.dst; }) -
                            words);
  };
  hipGraphNode_t from[16] = {}, to[16] = {};
  std::size_t count = 0;
  WORKS(hip::hipGraphGetEdges(graph, nullptr, nullptr, &count));
  if (count != 4) return {Answer::kFails, std::to_string(count) + " edges for 4"};
  WORKS(hip::hipGraphGetEdges(graph, from, to, &count));
  std::vector<std::pair<int, int>> edges;
  for (std::size_t i = 0; i < count; ++i) edges.emplace_back(word_of(from[i]), word_of(to[i]));
  std::sort(edges.begin(), edges.end());
  return holds_if(edges == std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
}

Finding clone_finds_nodes() {
  const Word word;
  const OneNode made = fill_graph(word.at(), 1);
  hipGraph_t clone = nullptr;
  hipGraphNode_t found = nullptr;
  WORKS(hip::hipGraphClone(&clone, made.graph));
  const hipError_t result = hip::hipGraphNodeFindInClone(&found, made.node, clone);
  if (result != hipSuccess) return {Answer::kFails, error_name(result)};
  const std::vector<hipGraphNode_t> nodes = nodes_of(clone);
  return holds_if(found != made.node && nodes.size() == 1 && nodes[0] == found);
}

Finding exec_outlives_graph() {
  needs_device_work();
  const Stream stream;
  const Word word;
  const OneNode made = fill_graph(word.at(), 9);
  const hipGraphExec_t exec = instantiate(made.graph);
  WORKS(hip::hipGraphDestroy(made.graph));
  run(exec, stream);
  run(exec, stream);
  return holds_if(word.value() == 9);
}

Finding empty_graph_runs() {
  const Stream stream;
  hipGraph_t graph = nullptr;
  WORKS(hip::hipGraphCreate(&graph, 0));
  run(instantiate(graph), stream);
  return {Answer::kHolds, ""};
}

Finding destroyed_exec_completes() {
  needs_device_work();
  const Stream stream;
  const Word word;
  const OneNode made = fill_graph(word.at(), 13);
  const hipGraphExec_t exec = instantiate(made.graph);
  {
    const Blocked blocked(stream, 200);
    WORKS(hip::hipGraphLaunch(exec, stream));
    WORKS(hip::hipGraphExecDestroy(exec));
  }
  stream.wait();
  return holds_if(word.value() == 13);
}

constexpr Probe kProbes[] = {
    {"set_kernel_reaches_launch", "What hipGraphExecKernelNodeSetParams sets is what the next launch runs.",
     set_kernel_reaches_launch},
    {"set_kernel_copies_arguments", "hipGraphExecKernelNodeSetParams keeps nothing of the caller's arrays.",
     set_kernel_copies_arguments},
    {"set_kernel_takes_little_memory", "Arguments of 120 KiB set in one exec take no more of the device's memory.",
     set_kernel_takes_little_memory},
    {"set_fill_reaches_launch", "What hipGraphExecMemsetNodeSetParams sets is what the next launch does.",
     set_fill_reaches_launch},
    {"set_copy_reaches_launch", "What hipGraphExecMemcpyNodeSetParams1D sets is done by the next launch, not before.",
     set_copy_reaches_launch},
    {"host_copy_waits_for_launch", "A copy from host to host that is set in an exec runs when that is launched.",
     host_copy_waits_for_launch},
    {"set_node_reaches_next_exec", "A kernel set in a graph's node is in the next exec, and in no earlier one.",
     set_node_reaches_next_exec},
    {"node_copies_arguments", "hipGraphAddKernelNode keeps nothing of the caller's arrays.", node_copies_arguments},
    {"update_reaches_launch", "After hipGraphExecUpdate a launch runs the kernels of the other graph.",
     update_reaches_launch},
    {"node_types_are_in_order", "Types of nodes are numbered kernel, copy, fill, host function, child, empty.",
     node_types_are_in_order},
    {"captured_kernel_has_parameters", "A captured kernel's node tells its function, sizes and arguments.",
     captured_kernel_has_parameters},
    {"captured_fill_has_parameters", "A captured fill's node tells address, element, value and width.",
     captured_fill_has_parameters},
    {"edges_follow_streams", "The edges of a captured graph are what its streams and events said.",
     edges_follow_streams},
    {"clone_finds_nodes", "hipGraphNodeFindInClone finds the clone's own node.", clone_finds_nodes},
    {"exec_outlives_graph", "An exec runs after its graph was destroyed.", exec_outlives_graph},
    {"destroyed_exec_completes", "A launch completes although its exec was destroyed before it began.",
     destroyed_exec_completes},
    {"empty_graph_runs", "A graph without nodes can be instantiated and launched.", empty_graph_runs},
};

}  // namespace

std::span<const Probe> graph_probes() { return kProbes; }

}  // namespace probes
