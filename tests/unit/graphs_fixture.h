// graphs_fixture.h: the graphs and execs of a program of a test's own, on the fake runtime of fake_graphs.h. Graphs are
// of fills, one behind the other; what a launch has filled is listed.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "shim/graphs/graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/process_policy.h"
#include "shim/memory/freed_memory.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/fake_graphs.h"
#include "tests/unit/fills.h"

namespace graphpool {

using Addresses = std::vector<std::uint64_t>;

class GraphsTest : public testing::Test {
 protected:
  GraphsTest() {
    EXPECT_NE(nullptr, policy_of_process());
    test_set_runtime_version(kPatchesFills);
    g_mode.store(Mode::kActive);
  }
  ~GraphsTest() override { g_mode.store(Mode::kStarting); }

  /// A real graph that was captured, and its nodes. `which`: tells sequences of one length apart.
  RecordedCapture record(const Addresses& addresses, std::uint64_t which, hipGraph_t* graph) {
    RecordedCapture recording{fills(addresses.size(), which), fill_binding(addresses), {}, memory_freed()};
    EXPECT_EQ(hipSuccess, next().hipGraphCreate(graph, 0));
    recording.nodes.assign(recording.operations.size(), nullptr);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const hipMemsetParams params{.dst = reinterpret_cast<void*>(addresses[i]),
                                   .elementSize = 4,
                                   .height = 1,
                                   .pitch = 0,
                                   .value = 7,
                                   .width = 1};
      EXPECT_EQ(hipSuccess, next().hipGraphAddMemsetNode(&recording.nodes[i + 1], *graph, nullptr, 0, &params));
    }
    return recording;
  }
  /// The runtime's graph of a capture that has ended.
  static CapturedGraph ended(hipGraph_t graph, bool holds_objects = false) {
    CapturedGraph captured;
    captured.graph = graph;
    captured.holds_objects = holds_objects;
    return captured;
  }
  /// The program's handle of a real graph, once its capture has ended.
  hipGraph_t capture(const Addresses& addresses, std::uint64_t which = 0) {
    hipGraph_t graph = nullptr;
    RecordedCapture recording = record(addresses, which, &graph);
    return graphs.captured.real_graph_captured(ended(graph), std::move(recording)).handle;
  }
  /// That of one whose capture was withheld. `holds_objects`: the runtime's graph of the capture has user objects.
  hipGraph_t defer(const Addresses& addresses, std::uint64_t which = 0, bool holds_objects = false) {
    hipGraph_t empty = nullptr;
    EXPECT_EQ(hipSuccess, next().hipGraphCreate(&empty, 0));
    return graphs.captured.make_deferred_graph(hold(recording_of(addresses.size(), which)), fill_binding(addresses),
                                               ended(empty, holds_objects));
  }
  /// A recording that was proved, with no graph of the program's.
  Recording& recording_of(std::size_t count, std::uint64_t which = 0) {
    const auto found = find(count, which);
    if (found != nullptr) return *found;
    EXPECT_EQ(hipSuccess, graphs.tracked.destroy(capture(Addresses(count, 1), which)));
    return *find(count, which);
  }
  Recording* find(std::size_t count, std::uint64_t which) {
    const LockGuard guard(g_recordings_lock);
    for (const auto& each : graphs.recordings.all())
      if (each->node_count == count && each->operations[1].signature.object == which) return each.get();
    return nullptr;
  }

  hipError_t instantiate(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags = 0) {
    return graphs.instantiation.instantiate(exec, graph, flags, [](hipGraph_t real, hipGraphExec_t* made) {
      return next().hipGraphInstantiate(made, real, nullptr, nullptr, 0);
    });
  }
  hipGraphExec_t instantiate(hipGraph_t graph) {
    hipGraphExec_t exec = nullptr;
    EXPECT_EQ(hipSuccess, instantiate(&exec, graph));
    return exec;
  }
  /// An exec of a graph that was withheld.
  hipGraphExec_t exec_of(const Addresses& addresses, std::uint64_t which = 0) {
    const hipGraph_t graph = defer(addresses, which);
    const hipGraphExec_t exec = instantiate(graph);
    EXPECT_EQ(hipSuccess, graphs.tracked.destroy(graph));
    return exec;
  }
  hipError_t update(hipGraphExec_t exec, hipGraph_t graph) {
    outcome_ = hipGraphExecUpdateError;
    return graphs.updates.update(exec, graph, &error_node_, &outcome_);
  }
  hipError_t launch(hipGraphExec_t exec, hipStream_t stream) {
    return graphs.launcher.launch(exec, {stream, false}, [&](hipGraphExec_t real) {
      if (in_launch_) std::exchange(in_launch_, nullptr)();
      if (launch_result_ != hipSuccess) return fake::result(std::exchange(launch_result_, hipSuccess));
      fake::work(stream);
      launched_ = real;
      filled_.clear();
      for (void* const each : fake::written_by(real)) filled_.push_back(reinterpret_cast<std::uint64_t>(each));
      return hipSuccess;
    });
  }
  /// What a launch of the exec fills, that is complete at once.
  Addresses filled_by(hipGraphExec_t exec) {
    const hipStream_t here = stream();
    EXPECT_EQ(hipSuccess, launch(exec, here));
    complete(here);
    return filled_;
  }
  hipStream_t stream() {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    return made;
  }
  /// The program waits for the stream.
  static void complete(hipStream_t stream) {
    const std::uint64_t clock = launch_clock();
    fake::finish(stream);
    stream_waited(reinterpret_cast<StreamKey>(stream), clock);
  }
  ProgramExec& exec_behind(hipGraphExec_t handle) { return *graphs.execs.find(handle); }
  hipGraphExec_t real_exec(hipGraphExec_t handle) { return exec_behind(handle).variant->exec; }
  static Health health_of(const Variant& variant) { return variant.health(); }
  static std::size_t users_of(const Recording& recording) {
    const LockGuard guard(g_recordings_lock);
    return recording.users;
  }
  static std::size_t free_variants_of(const Recording& recording) {
    const LockGuard guard(g_recordings_lock);
    return recording.free_variants;
  }
  int count(const char* name) { return fake.hip->count[name]; }

  fake::Install fake;
  fake::InstallGraphs runtime;
  Graphs& graphs = never_destroyed<Graphs>();
  hipGraphNode_t error_node_ = nullptr;
  hipGraphExecUpdateResult outcome_ = hipGraphExecUpdateError;
  std::function<void()> in_launch_;        ///< called once, while the runtime launches
  hipError_t launch_result_ = hipSuccess;  ///< of one launch
  hipGraphExec_t launched_ = nullptr;      ///< the runtime's exec of the last launch
  Addresses filled_;                       ///< by it
};

}  // namespace graphpool
