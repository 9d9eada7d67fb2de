// Which way a binding is served, with costs the test sets.
#include <gtest/gtest.h>

#include "shim/costs/cost_model.h"

namespace graphpool {
namespace {

using std::chrono::nanoseconds;

/// An exec costs 1000 ns a node, a patch 100 ns.
void set_costs(CostModel& model, int exec = 1000, int patch = 100) {
  model.observe(Cost::kBuildNode, nanoseconds(0), 1);
  model.observe(Cost::kFirstLaunchNode, nanoseconds(0), 1);
  model.observe(Cost::kInstantiateNode, nanoseconds(exec), 1);
  model.observe(Cost::kPatchNode, nanoseconds(patch), 1);
}

/// A recording of 100 nodes with all its first execs, half of whose nodes differ.
CostModel::Question question() {
  CostModel::Question question;
  question.exec_ns = 100'000;
  question.differing = 50;
  question.patchable = true;
  question.budget = 100'000;
  question.kept = CostModel::kExecsBeforePatching;
  return question;
}

TEST(CostModel, built_in_until_measured_then_averaged) {
  CostModel model;
  for (std::size_t i = 0; i < kCosts; ++i) {
    EXPECT_GT(model.ns(static_cast<Cost>(i)), 0) << cost_name(static_cast<Cost>(i));
    EXPECT_FALSE(model.measured(static_cast<Cost>(i)));
  }
  model.observe(Cost::kPatchNode, nanoseconds(8000), 10);
  EXPECT_TRUE(model.measured(Cost::kPatchNode));
  EXPECT_FALSE(model.measured(Cost::kInstantiateNode));
  EXPECT_DOUBLE_EQ(800, model.ns(Cost::kPatchNode));
  model.observe(Cost::kPatchNode, nanoseconds(1600), 1);
  EXPECT_DOUBLE_EQ(900, model.ns(Cost::kPatchNode));  // one eighth of the way
  model.observe(Cost::kPatchNode, nanoseconds(5), 0);
  EXPECT_DOUBLE_EQ(900, model.ns(Cost::kPatchNode));
  model.observe(Cost::kPatchNode, nanoseconds(100), 1);
  EXPECT_DOUBLE_EQ(500, model.ns(Cost::kPatchNode));  // half of it: lower
}

TEST(CostModel, one_interruption_changes_little) {
  CostModel model;
  model.observe(Cost::kPatchNode, std::chrono::seconds(1), 1);  // the first one
  EXPECT_LE(model.ns(Cost::kPatchNode), 4000);
  model.observe(Cost::kPatchNode, nanoseconds(100), 1);
  model.observe(Cost::kPatchNode, nanoseconds(100), 1);
  const double before = model.ns(Cost::kPatchNode);
  model.observe(Cost::kPatchNode, std::chrono::seconds(1), 1);
  EXPECT_LE(model.ns(Cost::kPatchNode), 1.5 * before);
}

TEST(CostModel, what_an_exec_of_the_graph_took_counts_before_what_nodes_take) {
  CostModel model;
  set_costs(model, 5000);  // of a graph of one node
  ExecCosts of_graph;
  EXPECT_DOUBLE_EQ(model.exec_ns(100), model.exec_ns(100, &of_graph));
  of_graph.observe(Cost::kInstantiateNode, nanoseconds(8000));
  of_graph.observe(Cost::kPatchNode, nanoseconds(77));
  EXPECT_DOUBLE_EQ(8000, model.exec_ns(100, &of_graph));
  of_graph.observe(Cost::kInstantiateNode, nanoseconds(16000));
  EXPECT_DOUBLE_EQ(9000, model.exec_ns(100, &of_graph));
  of_graph.observe(Cost::kInstantiateNode, nanoseconds(5000));
  EXPECT_DOUBLE_EQ(7000, model.exec_ns(100, &of_graph));
}

TEST(CostModel, a_patch_also_uses_up_its_exec) {
  CostModel model;
  set_costs(model);
  EXPECT_DOUBLE_EQ(100'000, model.exec_ns(100));
  EXPECT_DOUBLE_EQ(10 * (100 + 100'000 / 1000.0), model.patch_ns(model.exec_ns(100), 10, 1000));
}

TEST(CostModel, the_first_bindings_get_an_exec_each) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.kept = CostModel::kExecsBeforePatching - 1;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.kept = CostModel::kExecsBeforePatching;
  EXPECT_EQ(Way::kPatch, model.choose(asked));
}

TEST(CostModel, what_cannot_be_patched_gets_an_exec) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.patchable = false;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.is_volatile = true;
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
}

TEST(CostModel, rule_30_volatile_words_never_get_an_exec_of_their_own) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.is_volatile = true;
  asked.kept = 0;
  EXPECT_EQ(Way::kPatch, model.choose(asked));
  for (int i = 0; i < 200; ++i) set_costs(model, 1, 1'000'000);
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
}

TEST(CostModel, where_no_exec_is_left_to_be_patched_later_one_is_kept_for_that) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.patchable = false;
  asked.is_volatile = true;
  asked.base = false;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.strategy = Strategy::kOneShot;
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
}

TEST(CostModel, what_a_patch_costs_is_found_out_where_it_may_be_less_than_thought) {
  CostModel model;
  for (const Cost cost : {Cost::kBuildNode, Cost::kFirstLaunchNode, Cost::kInstantiateNode})
    model.observe(cost, nanoseconds(100), 1);
  auto asked = question();
  asked.exec_ns = model.exec_ns(100);
  asked.differing = 100;
  ASSERT_GT(model.patch_ns(asked.exec_ns, asked.differing, asked.budget), asked.exec_ns);
  for (const bool is_volatile : {false, true}) {
    asked.is_volatile = is_volatile;
    EXPECT_EQ(Way::kPatch, model.choose(asked));
  }
  asked.is_volatile = false;
  asked.kept = 0;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.kept = CostModel::kExecsBeforePatching;
  asked.exec_ns /= 100;
  EXPECT_EQ(Way::kNewExec, model.choose(asked)) << "much dearer by all that is known";
  asked.exec_ns *= 100;
  model.observe(Cost::kPatchNode, nanoseconds(1000), 1);
  EXPECT_EQ(Way::kNewExec, model.choose(asked)) << "it is known now";
}

TEST(CostModel, bindings_that_come_back_get_an_exec_once_patching_has_cost_a_quarter_of_one) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.seen = true;
  asked.last = Way::kPatch;
  const double patch = model.patch_ns(asked.exec_ns, asked.differing, asked.budget);
  int patches = 0;
  while (model.choose(asked) == Way::kPatch) {
    asked.spent_ns += patch;
    ASSERT_LT(++patches, 100);
  }
  EXPECT_EQ(static_cast<int>(asked.exec_ns / 4 / patch), patches);
}

