// What an exec leaves behind when it goes.
#include "shim/graphs/exec_bindings.h"
#include "tests/support/counting_new.h"
#include "tests/unit/graphs_fixture.h"

namespace graphpool {
namespace {

class ExecBindingsTest : public GraphsTest {};

TEST_F(ExecBindingsTest, an_exec_with_user_objects_frees_its_recording_and_its_variant_also_without_host_memory) {
  const hipGraph_t graph = defer({5}, 0, true);
  const hipGraphExec_t exec = instantiate(graph);
  EXPECT_EQ(hipSuccess, graphs.tracked.destroy(graph));
  ASSERT_NE(nullptr, exec_behind(exec).objects);
  EXPECT_EQ(1u, users_of(*find(1, 0)));
  let_allocations_work(0);
  try {
    static_cast<void>(graphs.destroy_exec(exec));
  } catch (const std::bad_alloc&) {
  }
  let_allocations_work(-1);
  EXPECT_EQ(0u, users_of(*find(1, 0)));
  EXPECT_EQ(1u, free_variants_of(*find(1, 0)));
}

}  // namespace
}  // namespace graphpool
