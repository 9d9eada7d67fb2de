// Whether a binding is staged where its rules leave that open, by what staging costs and what the other ways do.
#include <chrono>
#include <utility>

#include "shim/execs/exec_store.h"
#include "shim/execs/staging_chooser.h"
#include "shim/hip/private_handles.h"
#include "shim/memory/freed_memory.h"
#include "tests/unit/staged_memory_fixture.h"

namespace graphpool {
namespace {

constexpr int kMany = 1000;  ///< bindings, more than any change takes here

class StagingChooserTest : public StagedMemoryTest {
 protected:
  StagingChooserTest() {
    test_set_runtime_version(kPatchesFills);
    recording_.operations = fills(2);
    recording_.node_count = 2;
    recording_.rebuildable = true;
    exec_.begin(recording_, Binding());
    plan_for({memory_by(kOpenRule), memory_by(kOpenRule)});
    const LockGuard guard(g_recordings_lock);
    recording_.stage_choice.change(true);
  }
  ~StagingChooserTest() override {
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    while (!recording_.variants.empty()) retired.push_back(store_.remove(recording_, recording_.variants.back().get()));
  }

  void plan_for(const std::vector<char*>& memory) {
    binding_ = binding_over(memory);
    plans_->always = StagePlan::make(recording_.operations, binding_, false);
    plans_->open = StagePlan::make(recording_.operations, binding_, true);
    ASSERT_NE(nullptr, plans_->open);
  }
  const StagePlan& open() const { return *plans_->open; }
  /// A ring of the plan, for the present binding.
  Variant& add_ring(const StagePlan& plan, const ProgramExec* owner = nullptr) {
    auto variant = std::make_unique<Variant>();
    variant->plan = {plans_, &plan};
    variant->bake(plan.canonical(binding_));
    return *store_.adopt(recording_, std::move(variant), owner);
  }
  /// An exec that may be patched for it.
  void add_patchable() {
    auto variant = std::make_unique<Variant>();
    EXPECT_EQ(hipSuccess, made_private(next().hipGraphCreate(&variant->graph, 0), &variant->graph));
    variant->bake(fill_binding({1, 2}));
    variant->memory_freed = memory_freed();
    store_.adopt(recording_, std::move(variant), nullptr);
  }