TEST(CostModel, hysteresis_keeps_the_way_while_costs_are_close) {
  CostModel model;
  set_costs(model, 1000, 950);
  auto asked = question();
  asked.differing = 100;
  asked.last = Way::kNewExec;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));  // 5 % cheaper is not enough to change
  asked.last = Way::kPatch;
  EXPECT_EQ(Way::kPatch, model.choose(asked));
  asked.differing = 70;
  asked.last = Way::kNewExec;
  EXPECT_EQ(Way::kPatch, model.choose(asked));  // a third is
}

TEST(CostModel, patching_is_tried_again_now_and_then) {
  CostModel model;
  set_costs(model, 1000, 1'000'000);
  auto asked = question();
  asked.is_volatile = true;
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
  asked.passed_over = CostModel::kPatchAgainAfter;
  EXPECT_EQ(Way::kPatch, model.choose(asked));
  asked.patchable = false;
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
}

TEST(CostModel, a_strategy_is_obeyed) {
  CostModel model;
  set_costs(model);
  auto asked = question();
  asked.strategy = Strategy::kNewExec;
  asked.is_volatile = true;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.strategy = Strategy::kOneShot;
  EXPECT_EQ(Way::kOneShot, model.choose(asked));
  asked.strategy = Strategy::kPatch;
  asked.kept = 1;
  EXPECT_EQ(Way::kPatch, model.choose(asked));
  asked.patchable = false;
  asked.is_volatile = false;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
}

