// Whether a graph is staged that may be, by what its bindings cost both ways.
#include <gtest/gtest.h>

#include "shim/costs/cost_model.h"
#include "shim/costs/stage_choice.h"

namespace graphpool {
namespace {

constexpr double kCheap = 10, kDear = 100;

TEST(StageChoice, what_was_lost_is_added_up_beyond_the_margin) {
  StageChoice choice;
  EXPECT_FALSE(choice.staged());
  EXPECT_DOUBLE_EQ(kDear - StageChoice::kMargin * kCheap, choice.note(kDear, kCheap));
  EXPECT_DOUBLE_EQ(2 * (kDear - StageChoice::kMargin * kCheap), choice.note(kDear, kCheap));
}

TEST(StageChoice, costs_that_are_close_never_change_anything) {
  StageChoice choice;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_DOUBLE_EQ(0, choice.note(kDear, kDear));
    EXPECT_DOUBLE_EQ(0, choice.note(kDear, kDear / 1.2));
  }
}

TEST(StageChoice, what_the_present_way_saves_is_taken_off) {
  StageChoice choice;
  choice.note(kDear, kCheap);
  EXPECT_DOUBLE_EQ(0, choice.note(kCheap, kDear));
  EXPECT_DOUBLE_EQ(kDear - StageChoice::kMargin * kCheap, choice.note(kDear, kCheap)) << "nothing is owed";
}

TEST(StageChoice, a_change_begins_anew_and_is_counted) {
  StageChoice choice;
  choice.note(kDear, kCheap);
  choice.change(true);
  EXPECT_TRUE(choice.staged());
  EXPECT_EQ(1u, choice.changes());
  EXPECT_DOUBLE_EQ(0, choice.note(kCheap, kDear));
  choice.change(true);
  EXPECT_EQ(1u, choice.changes());
  choice.change(false);
  EXPECT_EQ(2u, choice.changes());
  EXPECT_FALSE(choice.staged());
}

TEST(StageChoice, what_could_not_be_done_is_not_tried_again) {
  StageChoice choice;
  choice.change(true);
  EXPECT_TRUE(choice.possible());
  choice.refuse();
  EXPECT_FALSE(choice.possible());
  EXPECT_FALSE(choice.staged());
}

TEST(StageChoice, launches_of_a_binding_are_averaged) {
  StageChoice choice;
  choice.note_launches(0);
  EXPECT_DOUBLE_EQ(1, choice.launches()) << "nothing is known yet";
  std::uint64_t all = 20;
  choice.note_launches(all);
  EXPECT_DOUBLE_EQ(20, choice.launches());
  for (int i = 0; i < 100; ++i) choice.note_launches(all += 20);
  EXPECT_NEAR(20, choice.launches(), 0.1);
  for (int i = 0; i < 100; ++i) choice.note_launches(all += 1);
  EXPECT_NEAR(1, choice.launches(), 0.1);
  for (int i = 0; i < 100; ++i) choice.note_launches(all);
  EXPECT_NEAR(0, choice.launches(), 0.1) << "bindings that are not launched copy nothing";
}

TEST(StageChoice, staging_costs_copies_at_every_launch_and_patches_once) {
  using std::chrono::nanoseconds;
  CostModel model;
  model.observe(Cost::kCopy, nanoseconds(1000), 1);
  model.observe(Cost::kPatchNode, nanoseconds(100), 1);
  EXPECT_DOUBLE_EQ(2 * 1000 + 2 * 100, model.staged_ns(1, 2, 0, 2));
  EXPECT_DOUBLE_EQ(10 * 2 * 1000 + 2 * 100, model.staged_ns(10, 2, 0, 2));
  EXPECT_DOUBLE_EQ(model.staged_ns(1, 2, 0, 0) + 1024 * model.ns(Cost::kCopyKiB), model.staged_ns(1, 2, 1 << 20, 0));
  EXPECT_DOUBLE_EQ(0, model.staged_ns(0, 2, 1 << 20, 0));
}

}  // namespace
}  // namespace graphpool