  bool is_open(const StagePlan* plan) {
    const LockGuard guard(g_recordings_lock);
    return chooser_.is_open(exec_, plan);
  }
  /// A binding through slots.
  double staged_ns() {
    const LockGuard guard(g_recordings_lock);
    return StagingChooser::staged_ns(recording_, open());
  }
  /// An exec costs about so much from now on; how much it is.
  double let_exec_cost(double ns) {
    recording_.exec_costs.observe(Cost::kInstantiateNode, std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
    return costs().exec_ns(recording_.node_count, &recording_.exec_costs);
  }
  void let_ring_cost(double ns) {
    const LockGuard guard(g_recordings_lock);
    recording_.ring_ns = ns;
  }
  bool stays(bool seen, double otherwise_ns) {
    const LockGuard guard(g_recordings_lock);
    return chooser_.stays_staged(exec_, binding_, open(), seen, otherwise_ns);
  }
  bool becomes(Way way, std::size_t kept, bool other_ring = false) {
    CostModel::Question question;
    question.exec_ns = costs().exec_ns(recording_.node_count, &recording_.exec_costs);
    question.differing = 1;
    question.budget = 100'000;
    question.kept = kept;
    const LockGuard guard(g_recordings_lock);
    return chooser_.becomes_staged(exec_, binding_, open(), question, way, other_ring);
  }
  bool chooses_open() { return chooser_.chooses_open_plan(exec_, binding_, *plans_); }
  /// How many bindings in a row it holds for.
  template <typename Holds>
  static int bindings_while(const Holds& holds) {
    int bindings = 0;
    while (bindings < kMany && holds()) ++bindings;
    return bindings;
  }
  bool staged() {
    const LockGuard guard(g_recordings_lock);
    return recording_.stage_choice.staged();
  }
  void choose(bool staged) {
    const LockGuard guard(g_recordings_lock);
    recording_.stage_choice.change(staged);
  }

  GraphSettings settings_;
  ExecStore store_{settings_};
  Recording recording_;
  const std::shared_ptr<StagePlans> plans_ = std::make_shared<StagePlans>();
  Binding binding_;
  ProgramExec exec_;
  StagingChooser chooser_{settings_};
};

TEST_F(StagingChooserTest, staging_is_open_until_something_speaks_against_it) {
  EXPECT_TRUE(is_open(&open()));
  EXPECT_FALSE(is_open(nullptr)) << "no rule leaves it open";
  settings_.strategy = Strategy::kPatch;
  EXPECT_FALSE(is_open(&open())) << "the policy decides";
  settings_.strategy = Strategy::kAuto;
  exec_.device = 1;
  EXPECT_FALSE(is_open(&open())) << "the slots would be another device's";
  exec_.device = 0;
  recording_.may_stage = false;
  EXPECT_FALSE(is_open(&open())) << "verification has found a difference";
  recording_.may_stage = true;
  EXPECT_TRUE(is_open(&open()));
  {
    const LockGuard guard(g_recordings_lock);
    recording_.stage_choice.refuse();
  }
  EXPECT_FALSE(is_open(&open())) << "it could not be done";
}

TEST_F(StagingChooserTest, a_binding_costs_its_copies_at_every_launch_and_its_nodes_once) {
  plan_for({memory_by(kOpenRule), memory_by(kTwoSets)});
  ASSERT_EQ(2u, open().sets());
  ASSERT_EQ(4u, open().copies());
  test_set_runtime_version(kPatchesNoFill);
  const double copies = staged_ns();
  EXPECT_DOUBLE_EQ(costs().staged_ns(1, 4, open().copied_bytes(), 0), copies);
  test_set_runtime_version(kPatchesFills);
  EXPECT_DOUBLE_EQ(copies + 2 * 4 * costs().ns(Cost::kPatchNode), staged_ns()) << "of both sets";
  for (int i = 0; i < 3; ++i) recording_.launches.add(Way::kStage);
  {
    const LockGuard guard(g_recordings_lock);
    StagingChooser::note_launches(recording_);
  }
  EXPECT_DOUBLE_EQ(3 * copies + 2 * 4 * costs().ns(Cost::kPatchNode), staged_ns());
}

TEST_F(StagingChooserTest, staging_ends_once_it_has_lost_what_an_exec_costs) {
  add_ring(open());
  const double each = staged_ns(), exec = let_exec_cost(40.5 * each);
  EXPECT_EQ(kMany, bindings_while([&] { return stays(false, each); })) << "no other way would be cheaper";
  const int bindings = bindings_while([&] { return stays(false, 0); });
  EXPECT_LT(bindings * each, exec);
  EXPECT_GE((bindings + 1) * each, exec);
  EXPECT_FALSE(staged());
}

TEST_F(StagingChooserTest, staging_ends_at_a_quarter_of_that_where_an_exec_can_be_patched) {
  add_ring(open());
  add_patchable();
  const double each = staged_ns(), exec = let_exec_cost(40.5 * each);
  const int bindings = bindings_while([&] { return stays(false, 0); });
  EXPECT_LT(bindings * each, exec / 4);
  EXPECT_GE((bindings + 1) * each, exec / 4);
  choose(true);
  {
    const LockGuard guard(g_recordings_lock);
    recording_.may_patch = false;
  }
  EXPECT_GT(bindings_while([&] { return stays(false, 0); }), 3 * bindings) << "a difference was found";
}

TEST_F(StagingChooserTest, a_binding_that_comes_back_gets_an_exec_and_the_graph_stays_staged) {
  add_ring(open());
  const double each = staged_ns(), exec = let_exec_cost(40.5 * each);
  const int bindings = bindings_while([&] { return stays(true, exec); });
  EXPECT_LT(bindings * each, CostModel::kSpentBeforeExec * exec);
  EXPECT_GE((bindings + 1) * each, CostModel::kSpentBeforeExec * exec);
  EXPECT_TRUE(staged());
}

TEST_F(StagingChooserTest, where_the_exec_cannot_have_a_ring_another_one_is_part_of_the_cost) {
  constexpr double kRing = 1e6;
  let_ring_cost(kRing);
  const double each = staged_ns(), exec = let_exec_cost(1e12);
  const auto spent = [&] {
    EXPECT_TRUE(stays(true, exec));
    const LockGuard guard(g_recordings_lock);
    return std::exchange(recording_.spent_ns, 0);
  };
  EXPECT_DOUBLE_EQ(each + kRing, spent()) << "there is none";
  const ProgramExec other;
  add_ring(open(), &other);
  EXPECT_DOUBLE_EQ(each + kRing, spent()) << "it serves another exec";
  Variant& free = add_ring(open());
  EXPECT_DOUBLE_EQ(each, spent());
  free.under_way = 1;
  EXPECT_DOUBLE_EQ(each + kRing, spent()) << "rule 20: it runs";
  add_ring(open(), &exec_).under_way = 1;
  EXPECT_DOUBLE_EQ(each, spent()) << "its own may";
  ++payload_at<FillPayload>(binding_, 0).value;
  EXPECT_DOUBLE_EQ(each + kRing, spent()) << "none does this";
}

TEST_F(StagingChooserTest, the_first_few_bindings_get_an_exec_each) {
  choose(false);
  let_exec_cost(40 * staged_ns());
  constexpr std::size_t kFirst = CostModel::kExecsBeforePatching;
  EXPECT_EQ(kMany, bindings_while([&] { return !becomes(Way::kNewExec, kFirst - 1); }));
  EXPECT_LT(bindings_while([&] { return !becomes(Way::kNewExec, kFirst); }), kMany);
  choose(false);
  settings_.most_variants = kFirst - 1;
  EXPECT_LT(bindings_while([&] { return !becomes(Way::kNewExec, kFirst - 1); }), kMany) << "no more are kept";
}

TEST_F(StagingChooserTest, a_graph_is_staged_once_execs_have_cost_more_by_the_price_of_a_ring) {
  choose(false);
  const double each = staged_ns(), exec = let_exec_cost(10 * each), ring = 60 * each;
  const double lost = exec - StageChoice::kMargin * each;
  let_ring_cost(ring);
  const auto bindings = [&](bool other_ring) {
    choose(false);
    return 1 + bindings_while([&] { return !becomes(Way::kNewExec, CostModel::kExecsBeforePatching, other_ring); });
  };
  const int first = bindings(false);
  EXPECT_TRUE(staged());
  EXPECT_GE(first * lost, ring);
  EXPECT_LT((first - 1) * lost, ring);
  EXPECT_GT(bindings(true), kMany) << "each would need another ring";
  add_ring(open());
  const int later = bindings(false);
  EXPECT_GE(later * lost, exec);
  EXPECT_LT((later - 1) * lost, exec) << "the ring is there";
}

TEST_F(StagingChooserTest, an_update_is_compared_by_all_nodes_and_a_patch_by_those_that_differ) {
  recording_.node_count = 100;
  choose(false);
  let_exec_cost(1e6);
  EXPECT_EQ(kMany, bindings_while([&] { return !becomes(Way::kPatch, 0); })) << "setting one node is less than copies";
  EXPECT_LT(bindings_while([&] { return !becomes(Way::kUpdate, 0); }), kMany);
  EXPECT_TRUE(staged());
}

TEST_F(StagingChooserTest, bindings_that_each_need_a_ring_bring_the_open_buffers_into_it) {
  plan_for({memory_by(kFirstRule), memory_by(kOpenRule)});
  choose(false);
  let_ring_cost(1e6);
  EXPECT_FALSE(chooses_open()) << "one alone changes nothing";
  EXPECT_TRUE(chooses_open());
  EXPECT_TRUE(staged());
  settings_.strategy = Strategy::kPatch;
  EXPECT_FALSE(chooses_open()) << "it is not open";
  settings_.strategy = Strategy::kAuto;
  choose(false);
  const int bindings = bindings_while([&] {
    for (int i = 0; i < kMany; ++i) recording_.launches.add(Way::kStage);
    return !chooses_open();
  });
  EXPECT_EQ(kMany, bindings) << "so many launches of each copy more than a ring costs";
}

TEST_F(StagingChooserTest, open_buffers_are_copied_until_that_has_lost_what_a_ring_costs) {
  plan_for({memory_by(kFirstRule), memory_by(kOpenRule)});
  add_ring(*plans_->always);
  const double more = staged_ns() - [&] {
    const LockGuard guard(g_recordings_lock);
    return StagingChooser::staged_ns(recording_, *plans_->always);
  }();
  let_ring_cost(9.5 * more);
  EXPECT_FALSE(chooses_open()) << "a ring without them is there, and none with them";
  add_ring(open());
  choose(true);
  EXPECT_EQ(9, bindings_while([&] { return chooses_open(); }));
  EXPECT_FALSE(staged());
}

}  // namespace
}  // namespace graphpool
