// What an exec is made of, and when none is made.
#include "shim/graphs/instantiation.h"
#include "shim/hip/private_handles.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class InstantiationTest : public GraphsTest {
 protected:
  int instantiates() const { return runtime.state.instantiates; }
};

TEST_F(InstantiationTest, a_graph_of_the_librarys_own_is_made_for_one_that_is_deferred) {
  const hipGraphExec_t exec = instantiate(defer({5, 6}));
  EXPECT_TRUE(graphs.execs.gave_out(exec));
  EXPECT_EQ(1, instantiates());
  EXPECT_TRUE(equal(fill_binding({5, 6}), exec_behind(exec).binding)) << "updates are compared with it";
  EXPECT_EQ((Addresses{5, 6}), filled_by(exec));
  EXPECT_TRUE(g_private_handles.has(launched_)) << "the program does not know it";
}

TEST_F(InstantiationTest, a_free_exec_with_the_binding_serves_again) {
  const hipGraphExec_t first = exec_of({5, 6});
  filled_by(first);
  const hipGraphExec_t real = launched_;
  const hipGraphExec_t second = exec_of({5, 6});
  EXPECT_EQ(2, instantiates()) << "the first is held still";
  EXPECT_EQ((Addresses{5, 6}), filled_by(second));
  EXPECT_NE(real, launched_);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(first));
  const hipGraphExec_t third = exec_of({5, 6});
  EXPECT_EQ(2, instantiates());
  EXPECT_EQ((Addresses{5, 6}), filled_by(third));
  EXPECT_EQ(real, launched_);
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(second));
  EXPECT_EQ((Addresses{5, 8}), filled_by(exec_of({5, 8})));
  EXPECT_EQ(3, instantiates()) << "that is another binding";
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(1u, graphs.instantiation.avoided());
}

TEST_F(InstantiationTest, rule_20_an_exec_that_may_still_run_serves_nobody_else) {
  const hipGraphExec_t first = exec_of({5});
  const hipStream_t here = stream();
  EXPECT_EQ(hipSuccess, launch(first, here));
  const hipGraphExec_t running = launched_;
  EXPECT_EQ(hipSuccess, graphs.destroy_exec(first));
  filled_by(exec_of({5}));
  EXPECT_NE(running, launched_);
  EXPECT_EQ(1u, runtime.state.execs.count(running)) << "it is not destroyed either";
}

TEST_F(InstantiationTest, what_cannot_be_made_of_the_recording_is_made_by_the_programs_own_call) {
  const hipGraph_t graph = capture({5}), with_objects = defer({6}, 0, true);
  find(1, 0)->rebuildable = false;
  const hipGraphExec_t exec = instantiate(graph);
  EXPECT_TRUE(graphs.execs.gave_out(exec));
  EXPECT_EQ(Addresses{5}, filled_by(exec));
  const auto& nodes = runtime.state.graphs.at(graph);
  EXPECT_EQ(nodes.front().first, runtime.state.execs.at(launched_).front().first) << "its nodes are the program's";
  const hipGraphExec_t of_runtime = instantiate(with_objects);
  EXPECT_FALSE(graphs.execs.gave_out(of_runtime)) << "rule 11: what the library keeps would hold its user objects";
}

TEST_F(InstantiationTest, with_flags_or_by_an_unknown_graph_it_is_the_runtimes) {
  const hipGraph_t graph = defer({5});
  hipGraphExec_t exec = nullptr;
  EXPECT_EQ(hipSuccess, instantiate(&exec, graph, 2));
  EXPECT_FALSE(graphs.execs.gave_out(exec));
  EXPECT_EQ(1u, runtime.state.execs.count(exec));
  EXPECT_FALSE(graphs.tracked.find(graph)->unmodified()) << "what else it does is not known";
  hipGraph_t unknown = nullptr;
  EXPECT_EQ(hipSuccess, next().hipGraphCreate(&unknown, 0));
  EXPECT_EQ(hipSuccess, instantiate(&exec, unknown));
  EXPECT_FALSE(graphs.execs.gave_out(exec));
}

TEST_F(InstantiationTest, rule_15_a_lack_of_memory_shows_here_and_leaves_nothing) {
  const hipGraph_t graph = defer({5});
  const std::size_t users = users_of(*find(1, 0));
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  hipGraphExec_t exec = nullptr;
  EXPECT_EQ(hipErrorOutOfMemory, instantiate(&exec, graph));
  EXPECT_EQ(nullptr, exec);
  EXPECT_EQ(users, users_of(*find(1, 0)));
  EXPECT_TRUE(runtime.state.execs.empty());
  fake.hip->fail.clear();
  EXPECT_EQ(Addresses{5}, filled_by(instantiate(graph)));
}

TEST_F(InstantiationTest, without_reuse_each_call_is_the_runtimes) {
  const hipGraph_t graph = defer({5});
  graphs.settings.reuse = false;
  const hipGraphExec_t exec = instantiate(graph);
  EXPECT_FALSE(graphs.execs.gave_out(exec));
  EXPECT_EQ(Addresses{5}, filled_by(exec));
}

}  // namespace
}  // namespace graphpool
