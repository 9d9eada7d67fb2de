// Which variant serves a binding: a free one, a patched one, a new one, or one that works on slots.
#include <chrono>
#include <new>
#include <utility>

#include "shim/execs/exec_supply.h"
#include "shim/memory/freed_memory.h"
#include "tests/unit/rings_fixture.h"

namespace graphpool {
namespace {

class ExecSupplyTest : public RingsTest {
 protected:
  using Written = std::vector<void*>;

  ExecSupplyTest() {
    settings_.strategy = Strategy::kNewExec;
    recording_.operations = fills(2);
    recording_.node_count = 2;
    recording_.rebuildable = true;
    for (ProgramExec* const exec : {&exec_, &other_}) exec->begin(recording_, Binding());
  }
  ~ExecSupplyTest() override {
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    while (!recording_.variants.empty()) retired.push_back(store_.remove(recording_, recording_.variants.back().get()));
  }

  /// Two fills, the first of this memory.
  static Binding over(const void* memory, std::uint64_t second = 0x5000) {
    return fill_binding({reinterpret_cast<std::uint64_t>(memory), second});
  }
  static Binding over(const void* memory, const void* second) {
    return over(memory, reinterpret_cast<std::uint64_t>(second));
  }
  hipError_t obtain(ProgramExec& exec, const Binding& binding, const OtherSources& others = {}) {
    served_ = {};
    return supply_.obtain(exec, binding, others, &served_);
  }
  /// The exec has this binding from now on.
  Variant* serve(ProgramExec& exec, const Binding& binding) {
    EXPECT_EQ(hipSuccess, obtain(exec, binding));
    exec.begin(recording_, binding);
    exec.begin_service(served_.variant, served_.way);
    return served_.variant;
  }
  /// Its variant is free.
  void let_go(ProgramExec& exec) {
    const LockGuard guard(g_recordings_lock);
    store_.give(*exec.variant_in_call(), nullptr);
    exec.begin_service(nullptr, Way::kSame);
  }
  /// An exec would cost a day, so that staging pays where rules leave it open.
  void let_staging_pay() {
    settings_.strategy = Strategy::kAuto;
    recording_.exec_costs.observe(Cost::kInstantiateNode, std::chrono::hours(24));
  }
  /// And the recording is staged.
  void choose_staging() {
    let_staging_pay();
    const LockGuard guard(g_recordings_lock);
    recording_.stage_choice.change(true);
  }
  void use_up_memory() { fake.hip->total_bytes = fake.hip->used_bytes[0]; }
  static const ProgramExec* owner_of(const Variant& variant) {
    const LockGuard guard(g_recordings_lock);
    return variant.owner();
  }
  bool may_be_chosen_again() {
    const LockGuard guard(g_recordings_lock);
    EXPECT_FALSE(recording_.stage_choice.staged());
    return recording_.stage_choice.possible();
  }
  const char* not_staged() {
    const LockGuard guard(g_recordings_lock);
    return recording_.not_staged;
  }

