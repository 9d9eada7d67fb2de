// What a variant takes with it when it goes, and when it may not serve another binding.
#include <gtest/gtest.h>

#include "shim/execs/recording.h"
#include "shim/hip/private_handles.h"
#include "shim/memory/freed_memory.h"
#include "tests/unit/fake_graphs.h"
#include "tests/unit/fills.h"

namespace graphpool {
namespace {

class VariantTest : public testing::Test {
 protected:
  void make(Variant& variant) {
    ASSERT_EQ(hipSuccess, made_private(next().hipGraphCreate(&variant.graph, 0), &variant.graph));
    const hipError_t made = next().hipGraphInstantiate(&variant.exec, variant.graph, nullptr, nullptr, 0);
    ASSERT_EQ(hipSuccess, made_private(made, &variant.exec));
  }

  fake::Install fake;
  fake::InstallGraphs graphs;
};

TEST_F(VariantTest, takes_its_exec_and_its_graph_along) {
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  {
    Variant variant;
    make(variant);
    graph = variant.graph;
    exec = variant.exec;
    EXPECT_TRUE(g_private_handles.has(graph) && g_private_handles.has(exec));
  }
  EXPECT_TRUE(graphs.state.graphs.empty());
  EXPECT_TRUE(graphs.state.execs.empty());
  EXPECT_FALSE(g_private_handles.has(graph) || g_private_handles.has(exec)) << "the runtime may give them out again";
}

TEST_F(VariantTest, that_goes_leaves_no_error_to_the_program) {
  auto variant = std::make_unique<Variant>();
  make(*variant);
  fake.hip->fail["hipGraphExecDestroy"] = fake.hip->fail["hipGraphDestroy"] = hipErrorUnknown;
  variant.reset();
  EXPECT_EQ(2, fake.hip->count["hipGraphExecDestroy"] + fake.hip->count["hipGraphDestroy"]);
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError());
}

TEST_F(VariantTest, rule_20_is_not_idle_while_a_launch_is_under_way_or_may_run) {
  Variant variant;
  EXPECT_TRUE(variant.idle());
  variant.under_way = 1;
  EXPECT_FALSE(variant.idle());
  variant.under_way = 0;
  const auto stream = reinterpret_cast<hipStream_t>(std::uintptr_t{0x7a0000});
  variant.launches.add(reinterpret_cast<StreamKey>(stream), stream, next_launch());
  EXPECT_FALSE(variant.idle());
  stream_waited(reinterpret_cast<StreamKey>(stream), launch_clock());
  EXPECT_TRUE(variant.idle());
}

TEST_F(VariantTest, has_outlived_memory_where_a_node_of_it_may_hold_on_to_it) {
  Recording of_fills, of_kernels;
  of_fills.operations = of_kernels.operations = fills(2);
  for (Operation& each : of_kernels.operations)
    if (each.signature.kind == OperationKind::kFill) each.signature.kind = OperationKind::kKernel;
  Variant variant;
  variant.memory_freed = memory_freed();
  EXPECT_FALSE(outlived_memory(of_fills, variant));
  note_memory_freed();
  EXPECT_TRUE(outlived_memory(of_fills, variant));
  EXPECT_FALSE(outlived_memory(of_kernels, variant)) << "arguments are addresses and nothing else";
  EXPECT_TRUE(outlived_memory(of_fills.operations[1], variant.memory_freed));
  EXPECT_FALSE(outlived_memory(of_fills.operations[0], variant.memory_freed)) << "the beginning makes no node";
}

}  // namespace
}  // namespace graphpool
