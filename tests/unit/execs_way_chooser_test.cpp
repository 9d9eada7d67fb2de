// How a new binding is served, by what its recording has seen so far.
#include "shim/execs/way_chooser.h"
#include "tests/unit/variants_fixture.h"

namespace graphpool {
namespace {

class WayChooserTest : public VariantsTest {
 protected:
  Way choose(const std::vector<std::uint64_t>& wanted, bool may_update = false) {
    const Binding binding = fill_binding(wanted);
    const LockGuard guard(g_recordings_lock);
    return ways_.choose({exec, binding, nullptr, may_update}, &candidate_);
  }
  /// The first few bindings have an exec each: patching is thought of after that.
  void add_first_execs() {
    for (std::uint64_t i = 0; i < CostModel::kExecsBeforePatching; ++i) add({100 + i, 2, 3, 4});
  }
  std::uint64_t bindings() {
    const LockGuard guard(g_recordings_lock);
    return recording.statistics.bindings;
  }

  StagingChooser staging_{settings};
  WayChooser ways_{settings, staging_};
  PatchCandidate candidate_;
};

TEST_F(WayChooserTest, the_first_bindings_get_an_exec_each_and_others_are_patched) {
  EXPECT_EQ(Way::kNewExec, choose({1, 2, 3, 4}));
  add({1, 2, 3, 4});
  EXPECT_EQ(Way::kNewExec, choose({5, 2, 3, 4})) << "bindings often come in turn";
  add_first_execs();
  EXPECT_EQ(Way::kPatch, choose({6, 2, 3, 4}));
  ASSERT_NE(nullptr, candidate_.variant);
  EXPECT_EQ(std::vector<std::uint32_t>{1}, candidate_.differing);
  EXPECT_EQ(3u, bindings());
}

TEST_F(WayChooserTest, rule_09_what_is_not_patched_exactly_is_not_patched) {
  test_set_runtime_version(kPatchesNoFill);
  add_first_execs();
  EXPECT_EQ(Way::kNewExec, choose({6, 2, 3, 4}));
  EXPECT_EQ(nullptr, candidate_.variant);
  EXPECT_EQ(Way::kUpdate, choose({7, 2, 3, 4}, true)) << "the program's own call is what it would have natively";
}

TEST_F(WayChooserTest, nothing_is_patched_once_a_difference_was_found) {
  add_first_execs();
  {
    const LockGuard guard(g_recordings_lock);
    recording.may_patch = false;
  }
  EXPECT_EQ(Way::kNewExec, choose({6, 2, 3, 4}));
  EXPECT_EQ(nullptr, candidate_.variant);
}

TEST_F(WayChooserTest, the_policys_strategy_decides_alone) {
  add_first_execs();
  settings.strategy = Strategy::kNewExec;
  EXPECT_EQ(Way::kNewExec, choose({6, 2, 3, 4}));
  EXPECT_EQ(nullptr, candidate_.variant) << "nobody looks for one";
  settings.strategy = Strategy::kOneShot;
  EXPECT_EQ(Way::kOneShot, choose({7, 2, 3, 4}));
  settings.strategy = Strategy::kPatch;
  EXPECT_EQ(Way::kPatch, choose({8, 2, 3, 4}));
}

TEST_F(WayChooserTest, rule_30_a_binding_with_volatile_words_gets_no_exec_of_its_own) {
  test_set_runtime_version(kPatchesNoFill);
  Way way = Way::kSame;
  for (std::uint64_t i = 0; i < 2 * BindingHistory::kVolatileAfter; ++i) way = choose({1000 + i, 2, 3, 4});
  EXPECT_EQ(Way::kNewExec, way) << "later ones might be patched into it";
  add({1, 2, 3, 4});
  EXPECT_EQ(Way::kOneShot, choose({2000, 2, 3, 4}));
}

TEST_F(WayChooserTest, patches_for_bindings_that_come_back_add_up_to_an_exec) {
  add_first_execs();
  choose({6, 2, 3, 4});
  choose({7, 2, 3, 4});
  costs().observe(Cost::kPatchNode, std::chrono::nanoseconds(500), 1);  // until that is known a patch is tried
  double spent = 0;
  Way way = Way::kPatch;
  int patches = 0;
  for (; way == Way::kPatch && patches < 10'000; ++patches) {
    way = choose({std::uint64_t{6} + static_cast<unsigned>(patches % 2), 2, 3, 4});
    const LockGuard guard(g_recordings_lock);
    EXPECT_TRUE(way != Way::kPatch || recording.spent_ns > spent) << patches;
    spent = recording.spent_ns;
  }
  EXPECT_EQ(Way::kNewExec, way);
  EXPECT_GT(patches, 1);
  EXPECT_EQ(0, spent) << "it begins anew";
}

TEST_F(WayChooserTest, more_bindings_in_turn_than_execs_are_kept_do_not_come_back) {
  settings.most_variants = 2;
  add_first_execs();
  for (std::uint64_t i = 0; i < 12; ++i) choose({10 + i % 3, 2, 3, 4});
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(0, recording.spent_ns) << "the exec of each would be gone before its binding";
  EXPECT_EQ(3u, recording.statistics.longest_return);
}

TEST_F(WayChooserTest, what_could_have_been_patched_and_was_not_is_counted) {
  const auto passed_over = [&] {
    const LockGuard guard(g_recordings_lock);
    return recording.passed_over;
  };
  add({1, 2, 3, 4});
  choose({5, 2, 3, 4});
  choose({6, 2, 3, 4});
  EXPECT_EQ(2u, passed_over());
  add_first_execs();
  ASSERT_EQ(Way::kPatch, choose({7, 2, 3, 4}));
  EXPECT_EQ(0u, passed_over());
}

}  // namespace
}  // namespace graphpool
