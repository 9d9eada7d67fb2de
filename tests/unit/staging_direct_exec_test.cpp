// Tests of shim/staging/direct_exec.h.
#include "shim/memory/freed_memory.h"
#include "shim/staging/direct_exec.h"
#include "tests/unit/rings_fixture.h"

namespace graphpool {
namespace {

class DirectExecTest : public RingsTest {
 protected:
  DirectExecTest() {
    plan_by(kFirstRule);
    graph_ = std::make_unique<RingGraph>(graph());
    direct_ = std::make_unique<DirectExec>(*graph_);
  }
  /// The program binds this memory so often, which is where it was before.
  void stay(char* memory, std::uint32_t bindings) {
    for (std::uint32_t i = 0; i < bindings; ++i) direct_->settle(*graph_, {memory}, true, memory_freed());
  }
  void move_to(char* memory) { direct_->settle(*graph_, {memory}, false, memory_freed()); }

  std::unique_ptr<RingGraph> graph_;
  std::unique_ptr<DirectExec> direct_;
};

TEST_F(DirectExecTest, it_is_made_once_buffers_have_stayed) {
  stay(first_, DirectExec::kBindings - 2);
  EXPECT_FALSE(*direct_);
  stay(first_, 1);
  ASSERT_TRUE(direct_->in_use());
  EXPECT_EQ(std::vector<void*>{first_}, fake::written_by(direct_->exec())) << "it copies nothing";
  const fake::NodeRow& nodes = graphs.state.execs.at(direct_->exec());
  ASSERT_EQ(2u, nodes.size());
  EXPECT_EQ(direct_->last().event(), nodes[1].second.event);
  EXPECT_EQ(std::vector{nodes[0].first}, nodes[1].second.after);
}

TEST_F(DirectExecTest, buffers_that_moved_end_its_use_and_make_it_wait_twice_as_long) {
  stay(first_, DirectExec::kBindings - 1);
  ASSERT_TRUE(direct_->in_use());
  char* const moved = memory_by(kFirstRule);
  move_to(moved);
  EXPECT_FALSE(direct_->in_use());
  EXPECT_FALSE(*direct_);
  EXPECT_TRUE(graphs.state.execs.empty());
  stay(moved, 2 * DirectExec::kBindings - 2);
  EXPECT_FALSE(*direct_);
  stay(moved, 1);
  ASSERT_TRUE(direct_->in_use());
  EXPECT_EQ(std::vector<void*>{moved}, fake::written_by(direct_->exec()));
}

TEST_F(DirectExecTest, rule_20_what_may_still_run_goes_with_a_later_binding) {
  stay(first_, DirectExec::kBindings - 1);
  const hipStream_t here = stream();
  ASSERT_EQ(hipSuccess, run(direct_->exec(), here));
  direct_->last().launched(key(here), here, true);
  char* const moved = memory_by(kFirstRule);
  move_to(moved);
  EXPECT_FALSE(direct_->in_use());
  EXPECT_TRUE(*direct_);
  move_to(first_);
  EXPECT_TRUE(direct_->in_use()) << "it works on these buffers still";
  fake::finish(here);
  move_to(moved);
  EXPECT_FALSE(*direct_);
}

TEST_F(DirectExecTest, memory_that_was_freed_matters_where_a_node_may_hold_on_to_it) {
  stay(first_, DirectExec::kBindings - 1);
  ASSERT_TRUE(direct_->in_use());
  note_memory_freed();
  direct_->look_again({first_}, memory_freed());
  EXPECT_FALSE(direct_->in_use()) << "a fill may";
  EXPECT_TRUE(*direct_) << "it only looks";
}

TEST_F(DirectExecTest, rule_15_where_it_cannot_be_made_launches_copy_and_it_is_not_tried_each_time) {
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  stay(first_, DirectExec::kBindings - 1);
  EXPECT_FALSE(*direct_);
  EXPECT_EQ(1, count("hipGraphInstantiate"));
  EXPECT_TRUE(graphs.state.graphs.empty());
  stay(first_, DirectExec::kBindings - 1);
  EXPECT_EQ(1, count("hipGraphInstantiate"));
  fake.hip->fail.clear();
  stay(first_, 1);
  EXPECT_TRUE(direct_->in_use());
}

TEST_F(DirectExecTest, rule_31_what_went_with_a_reset_is_not_destroyed) {
  stay(first_, DirectExec::kBindings - 1);
  direct_->forget();
  EXPECT_FALSE(direct_->in_use());
  direct_.reset();
  EXPECT_EQ(0, count("hipGraphExecDestroy"));
  EXPECT_EQ(1u, graphs.state.execs.size());
}

}  // namespace
}  // namespace graphpool
