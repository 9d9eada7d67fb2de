// Execs that become the program's own: nobody else has them from then on.
#include "shim/graphs/own_execs.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class OwnExecsTest : public GraphsTest {
 protected:
  hipError_t expose(hipGraphExec_t* exec, hipGraphNode_t* node = nullptr) {
    return graphs.own.expose(exec, node, "a test");
  }
  Addresses addresses_of(hipGraphExec_t real) {
    Addresses addresses;
    for (void* const each : fake::written_by(real)) addresses.push_back(reinterpret_cast<std::uint64_t>(each));
    return addresses;
  }
};

TEST_F(OwnExecsTest, rule_02_an_exposed_exec_serves_its_holder_alone_and_goes_with_it) {
  const hipGraphExec_t exec = exec_of({5});
  Recording& recording = *find(1, 0);
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_EQ(Addresses{5}, addresses_of(real));
  EXPECT_EQ(ExecState::kLeft, exec_behind(exec).state());
  EXPECT_EQ(0u, users_of(recording));
  fake::g_graphs->execs.at(real).front().second.dst = reinterpret_cast<void*>(9);  // the program changes it
  EXPECT_EQ(Addresses{9}, filled_by(exec)) << "it is what the program launches";
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_EQ(0u, runtime.state.execs.count(real));
  EXPECT_EQ(Addresses{5}, filled_by(exec_of({5})));
}

TEST_F(OwnExecsTest, its_nodes_are_found_by_those_of_the_graph_it_was_made_of) {
  const hipGraph_t graph = defer({5, 6});
  const hipGraphExec_t exec = instantiate(graph);
  TrackedGraph& tracked = *graphs.tracked.find(graph);
  hipGraphNode_t node = nullptr;
  {
    const LockGuard guard(tracked.lock);
    node = graphs.node_table.add_handle(tracked, 2);
  }
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipSuccess, expose(&real, &node));
  const fake::NodeRow& nodes = runtime.state.execs.at(real);
  EXPECT_EQ(nodes[1].first, node) << "the second fill";
}

TEST_F(OwnExecsTest, an_exec_of_another_graph_of_the_programs_is_made_anew_so_that_its_nodes_are_known) {
  const hipGraph_t graph = capture({5});
  find(1, 0)->rebuildable = false;  // what serves it is made of the program's own graph
  const hipGraphExec_t exec = instantiate(graph), other = instantiate(graph);
  const hipGraphExec_t before = real_exec(exec), of_other = real_exec(other);
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_EQ(before, real) << "its nodes are those that the program names";
  exec_behind(other).source = 0;  // as after an update by another graph
  real = other;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_NE(of_other, real);
  EXPECT_EQ(Addresses{5}, addresses_of(real));
}

TEST_F(OwnExecsTest, rule_03_its_launches_come_behind_those_of_the_variant_that_served_it) {
  const hipGraphExec_t exec = exec_of({5});
  const hipStream_t here = stream(), there = stream();
  EXPECT_EQ(hipSuccess, launch(exec, here));
  {
    const LockGuard guard(g_recordings_lock);
    exec_behind(exec).variant->worsen(Health::kBroken);
  }
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_NE(launched_, real) << "a broken one does not do what the program asked for";
  EXPECT_EQ(hipSuccess, launch(exec, there));
  EXPECT_EQ(real, launched_);
  EXPECT_EQ(1, count("hipStreamWaitEvent"));
}

TEST_F(OwnExecsTest, where_it_cannot_be_made_the_error_is_the_runtimes_and_nothing_changes) {
  const hipGraphExec_t exec = exec_of({5});
  {
    const LockGuard guard(g_recordings_lock);
    exec_behind(exec).variant->worsen(Health::kBroken);
  }
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipErrorOutOfMemory, expose(&real));
  EXPECT_EQ(exec, real);
  EXPECT_EQ(ExecState::kServed, exec_behind(exec).state());
}

TEST_F(OwnExecsTest, an_exec_that_was_updated_past_its_recording_is_brought_up_to_date) {
  const hipGraphExec_t exec = exec_of({5}, 1);
  EXPECT_EQ(hipSuccess, update(exec, defer({6}, 2)));
  EXPECT_EQ(hipSuccess, update(exec, defer({7}, 1)));
  const hipGraphExec_t own = real_exec(exec);
  EXPECT_EQ(hipSuccess, update(exec, defer({8}, 2)));
  ASSERT_NE(own, real_exec(exec)) << "a variant serves it";
  hipGraphExec_t real = exec;
  EXPECT_EQ(hipSuccess, expose(&real));
  EXPECT_EQ(own, real) << "the program's nodes are its nodes";
  EXPECT_EQ(Addresses{8}, addresses_of(real));
}

TEST_F(OwnExecsTest, rule_20_an_own_exec_that_another_replaces_while_it_is_launched_stays_until_the_launch_is_noted) {
  const hipGraphExec_t exec = exec_of({5}, 1);
  EXPECT_EQ(hipSuccess, update(exec, defer({6}, 2)));
  EXPECT_EQ(hipSuccess, update(exec, defer({7}, 1)));
  const hipGraphExec_t own = real_exec(exec);
  const hipGraph_t graph = defer({8}, 2);
  const hipStream_t here = stream();
  in_launch_ = [&] {
    EXPECT_EQ(hipSuccess, update(exec, graph));
    fake.hip->fail["hipGraphExecUpdate"] = hipErrorInvalidValue;
    hipGraphExec_t real = exec;
    EXPECT_EQ(hipSuccess, expose(&real));
    EXPECT_NE(own, real) << "it cannot be brought up to date";
    EXPECT_EQ(1u, runtime.state.execs.count(own));
  };
  EXPECT_EQ(hipSuccess, launch(exec, here));
  EXPECT_EQ(own, launched_);
  EXPECT_EQ(Addresses{7}, filled_);
  complete(here);
  graphs.store.evict_if_due();
  EXPECT_EQ(0u, runtime.state.execs.count(own));
  EXPECT_EQ(Addresses{8}, filled_by(exec));
}

TEST_F(OwnExecsTest, what_the_library_does_not_know_passes_and_what_is_destroyed_is_refused) {
  const auto unknown = reinterpret_cast<hipGraphExec_t>(std::uintptr_t{0x7770});
  hipGraphExec_t exec = unknown;
  EXPECT_EQ(hipSuccess, expose(&exec));
  EXPECT_EQ(unknown, exec);
  exec = exec_of({5});
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(exec));
  EXPECT_EQ(hipErrorInvalidValue, expose(&exec));
}

}  // namespace
}  // namespace graphpool
