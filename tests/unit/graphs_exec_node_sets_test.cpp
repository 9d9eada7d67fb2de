// What becomes of a node that the program sets in its exec.
#include <array>

#include "shim/base/units.h"
#include "shim/graphs/exec_node_sets.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/vmm.h"
#include "tests/support/counting_new.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

/// An exec of two fills: of at(0) and at(1), in memory that is known.
class ExecNodeSetsTest : public GraphsTest {
 protected:
  ExecNodeSetsTest() {
    forget_devices();
    device_memory().configure({}, [](const AllocationRequest&) { return Decision(); });
    for (void*& each : memory_)
      EXPECT_EQ(hipSuccess, device_memory().pool.allocate({AllocationFunction::kMalloc, 4096, 0, 0, nullptr}, &each));
    make_exec();
  }
  ~ExecNodeSetsTest() override {
    fake.hip->fail.clear();
    for (void* const each : memory_) EXPECT_EQ(hipSuccess, device_memory().frees.free(each, next().hipFree));
    device_memory().device_reset(0);
    forget_devices();
  }
  static void forget_devices() {
    for (int device = 0; device < fake::kDevices; ++device) {
      forget_vmm(device);
      stream_work().device_reset(device);
    }
  }

  std::uint64_t at(std::size_t number) const { return reinterpret_cast<std::uint64_t>(memory_[number]); }
  void make_exec() {
    graph_ = defer({at(0), at(1)});
    exec_ = instantiate(graph_);
  }
  hipGraphNode_t node_of(hipGraph_t graph, std::uint32_t index) {
    TrackedGraph& tracked = *graphs.tracked.find(graph);
    const LockGuard guard(tracked.lock);
    const hipGraphNode_t known = tracked.node_handle(index);
    return known != nullptr ? known : graphs.node_table.add_handle(tracked, index);
  }
  /// The program's call.
  hipError_t set(hipGraphExec_t exec, hipGraphNode_t node, std::uint64_t address) {
    const hipMemsetParams params{
        .dst = reinterpret_cast<void*>(address), .elementSize = 4, .height = 1, .pitch = 0, .value = 7, .width = 1};
    return graphs.node_sets.set(
        exec, node, [&](OperationWriter& to) { return to.node_fill(&params); },
        [&](hipGraphExec_t real, hipGraphNode_t own) {
          ++native_sets_;
          return next().hipGraphExecMemsetNodeSetParams(real, own, &params);
        });
  }
  /// The exec's `index`th fill, from 1, gets this address.
  hipError_t set(std::uint32_t index, std::uint64_t address) { return set(exec_, node_of(graph_, index), address); }
  ExecState state() { return exec_behind(exec_).state(); }
  void worsen(Health health) {
    const LockGuard guard(g_recordings_lock);
    exec_behind(exec_).variant->worsen(health);
  }
  /// Launches with at(0), at(2) and at(0) again as the first fill's: bindings come back from now on.
  void let_bindings_come_back() {
    filled_by(exec_);
    for (const std::size_t number : {2u, 0u}) {
      EXPECT_EQ(hipSuccess, set(1, at(number)));
      EXPECT_EQ((Addresses{at(number), at(1)}), filled_by(exec_));
    }
    native_sets_ = 0;
  }

  std::array<void*, 4> memory_{};
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  int native_sets_ = 0;
};

TEST_F(ExecNodeSetsTest, what_a_node_has_already_needs_no_call_unless_memory_was_freed_since) {
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(0, native_sets_);
  const Recording& recording = *find(2, 0);
  {
    const LockGuard guard(g_recordings_lock);
    EXPECT_EQ(1u, recording.statistics.updates_avoided);
  }
  note_memory_freed();
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(1, native_sets_) << "the address may be that of another allocation";
}

TEST_F(ExecNodeSetsTest, other_bytes_are_set_by_the_programs_call_and_known_from_then_on) {
  const hipGraphExec_t real = real_exec(exec_);
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(1, native_sets_);
  EXPECT_EQ(real, real_exec(exec_));
  EXPECT_TRUE(exec_behind(exec_).set_by_program());
  EXPECT_EQ((Addresses{at(2), at(1)}), filled_by(exec_));
  EXPECT_EQ(ExecState::kServed, state());
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(1, native_sets_) << "it has that";
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec_));
  EXPECT_EQ(real, real_exec(exec_of({at(2), at(1)}))) << "free, it serves the binding that it was given";
}

