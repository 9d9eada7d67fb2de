// Which variant is patched for a binding, and what of it.
#include "shim/execs/patch_candidate.h"
#include "tests/unit/variants_fixture.h"

namespace graphpool {
namespace {

class PatchCandidateTest : public VariantsTest {
 protected:
  PatchCandidate find(const std::vector<std::uint64_t>& wanted) {
    const LockGuard guard(g_recordings_lock);
    return find_patchable(exec, fill_binding(wanted), settings);
  }
  static void note_patches(Variant& variant, std::uint32_t patches) {
    const LockGuard guard(g_recordings_lock);
    variant.patches = patches;
  }
};

TEST_F(PatchCandidateTest, the_variant_with_the_fewest_nodes_to_set) {
  add({1, 2, 9, 9});
  Variant& nearest = add({1, 2, 3, 9});
  add({9, 9, 9, 9});
  const PatchCandidate found = find({1, 2, 3, 4});
  EXPECT_EQ(&nearest, found.variant);
  EXPECT_EQ(std::vector<std::uint32_t>{4}, found.differing) << "the operation behind the beginning is the first";
}

TEST_F(PatchCandidateTest, one_that_was_patched_before_so_that_others_keep_what_they_have) {
  add({1, 2, 3, 9});
  Variant& patched = add({9, 9, 9, 9});
  note_patches(patched, 1);
  const PatchCandidate found = find({1, 2, 3, 4});
  EXPECT_EQ(&patched, found.variant);
  EXPECT_EQ((std::vector<std::uint32_t>{1, 2, 3, 4}), found.differing);
}

TEST_F(PatchCandidateTest, of_those_that_serve_execs_only_the_asking_one) {
  const ProgramExec other;
  add({1, 2, 3, 9}, &other);
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
  Variant& own = add({1, 9, 9, 9}, &exec);
  serve_by(own);
  EXPECT_EQ(&own, find({1, 2, 3, 4}).variant);
}

TEST_F(PatchCandidateTest, none_that_runs_or_may_not_serve_again) {
  Variant& variant = add({1, 2, 3, 9});
  const auto is_found = [&] { return find({1, 2, 3, 4}).variant != nullptr; };
  ASSERT_TRUE(is_found());
  variant.under_way = 1;
  EXPECT_FALSE(is_found()) << "rule 20";
  variant.under_way = 0;
  variant.device = 1;
  EXPECT_FALSE(is_found()) << "rule 14";
  variant.device = 0;
  note_memory_freed();
  EXPECT_FALSE(is_found()) << "its nodes may hold on to what was freed";
  variant.memory_freed = memory_freed();
  ASSERT_TRUE(is_found());
  {
    const LockGuard guard(g_recordings_lock);
    variant.worsen(Health::kUnsure);
  }
  EXPECT_FALSE(is_found());
}

TEST_F(PatchCandidateTest, none_whose_nodes_are_not_known) {
  auto native = std::make_unique<Variant>();
  native->baked = fill_binding({1, 2, 3, 9});
  native->memory_freed = memory_freed();
  store.adopt(recording, std::move(native), nullptr);
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
}

TEST_F(PatchCandidateTest, rule_09_none_where_the_runtime_is_not_known_to_update_a_node_that_differs) {
  add({1, 2, 3, 9});
  test_set_runtime_version(kPatchesNoFill);
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
  EXPECT_NE(nullptr, find({1, 2, 3, 9}).variant) << "nothing differs";
  test_set_runtime_version(kPatchesFills);
  recording.operations[4].signature.validity |= kPitched;
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
  EXPECT_NE(nullptr, find({1, 2, 5, 9}).variant) << "the node that differs is another one";
}

TEST_F(PatchCandidateTest, one_that_is_worn_out_is_replaced) {
  settings.patch_budget = 3;
  Variant& worn = add({1, 2, 9, 9});
  note_patches(worn, 2);
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
  {
    const LockGuard guard(g_recordings_lock);
    EXPECT_FALSE(worn.kept());
    EXPECT_EQ(1u, recording.statistics.replaced);
  }
  Variant& whole = add({9, 9, 9, 9});
  EXPECT_EQ(nullptr, find({1, 2, 3, 4}).variant);
  const LockGuard guard(g_recordings_lock);
  EXPECT_TRUE(whole.kept()) << "another one would last no longer";
}

TEST_F(PatchCandidateTest, a_base_is_there_until_all_have_outlived_memory) {
  const auto has_base = [&] {
    const LockGuard guard(g_recordings_lock);
    return has_patch_base(recording, 0);
  };
  EXPECT_FALSE(has_base());
  const ProgramExec other;
  Variant& busy = add({1, 2, 3, 4}, &other);
  EXPECT_TRUE(has_base()) << "it will be free later";
  note_memory_freed();
  EXPECT_FALSE(has_base());
  const LockGuard guard(g_recordings_lock);
  EXPECT_FALSE(busy.kept());
}

TEST_F(PatchCandidateTest, a_change_of_binding_costs_its_patches_or_an_exec) {
  const Binding from = fill_binding({1, 2, 3, 4}), to = fill_binding({1, 2, 5, 6});
  constexpr double kExec = 1e6;
  const LockGuard guard(g_recordings_lock);
  const std::size_t budget = patch_budget(recording, settings);
  EXPECT_EQ(costs().patch_ns(kExec, 2, budget), rebind_ns(recording, from, to, kExec, budget));
  EXPECT_EQ(costs().patch_ns(kExec, 0, budget), rebind_ns(recording, from, from, kExec, budget));
  recording.may_patch = false;
  EXPECT_EQ(kExec, rebind_ns(recording, from, to, kExec, budget));
  recording.may_patch = true;
  test_set_runtime_version(kPatchesNoFill);
  EXPECT_EQ(kExec, rebind_ns(recording, from, to, kExec, budget));
}

TEST_F(PatchCandidateTest, an_update_changes_what_differs_from_its_own_variant) {
  Variant& own = add({1, 2, 3, 4}, &exec);
  serve_by(own);
  exec.binding = own.baked;
  const LockGuard guard(g_recordings_lock);
  UpdatedNodes updated = updated_nodes(exec, fill_binding({1, 2, 5, 6}));
  EXPECT_TRUE(updated.exact);
  EXPECT_EQ(2u, updated.differing);
  EXPECT_TRUE(updates_are_exact(recording));
  own.worsen(Health::kUnsure);
  EXPECT_FALSE(updated_nodes(exec, fill_binding({1, 2, 5, 6})).exact) << "what it does is not known";
  Recording other;
  other.operations = recording.operations;
  exec.recording = &other;
  updated = updated_nodes(exec, fill_binding({1, 2, 3, 4}));
  EXPECT_EQ(kFills, updated.differing) << "its variant is of another recording";
  exec.recording = &recording;
  test_set_runtime_version(kPatchesNoFill);
  EXPECT_FALSE(updates_are_exact(recording));
}

TEST_F(PatchCandidateTest, kernels_that_an_update_changes_are_counted_where_nothing_else_differs) {
  recording.operations[1].signature.kind = recording.operations[2].signature.kind = OperationKind::kKernel;
  Variant& own = add({1, 2, 3, 4}, &exec);
  serve_by(own);
  exec.binding = own.baked;
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(2u, only_kernels_updated(exec, fill_binding({8, 9, 3, 4})));
  EXPECT_EQ(std::nullopt, only_kernels_updated(exec, fill_binding({8, 2, 3, 9}))) << "a fill differs, too";
}

}  // namespace
}  // namespace graphpool