  GraphSettings settings_;
  ExecStore store_{settings_};
  ExecBuilder builder_{store_, settings_};
  ExecSupply supply_{store_, builder_, settings_};
  Recording recording_;
  ProgramExec exec_, other_;
  Served served_;
};

TEST_F(ExecSupplyTest, a_free_variant_that_has_the_binding_serves_it_without_a_call) {
  const Variant* const first = serve(exec_, fill_binding({1, 2}));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_TRUE(served_.made);
  EXPECT_NE(first, serve(other_, fill_binding({1, 2}))) << "it serves another exec";
  let_go(exec_);
  const int calls = fake.hip->calls;
  EXPECT_EQ(first, serve(exec_, fill_binding({1, 2})));
  EXPECT_EQ(Way::kSame, served_.way);
  EXPECT_FALSE(served_.made);
  EXPECT_EQ(&exec_, owner_of(*first));
  EXPECT_EQ(calls, fake.hip->calls);
}

TEST_F(ExecSupplyTest, an_exec_that_is_made_for_one_use_is_not_kept) {
  const Variant* const kept = serve(exec_, fill_binding({1, 2}));
  settings_.strategy = Strategy::kOneShot;
  const Variant* const once = serve(other_, fill_binding({3, 4}));
  EXPECT_EQ(Way::kOneShot, served_.way);
  const LockGuard guard(g_recordings_lock);
  EXPECT_TRUE(kept->kept());
  EXPECT_FALSE(once->kept());
}

TEST_F(ExecSupplyTest, where_none_is_made_of_the_recording_one_of_the_programs_graph_serves) {
  int asked = 0;
  const auto make = [&](std::unique_ptr<Variant>* made) {
    ++asked;
    *made = std::make_unique<Variant>();
    (*made)->source = 7;
    note_memory_freed();
    return hipSuccess;
  };
  const NativeVariant native = make;
  EXPECT_EQ(hipSuccess, obtain(exec_, fill_binding({1, 2}), {&native, false}));
  EXPECT_EQ(0, asked) << "one of the library's own can be patched later";
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipSuccess, obtain(other_, fill_binding({1, 2}), {&native, false}));
  EXPECT_EQ(1, asked);
  ASSERT_NE(nullptr, served_.variant);
  EXPECT_EQ(7u, served_.variant->source);
  EXPECT_EQ(&other_, owner_of(*served_.variant));
  EXPECT_TRUE(outlived_memory(recording_, *served_.variant)) << "memory was freed while it was made";
  EXPECT_EQ(hipSuccess, next().hipPeekAtLastError()) << "the program is told nothing of the first attempt";
  EXPECT_EQ(hipErrorOutOfMemory, obtain(other_, fill_binding({3, 4})));
  EXPECT_EQ(nullptr, served_.variant);
}

TEST_F(ExecSupplyTest, of_a_variant_that_is_patched_only_what_differs_is_set) {
  settings_.strategy = Strategy::kPatch;
  Variant* const variant = serve(exec_, fill_binding({1, 2}));
  let_go(exec_);
  EXPECT_EQ(variant, serve(other_, fill_binding({1, 3})));
  EXPECT_EQ(Way::kPatch, served_.way);
  EXPECT_FALSE(served_.made);
  EXPECT_EQ(1, graphs.state.sets);
  EXPECT_EQ((Written{reinterpret_cast<void*>(1), reinterpret_cast<void*>(3)}), fake::written_by(variant->exec));
  EXPECT_EQ(&other_, owner_of(*variant)) << "nobody else may have it";
}

TEST_F(ExecSupplyTest, a_free_variant_that_is_half_patched_is_gone_and_another_way_serves) {
  settings_.strategy = Strategy::kPatch;
  fake.hip->fail["hipGraphExecMemsetNodeSetParams"] = hipErrorUnknown;
  const hipGraphExec_t half = serve(exec_, fill_binding({1, 2}))->exec;
  let_go(exec_);
  const Variant* const made = serve(exec_, fill_binding({1, 3}));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_TRUE(served_.made);
  EXPECT_EQ(0u, graphs.state.execs.count(half));
  EXPECT_EQ(1u, graphs.state.execs.count(made->exec));
  let_go(exec_);
  EXPECT_EQ(hipSuccess, obtain(other_, fill_binding({1, 4}), {nullptr, true}));
  EXPECT_EQ(Way::kUpdate, served_.way) << "the program asks for an update, and makes it itself";
  EXPECT_EQ(nullptr, served_.variant);
  EXPECT_EQ(2, graphs.state.instantiates);
}

TEST_F(ExecSupplyTest, an_execs_own_variant_that_is_half_patched_is_not_updated_any_more) {
  settings_.strategy = Strategy::kPatch;
  fake.hip->fail["hipGraphExecMemsetNodeSetParams"] = hipErrorUnknown;
  const Variant* const half = serve(exec_, fill_binding({1, 2}));
  EXPECT_EQ(hipSuccess, obtain(exec_, fill_binding({1, 3}), {nullptr, true}));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_NE(half, served_.variant);
  EXPECT_TRUE(half->is_broken());
}

TEST_F(ExecSupplyTest, an_execs_own_variant_that_is_half_patched_for_want_of_memory_is_set_back_and_not_trusted) {
  settings_.strategy = Strategy::kPatch;
  const Variant* const half = serve(exec_, fill_binding({1, 2}));
  static int sets;
  sets = 0;
  test_next().hipGraphExecMemsetNodeSetParams = [](hipGraphExec_t exec, hipGraphNode_t node,
                                                   const hipMemsetParams* params) {
    if (++sets == 2) throw std::bad_alloc();
    return fake::set_node(exec, node, [&](fake::Node& own) { own.dst = params->dst; });
  };
  EXPECT_EQ(hipSuccess, obtain(exec_, fill_binding({3, 4})));
  EXPECT_NE(half, served_.variant);
  EXPECT_TRUE(half->is_broken());
  EXPECT_EQ((Written{reinterpret_cast<void*>(1), reinterpret_cast<void*>(2)}), fake::written_by(half->exec));
}

TEST_F(ExecSupplyTest, rule_49_where_patching_is_not_exact_the_program_is_left_to_make_its_update) {
  test_set_runtime_version(kPatchesNoFill);
  serve(exec_, fill_binding({1, 2}));
  const int calls = fake.hip->calls;
  EXPECT_EQ(hipSuccess, obtain(exec_, fill_binding({1, 3}), {nullptr, true}));
  EXPECT_EQ(Way::kUpdate, served_.way);
  EXPECT_EQ(nullptr, served_.variant);
  EXPECT_EQ(calls, fake.hip->calls);
}

TEST_F(ExecSupplyTest, memory_that_is_always_staged_has_a_ring_that_follows_it) {
  char* const first = memory_by(kFirstRule);
  char* const moved = memory_by(kFirstRule);
  const Variant* const ring = serve(exec_, over(first));
  EXPECT_EQ(Way::kStage, served_.way);
  EXPECT_TRUE(served_.made);
  ASSERT_NE(nullptr, ring->ring);
  EXPECT_EQ(ring, serve(exec_, over(moved)));
  EXPECT_FALSE(served_.made);
  EXPECT_EQ(std::vector{moved}, ring->ring->bases());
  EXPECT_EQ(nullptr, not_staged());
  EXPECT_NE(ring, serve(exec_, over(moved, 0x6000))) << "what it does beside staged memory differs";
  EXPECT_EQ(Way::kStage, served_.way);
}

TEST_F(ExecSupplyTest, of_several_free_rings_the_one_that_has_worked_on_the_buffers_serves) {
  char* const first = memory_by(kFirstRule);
  char* const second = memory_by(kFirstRule);
  const Variant* const one = serve(exec_, over(first));
  const Variant* const two = serve(other_, over(second));
  let_go(exec_);
  let_go(other_);
  EXPECT_EQ(two, serve(exec_, over(second)));
  let_go(exec_);
  EXPECT_EQ(one, serve(exec_, over(first)));
  let_go(exec_);
  EXPECT_EQ(two, serve(exec_, over(second)));
  EXPECT_EQ(0, graphs.state.sets) << "nothing had to follow";
}

TEST_F(ExecSupplyTest, a_free_ring_that_cannot_follow_is_free_again) {
  char* const first = memory_by(kFirstRule);
  const Variant* const ring = serve(exec_, over(first));
  let_go(exec_);
  fake.hip->fail["hipGraphExecMemcpyNodeSetParams1D"] = hipErrorUnknown;
  fake.hip->fail["hipGraphInstantiate"] = hipErrorOutOfMemory;
  EXPECT_EQ(hipErrorOutOfMemory, obtain(other_, over(memory_by(kFirstRule))));
  EXPECT_EQ(nullptr, served_.variant);
  EXPECT_EQ(nullptr, owner_of(*ring));
  EXPECT_STREQ("there were no slots", not_staged());
}

TEST_F(ExecSupplyTest, without_slots_a_graph_works_on_the_programs_memory) {
  char* const memory = memory_by(kFirstRule);
  use_up_memory();
  const Variant* const variant = serve(exec_, over(memory));
  EXPECT_EQ(Way::kNewExec, served_.way);
  ASSERT_NE(nullptr, variant);
  EXPECT_EQ((Written{memory, reinterpret_cast<void*>(0x5000)}), fake::written_by(variant->exec));
  EXPECT_STREQ("there were no slots", not_staged());
}

TEST_F(ExecSupplyTest, nothing_is_staged_once_a_difference_was_found) {
  recording_.may_stage = false;
  serve(exec_, over(memory_by(kFirstRule)));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_STREQ("verification has found a difference, or it cannot be built", not_staged());
}

TEST_F(ExecSupplyTest, staging_that_was_chosen_and_has_no_slots_is_not_chosen_again) {
  choose_staging();
  char* const memory = memory_by(kOpenRule);
  use_up_memory();
  serve(exec_, over(memory));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_FALSE(may_be_chosen_again());
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(1u, recording_.statistics.bindings) << "one binding, although two ways were tried";
}

TEST_F(ExecSupplyTest, staging_that_was_chosen_ends_with_a_binding_of_another_shape_and_may_be_chosen_again) {
  choose_staging();
  serve(exec_, over(memory_by(kOpenRule)));
  EXPECT_EQ(Way::kStage, served_.way);
  serve(exec_, over(memory_by(kOpenRule, 8192)));
  EXPECT_EQ(Way::kNewExec, served_.way);
  EXPECT_TRUE(may_be_chosen_again());
}

TEST_F(ExecSupplyTest, staging_that_was_chosen_under_other_rules_serves_the_first_binding_under_these) {
  let_staging_pay();
  {
    const LockGuard guard(g_recordings_lock);
    recording_.ring_ns = 1e9;
  }
  char* const always = memory_by(kFirstRule);
  serve(exec_, over(always, memory_by(kOpenRule)));
  EXPECT_FALSE(served_.variant->plan->open());
  serve(exec_, over(always, memory_by(kOpenRule)));
  EXPECT_TRUE(served_.variant->plan->open()) << "else each binding would need a ring";
  serve(exec_, over(memory_by(0), memory_by(kOpenRule)));
  EXPECT_EQ(Way::kStage, served_.way) << "although no binding before could have had an exec";
}

TEST_F(ExecSupplyTest, an_exec_that_another_recording_serves_by_now_is_refused) {
  Recording former;
  former.operations = recording_.operations;
  former.node_count = recording_.node_count;
  EXPECT_EQ(hipErrorInvalidHandle, supply_.obtain_unstaged(exec_, former, fill_binding({1, 2}), {}, &served_));
  EXPECT_EQ(nullptr, served_.variant);
}

}  // namespace
}  // namespace graphpool