TEST_F(ExecNodeSetsTest, rule_09_what_is_not_set_exactly_serves_its_holder_alone) {
  test_set_runtime_version(kPatchesNoFill);
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(1, native_sets_);
  EXPECT_EQ(Health::kUnsure, health_of(*exec_behind(exec_).variant));
  EXPECT_EQ((Addresses{at(2), at(1)}), filled_by(exec_));
}

TEST_F(ExecNodeSetsTest, a_free_exec_that_has_the_binding_serves_and_nothing_is_set) {
  const hipGraphExec_t other = exec_of({at(2), at(1)});
  const hipGraphExec_t real = real_exec(other);
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(1, native_sets_) << "it serves another holder";
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(other));
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(2, native_sets_);
  EXPECT_EQ(real, real_exec(exec_));
  EXPECT_EQ((Addresses{at(2), at(1)}), filled_by(exec_));
}

TEST_F(ExecNodeSetsTest, where_bindings_come_back_a_set_is_noted_and_the_launch_gives_it) {
  let_bindings_come_back();
  const int sets = runtime.state.sets;
  EXPECT_EQ(hipSuccess, set(1, at(3)));
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ(hipSuccess, set(2, at(3)));
  EXPECT_EQ(0, native_sets_);
  EXPECT_EQ(sets, runtime.state.sets);
  EXPECT_EQ((Addresses{at(2), at(3)}), filled_by(exec_));
  EXPECT_EQ(sets + 2, runtime.state.sets) << "what was set last, and once";
}

TEST_F(ExecNodeSetsTest, what_was_noted_is_not_set_in_a_free_exec_that_has_it) {
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec_of({at(3), at(2)})));
  let_bindings_come_back();
  const int sets = runtime.state.sets;
  EXPECT_EQ(hipSuccess, set(2, at(2)));
  EXPECT_EQ(hipSuccess, set(1, at(3)));
  EXPECT_EQ((Addresses{at(3), at(2)}), filled_by(exec_));
  EXPECT_EQ(sets, runtime.state.sets);
}

TEST_F(ExecNodeSetsTest, a_binding_that_comes_back_for_the_second_time_has_an_exec_of_its_own) {
  let_bindings_come_back();
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  filled_by(exec_);
  EXPECT_EQ(1, runtime.state.instantiates);
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(2, runtime.state.instantiates);
  EXPECT_EQ((Addresses{at(0), at(1)}), filled_by(exec_));
  const int sets = runtime.state.sets;
  for (const std::size_t number : {2u, 0u, 2u}) {
    EXPECT_EQ(hipSuccess, set(1, at(number)));
    EXPECT_EQ((Addresses{at(number), at(1)}), filled_by(exec_));
  }
  EXPECT_EQ(sets, runtime.state.sets) << "each binding has one by now";
  EXPECT_EQ(2, runtime.state.instantiates);
}

TEST_F(ExecNodeSetsTest, where_that_exec_cannot_be_made_the_exec_that_is_there_is_set) {
  let_bindings_come_back();
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  filled_by(exec_);
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
  EXPECT_EQ(0, native_sets_) << "it is noted";
  EXPECT_EQ((Addresses{at(0), at(1)}), filled_by(exec_));
  EXPECT_EQ(1u, runtime.state.execs.size());
}

TEST_F(ExecNodeSetsTest, a_set_that_the_runtime_refuses_leaves_the_exec_to_it) {
  fake.hip->fail["hipGraphExecMemsetNodeSetParams"] = hipErrorInvalidValue;
  EXPECT_EQ(hipErrorInvalidValue, set(1, at(2)));
  fake.hip->fail.clear();
  EXPECT_EQ(ExecState::kLeft, state());
  EXPECT_EQ(1u, users_of(*find(2, 0))) << "the graph's";
  EXPECT_EQ(hipSuccess, set(1, at(0)));
  EXPECT_EQ(2, native_sets_) << "nobody knows what the refused call has left of the node";
}

TEST_F(ExecNodeSetsTest, what_only_the_runtime_can_judge_is_set_in_an_exec_of_the_programs_own) {
  const std::uint64_t unknown = 0x1234560;
  const hipGraph_t other = defer({at(0), at(1)});
  EXPECT_EQ(hipErrorInvalidValue, set(exec_, node_of(other, 1), at(2))) << "a node of another graph";
  EXPECT_EQ(ExecState::kLeft, state());
  make_exec();
  EXPECT_EQ(hipSuccess, set(1, unknown)) << "memory that nobody knows";
  EXPECT_EQ(ExecState::kLeft, state());
  EXPECT_EQ((Addresses{unknown, at(1)}), filled_by(exec_));
  make_exec();
  fake::t_device = 1;
  EXPECT_EQ(hipSuccess, set(2, at(2))) << "rule 14: the runtime moves the node to the device";
  fake::t_device = 0;
  EXPECT_EQ(ExecState::kLeft, state());
  EXPECT_EQ((Addresses{at(0), at(2)}), filled_by(exec_));
  EXPECT_EQ(3, native_sets_);
}

