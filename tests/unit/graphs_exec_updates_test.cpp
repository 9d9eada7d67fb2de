// What an update of an exec makes, and when it is the program's own call.
#include "shim/graphs/exec_updates.h"
#include "shim/recording/reason_counts.h"
#include "tests/support/counting_new.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class ExecUpdatesTest : public GraphsTest {
 protected:
  int native_updates() const { return runtime.state.updates; }
  ExecState state_of(hipGraphExec_t exec) { return exec_behind(exec).state(); }
};

TEST_F(ExecUpdatesTest, another_binding_of_its_recording_is_served_without_a_call) {
  const hipGraphExec_t exec = exec_of({5, 6});
  const std::size_t users = users_of(*find(2, 0));
  EXPECT_EQ(hipSuccess, update(exec, defer({5, 7})));
  EXPECT_EQ(hipGraphExecUpdateSuccess, outcome_);
  EXPECT_EQ(nullptr, error_node_);
  EXPECT_EQ(0, native_updates());
  EXPECT_EQ((Addresses{5, 7}), filled_by(exec));
  EXPECT_EQ(users + 1, users_of(*find(2, 0))) << "the graph's; the update holds nothing";
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(1u, graphs.updates.avoided());
}

TEST_F(ExecUpdatesTest, the_same_binding_again_makes_nothing) {
  const hipGraphExec_t exec = exec_of({5});
  const hipGraph_t graph = defer({5});
  const int calls = fake.hip->calls;
  EXPECT_EQ(hipSuccess, update(exec, graph));
  EXPECT_EQ(hipGraphExecUpdateSuccess, outcome_);
  EXPECT_EQ(1, runtime.state.instantiates);
  EXPECT_EQ(0, count("hipGraphExecUpdate") + runtime.state.sets);
  EXPECT_EQ(0, fake.hip->calls - calls);
}

TEST_F(ExecUpdatesTest, rule_49_where_patching_is_not_exact_the_programs_own_update_is_made) {
  test_set_runtime_version(kPatchesNoFill);
  const hipGraphExec_t exec = exec_of({5});
  filled_by(exec);
  const hipGraphExec_t real = launched_;
  EXPECT_EQ(hipSuccess, update(exec, defer({6})));
  EXPECT_EQ(1, native_updates());
  EXPECT_EQ(1, runtime.state.instantiates) << "no exec where the program asked for an update";
  EXPECT_EQ(Addresses{6}, filled_by(exec));
  EXPECT_EQ(real, launched_);
  EXPECT_EQ(ExecState::kServed, state_of(exec));
  EXPECT_EQ(Health::kUnsure, health_of(*exec_behind(exec).variant)) << "it serves its holder alone";
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_EQ(0u, runtime.state.execs.count(real)) << "and goes with it";
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(0u, graphs.updates.avoided());
}

TEST_F(ExecUpdatesTest, an_own_update_that_the_runtime_refuses_is_made_once_more_as_the_program_asked) {
  test_set_runtime_version(kPatchesNoFill);
  const hipGraphExec_t exec = exec_of({5});
  const hipGraph_t graph = defer({6});
  fake.hip->fail["hipGraphExecUpdate"] = hipErrorGraphExecUpdateFailure;
  EXPECT_EQ(hipErrorGraphExecUpdateFailure, update(exec, graph));
  EXPECT_EQ(2, count("hipGraphExecUpdate"));
  fake.hip->fail.clear();
  EXPECT_EQ(ExecState::kLeft, state_of(exec));
  EXPECT_EQ(Addresses{5}, filled_by(exec));
}

TEST_F(ExecUpdatesTest, what_the_runtime_took_from_one_recording_to_another_is_served_from_then_on) {
  const hipGraphExec_t exec = exec_of({5}, 1);
  EXPECT_EQ(hipSuccess, update(exec, defer({6}, 2)));
  EXPECT_EQ(1, native_updates()) << "the first time it is the runtime's";
  EXPECT_EQ(ExecState::kOwn, state_of(exec));
  EXPECT_EQ(Addresses{6}, filled_by(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({7}, 1)));
  EXPECT_EQ(2, native_updates()) << "from 2 to 1 is another step";
  EXPECT_EQ(hipSuccess, update(exec, defer({8}, 2)));
  EXPECT_EQ(2, native_updates());
  EXPECT_EQ(ExecState::kServed, state_of(exec));
  EXPECT_EQ(find(1, 2), exec_behind(exec).recording);
  EXPECT_EQ(Addresses{8}, filled_by(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({9}, 1)));
  EXPECT_EQ(2, native_updates());
  EXPECT_EQ(Addresses{9}, filled_by(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({10}, 3)));
  EXPECT_EQ(4, native_updates()) << "the exec that HIP updated before is brought up to date first";
  EXPECT_EQ(Addresses{10}, filled_by(exec));
}