TEST(CostModel, the_programs_own_update_is_made_where_patching_is_not_exact) {
  CostModel model;
  set_costs(model);
  CostModel::Question asked = question();
  asked.patchable = false;
  asked.base = false;
  asked.update = true;
  for (const Strategy strategy : {Strategy::kAuto, Strategy::kPatch, Strategy::kNewExec, Strategy::kOneShot})
    for (const std::size_t kept : {0u, 1u, 4u})
      for (const bool is_volatile : {false, true}) {
        asked.strategy = strategy;
        asked.kept = kept;
        asked.is_volatile = is_volatile;
        EXPECT_EQ(Way::kUpdate, model.choose(asked));
      }
  asked.update = false;
  EXPECT_NE(Way::kUpdate, model.choose(asked));
}

TEST(CostModel, a_binding_that_comes_back_gets_an_exec_where_only_updates_of_kernels_are_saved) {
  CostModel model;
  set_costs(model);
  CostModel::Question asked = question();
  asked.patchable = false;
  asked.update = asked.kernels = asked.seen = true;
  EXPECT_EQ(Way::kUpdate, model.choose(asked)) << "too little was spent so far";
  asked.spoils = true;
  EXPECT_EQ(Way::kNewExec, model.choose(asked)) << "else each exec that is made would be lost to the next update";
  asked.spoils = false;
  asked.spent_ns = CostModel::kSpentBeforeExec * asked.exec_ns;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.strategy = Strategy::kNewExec;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  for (const Strategy strategy : {Strategy::kPatch, Strategy::kOneShot}) {
    asked.strategy = strategy;
    EXPECT_EQ(Way::kUpdate, model.choose(asked));
  }
  asked.strategy = Strategy::kAuto;
  asked.seen = false;
  EXPECT_EQ(Way::kUpdate, model.choose(asked));
  asked.seen = asked.is_volatile = true;
  EXPECT_EQ(Way::kUpdate, model.choose(asked));
  asked.is_volatile = asked.kernels = false;
  EXPECT_EQ(Way::kUpdate, model.choose(asked)) << "the runtime may refuse it";
}

TEST(CostModel, where_an_exec_cannot_be_patched_now_only_few_are_made_for_updates) {
  CostModel model;
  set_costs(model);
  CostModel::Question asked = question();
  asked.patchable = false;
  asked.update = asked.exact = true;
  EXPECT_EQ(Way::kUpdate, model.choose(asked));
  asked.kept = CostModel::kExecsBeforePatching - 1;
  EXPECT_EQ(Way::kNewExec, model.choose(asked));
  asked.kept = CostModel::kExecsBeforePatching;
  asked.seen = true;
  asked.spent_ns = asked.exec_ns;
  EXPECT_EQ(Way::kNewExec, model.choose(asked)) << "it comes back, and updates for such bindings have cost an exec";
  asked.strategy = Strategy::kOneShot;
  EXPECT_EQ(Way::kUpdate, model.choose(asked)) << "no exec for one use";
}

TEST(CostModel, ways_have_names) {
  EXPECT_STREQ("same", way_name(Way::kSame));
  EXPECT_STREQ("patch", way_name(Way::kPatch));
  EXPECT_STREQ("new_exec", way_name(Way::kNewExec));
  EXPECT_STREQ("one_shot", way_name(Way::kOneShot));
  EXPECT_STREQ("stage", way_name(Way::kStage));
  EXPECT_STREQ("native_update", way_name(Way::kUpdate));
  EXPECT_STREQ("copy_kib", cost_name(Cost::kCopyKiB));
}

}  // namespace
}  // namespace graphpool