TEST_F(ExecNodeSetsTest, a_half_patched_exec_is_replaced_by_one_that_has_all) {
  const hipGraphExec_t broken = real_exec(exec_);
  worsen(Health::kBroken);
  EXPECT_EQ(hipSuccess, set(2, at(2)));
  EXPECT_EQ(0, native_sets_);
  EXPECT_NE(broken, real_exec(exec_));
  EXPECT_EQ((Addresses{at(0), at(2)}), filled_by(exec_));
}

TEST_F(ExecNodeSetsTest, a_set_that_the_runtime_has_made_is_noted_where_memory_runs_out_behind_it) {
  graphs.settings.verify = {Verify::Mode::kEvery, 1};
  const hipMemsetParams params{.dst = memory_[2], .elementSize = 4, .height = 1, .pitch = 0, .value = 7, .width = 1};
  const hipGraphNode_t node = node_of(graph_, 1);
  const auto failed = [&] {
    return graphs.node_sets.set(
        exec_, node, [&](OperationWriter& to) { return to.node_fill(&params); },
        [&](hipGraphExec_t real, hipGraphNode_t own) {
          const hipError_t result = next().hipGraphExecMemsetNodeSetParams(real, own, &params);
          let_allocations_work(0);
          return result;
        });
  };
  hipError_t result = hipErrorUnknown;
  EXPECT_NO_THROW(result = failed());
  let_allocations_work(-1);
  EXPECT_EQ(hipSuccess, result);
  const ProgramExec& exec = exec_behind(exec_);
  const LockGuard guard(exec.lock);
  const LockGuard recordings(g_recordings_lock);
  EXPECT_TRUE(equal(exec.variant->baked, exec.binding));
}

TEST_F(ExecNodeSetsTest, an_exec_that_was_given_back_is_made_again_before_it_is_set) {
  graphs.settings.exec_memory = 2 * kMiB;
  graphs.settings.looks_at_launches = true;
  make_exec();
  EXPECT_TRUE(graphs.exec_limit.reclaim(-1));
  ASSERT_TRUE(exec_behind(exec_).given_back());
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, set(1, at(2)));
  EXPECT_EQ(0, native_sets_);
  fake.hip->fail.clear();
  EXPECT_EQ(hipSuccess, set(1, at(2)));
  EXPECT_EQ((Addresses{at(2), at(1)}), filled_by(exec_));
}

TEST_F(ExecNodeSetsTest, argument_memory_of_a_set_counts_as_the_variants) {
  ProgramExec& exec = exec_behind(exec_);
  Operation kernel;
  kernel.signature.kind = OperationKind::kKernel;
  const LockGuard exec_guard(exec.lock);
  const LockGuard guard(g_recordings_lock);
  const std::size_t before = exec.variant->device_bytes();
  graphs.builder.note_node_set(*exec.recording, *exec.variant, kernel, nullptr, true);
  EXPECT_LT(0u, exec.variant->patched_bytes);
  EXPECT_EQ(before + exec.variant->patched_bytes, exec.variant->device_bytes());
}

TEST_F(ExecNodeSetsTest, an_exec_that_is_not_the_librarys_passes_and_a_destroyed_one_is_refused) {
  hipGraph_t unknown = nullptr;
  const RecordedCapture recorded = record({at(0)}, 0, &unknown);
  hipGraphExec_t own = nullptr;
  EXPECT_EQ(hipSuccess, next().hipGraphInstantiate(&own, unknown, nullptr, nullptr, 0));
  EXPECT_EQ(hipSuccess, set(own, recorded.nodes[1], at(2)));
  EXPECT_EQ(std::vector<void*>{memory_[2]}, fake::written_by(own));
  EXPECT_EQ(1, native_sets_);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec_));
  EXPECT_EQ(hipErrorInvalidValue, set(1, at(2)));
  EXPECT_EQ(1, native_sets_);
}

}  // namespace
}  // namespace graphpool