TEST_F(ExecUpdatesTest, an_update_that_the_runtime_refuses_leaves_the_exec_to_it) {
  const hipGraphExec_t exec = exec_of({5});
  EXPECT_EQ(hipErrorGraphExecUpdateFailure, update(exec, defer({6, 7})));
  EXPECT_EQ(hipGraphExecUpdateErrorTopologyChanged, outcome_);
  EXPECT_EQ(ExecState::kLeft, state_of(exec));
  EXPECT_EQ(Addresses{5}, filled_by(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({8})));
  EXPECT_EQ(1, native_updates()) << "its updates are not followed any more";
  EXPECT_EQ(Addresses{8}, filled_by(exec));
}

TEST_F(ExecUpdatesTest, rule_14_on_another_device_an_update_is_the_runtimes) {
  const hipGraphExec_t exec = exec_of({5});
  const hipGraph_t graph = defer({6});
  fake::t_device = 1;
  EXPECT_EQ(hipSuccess, update(exec, graph));
  fake::t_device = 0;
  EXPECT_EQ(1, native_updates());
}

TEST_F(ExecUpdatesTest, by_a_graph_that_is_not_known_an_update_is_the_runtimes) {
  const hipGraphExec_t exec = exec_of({5});
  hipGraph_t unknown = nullptr;
  record({6}, 0, &unknown);
  EXPECT_EQ(hipSuccess, update(exec, unknown));
  EXPECT_EQ(1, native_updates());
  EXPECT_EQ(Addresses{6}, filled_by(exec));
}

TEST_F(ExecUpdatesTest, an_exec_that_an_unknown_graph_has_updated_is_compared_again_where_none_is_patched) {
  test_set_runtime_version(kPatchesNoFill);
  const hipGraphExec_t exec = exec_of({5});
  hipGraph_t unknown = nullptr;
  record({6}, 0, &unknown);
  EXPECT_EQ(hipSuccess, update(exec, unknown));
  EXPECT_EQ(ExecState::kOwn, state_of(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({7})));
  EXPECT_EQ(2, native_updates());
  EXPECT_EQ(ExecState::kServed, state_of(exec));
  EXPECT_EQ(Addresses{7}, filled_by(exec));
  EXPECT_EQ(hipSuccess, update(exec, defer({7})));
  EXPECT_EQ(2, native_updates()) << "it is known what it does";
}

TEST_F(ExecUpdatesTest, a_graph_that_is_not_known_is_not_said_to_be_changed_where_child_graphs_are_too_many) {
  const hipGraphExec_t exec = exec_of({5});
  exec_behind(exec).made_for_children = ProgramExec::kMostForChildren;
  hipGraph_t unknown = nullptr;
  record({6}, 0, &unknown);
  const auto counted = [](std::string_view wanted) {
    std::uint64_t all = 0;
    for (const auto& [reason, times] : g_left_to_runtime.all()) all += reason == wanted ? times : 0;
    return all;
  };
  const std::uint64_t changed = counted("an update by a graph that the program has changed");
  const std::uint64_t children = counted("updates by graphs with other child graphs");
  EXPECT_EQ(hipSuccess, update(exec, unknown));
  EXPECT_EQ(ExecState::kLeft, state_of(exec));
  EXPECT_EQ(changed, counted("an update by a graph that the program has changed"));
  EXPECT_EQ(children + 1, counted("updates by graphs with other child graphs"));
}

TEST_F(ExecUpdatesTest, an_exec_for_which_memory_runs_out_holds_the_recording_no_more) {
  test_set_runtime_version(kPatchesNoFill);
  const hipGraphExec_t exec = exec_of({5});
  hipGraph_t unknown = nullptr;
  record({6}, 0, &unknown);
  EXPECT_EQ(hipSuccess, update(exec, unknown));
  exec_of({8});  // has the place that the first one had in the store
  const hipGraph_t graph = defer({7});
  const std::size_t users = users_of(*find(1, 0));
  test_next().hipGraphExecUpdate = [](hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*) {
    let_allocations_work(0);
    return hipSuccess;
  };
  EXPECT_THROW(static_cast<void>(update(exec, graph)), std::bad_alloc);
  let_allocations_work(-1);
  EXPECT_EQ(ExecState::kOwn, state_of(exec));
  EXPECT_EQ(users, users_of(*find(1, 0)));
}

TEST_F(ExecUpdatesTest, an_update_that_tells_nothing_is_the_runtimes) {
  const hipGraphExec_t exec = exec_of({5});
  test_next().hipGraphExecUpdate = [](hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*) {
    return hipErrorInvalidValue;  // as it does without a place for its answers
  };
  EXPECT_EQ(hipErrorInvalidValue, graphs.updates.update(exec, defer({6}), nullptr, nullptr));
  EXPECT_EQ(ExecState::kLeft, state_of(exec));
}

}  // namespace
}  // namespace graphpool
