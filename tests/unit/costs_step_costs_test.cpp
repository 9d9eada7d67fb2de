// Whether a place's captures are compared or left alone, by what either is seen to take.
#include <gtest/gtest.h>

#include "shim/costs/step_costs.h"

namespace graphpool {
namespace {

const char g_places[2] = {};

/// A program that captures at one place, and what that takes it.
class Program {
 public:
  explicit Program(StepCosts& costs, const void* place = g_places) : costs_(costs), place_(place) {}
  std::uint64_t compared = 100, alone = 100;
  std::uint32_t operations = 1, forks = 0;
  bool matches = true, served_anew = false;

  /// One step. Returns whether its capture was followed.
  bool step() {
    if (ahead_ != 0) {
      --ahead_;
      leave_alone();
      return false;
    }
    const StepCosts::Step step = costs_.begins(place_);
    ahead_ = step.ahead;
    most_ = step.most_operations;
    if (step.follow)
      costs_.ended(place_, matches, operations, forks);
    else
      leave_alone();
    if (step.follow && served_anew) costs_.served_anew(place_, operations);
    if (step.timed) {
      ++timed;
      const StepCosts::Verdict verdict = costs_.took(place_, step, step.follow ? compared : alone);
      if (verdict.reached) ++verdicts;
      if (verdict.leaves_alone) ++left_alone;
    }
    return step.follow;
  }
  /// Steps, of which so many were followed.
  std::uint32_t steps(std::uint32_t count) {
    std::uint32_t followed = 0;
    for (std::uint32_t i = 0; i < count; ++i) followed += step() ? 1 : 0;
    return followed;
  }
  /// Steps until the next verdict.
  void to_verdict() {
    const std::uint32_t before = verdicts;
    for (int i = 0; i < 1 << 20 && verdicts == before; ++i) step();
    ASSERT_EQ(before + 1, verdicts);
  }

  std::uint32_t timed = 0, verdicts = 0, left_alone = 0;

 private:
  void leave_alone() {
    if (operations <= most_) return;
    ahead_ = 0;
    costs_.larger_alone(place_);
  }

  StepCosts& costs_;
  const void* place_;
  std::uint32_t ahead_ = 0, most_ = 0;
};

constexpr std::uint32_t kTrial = 2 * StepCosts::kArm;

TEST(StepCosts, nothing_is_tried_before_captures_have_matched) {
  StepCosts costs;
  Program program(costs);
  program.matches = false;
  EXPECT_EQ(4 * StepCosts::kFirstTrial, program.steps(4 * StepCosts::kFirstTrial));
  EXPECT_EQ(0u, program.timed);
  program.matches = true;
  EXPECT_EQ(StepCosts::kFirstTrial, program.steps(StepCosts::kFirstTrial));
  EXPECT_EQ(0u, program.timed);
  EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  EXPECT_EQ(kTrial, program.timed);
  EXPECT_EQ(1u, program.verdicts);
}

TEST(StepCosts, what_forks_much_is_tried_soon) {
  StepCosts costs;
  Program program(costs);
  program.forks = StepCosts::kFirstTrial * StepCosts::kForks;
  program.compared = 150;
  EXPECT_EQ(1u, program.steps(1));
  EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  EXPECT_EQ(1u, program.verdicts);
  EXPECT_EQ(0u, program.steps(StepCosts::kFirstPause));
}

TEST(StepCosts, large_captures_whose_bindings_are_there_are_always_compared) {
  StepCosts costs;
  Program program(costs);
  program.operations = StepCosts::kMostOperations + 1;
  program.compared = 1000;
  EXPECT_EQ(10 * StepCosts::kFirstTrial, program.steps(10 * StepCosts::kFirstTrial));
  EXPECT_EQ(0u, program.timed);
}

TEST(StepCosts, large_captures_whose_bindings_need_work_are_tried_the_sooner_the_larger) {
  for (const std::uint32_t share : {1u, 4u, 16u}) {
    StepCosts costs;
    Program program(costs);
    program.operations = share == 1 ? StepCosts::kMostOperations + 1 : (share - 1) * StepCosts::kOperations;
    program.served_anew = true;
    program.compared = 120;
    const std::uint32_t before = StepCosts::kFirstTrial / share;
    EXPECT_EQ(before, program.steps(before)) << share;
    EXPECT_EQ(0u, program.timed) << share;
    EXPECT_EQ(StepCosts::kArm, program.steps(kTrial)) << share;
    EXPECT_EQ(0u, program.steps(StepCosts::kFirstPause)) << share;
  }
}

TEST(StepCosts, a_few_left_alone_say_enough_where_each_takes_far_longer) {
  StepCosts costs;
  Program program(costs);
  program.alone = 200;
  EXPECT_EQ(StepCosts::kFirstTrial, program.steps(StepCosts::kFirstTrial));
  EXPECT_EQ(StepCosts::kArm, program.steps(StepCosts::kArm + StepCosts::kFew));
  EXPECT_EQ(1u, program.verdicts);
  EXPECT_EQ(StepCosts::kFirstStay, program.steps(StepCosts::kFirstStay));
}

TEST(StepCosts, the_next_trial_waits_until_a_hundred_times_its_cost_is_saved) {
  StepCosts costs;
  Program program(costs);
  program.alone = 2000;
  program.to_verdict();
  const std::uint32_t saved = 100 * StepCosts::kFew * 19;
  ASSERT_LT(StepCosts::kFirstStay, saved);
  EXPECT_EQ(saved, program.steps(saved));
  EXPECT_EQ(StepCosts::kArm, program.steps(StepCosts::kArm + StepCosts::kFew));
}

TEST(StepCosts, who_keeps_execs_for_a_place_is_told_when_its_captures_are_left_alone) {
  for (const bool large : {false, true}) {
    StepCosts costs;
    Program program(costs);
    program.operations = large ? StepCosts::kMostOperations + 1 : 1;
    program.served_anew = large;
    program.steps(StepCosts::kFirstTrial + StepCosts::kArm - 1);
    EXPECT_EQ(0u, program.left_alone);
    program.steps(1);
    EXPECT_EQ(large ? 1u : 0u, program.left_alone) << "execs of large ones would be in the way of the trial";
    program.to_verdict();
    EXPECT_EQ(large ? 2u : 1u, program.left_alone);
    program.compared = 50;
    program.to_verdict();
    EXPECT_EQ(large ? 3u : 1u, program.left_alone) << "they are compared";
  }
}

TEST(StepCosts, what_is_dearer_but_below_left_alone_is_not_tried_again) {
  StepCosts costs;
  Program program(costs);
  program.alone = 2000;
  program.to_verdict();
  program.compared = 1900;
  EXPECT_EQ(4000u, program.steps(4000));
  program.compared = 2100;
  program.to_verdict();
  EXPECT_EQ(0u, program.steps(StepCosts::kFirstPause));
}

TEST(StepCosts, captures_of_a_trial_are_of_one_size) {
  StepCosts costs;
  Program program(costs);
  EXPECT_EQ(StepCosts::kFirstTrial, program.steps(StepCosts::kFirstTrial));
  EXPECT_EQ(1u, program.steps(1));
  program.operations = StepCosts::kMostOperations + 1;
  EXPECT_EQ(1u, program.steps(1));
  program.operations = 1;
  EXPECT_EQ(StepCosts::kFirstTrial, program.steps(StepCosts::kFirstTrial));
  EXPECT_EQ(0u, program.verdicts);
}

TEST(StepCosts, rule_30_what_costs_more_than_it_saves_is_left_alone_longer_each_time) {
  StepCosts costs;
  Program program(costs);
  program.compared = 110;
  program.to_verdict();
  for (std::uint32_t pause = StepCosts::kFirstPause; pause < StepCosts::kLongestPause; pause *= 2) {
    EXPECT_EQ(0u, program.steps(pause)) << pause;
    EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  }
  EXPECT_EQ(0u, program.steps(StepCosts::kLongestPause));
  EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  EXPECT_EQ(0u, program.steps(StepCosts::kLongestPause));
}

TEST(StepCosts, what_saves_is_compared_and_hardly_tried) {
  StepCosts costs;
  Program program(costs);
  program.compared = 80;
  program.to_verdict();
  EXPECT_EQ(StepCosts::kFirstStay, program.steps(StepCosts::kFirstStay));
  EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  EXPECT_EQ(2 * StepCosts::kFirstStay, program.steps(2 * StepCosts::kFirstStay));
}

TEST(StepCosts, what_saves_next_to_nothing_is_left_alone) {
  StepCosts costs;
  Program saves(costs, &g_places[0]), saves_not(costs, &g_places[1]);
  saves.compared = 97;
  saves.to_verdict();
  EXPECT_EQ(StepCosts::kFirstStay, saves.steps(StepCosts::kFirstStay));
  saves_not.compared = 98;
  saves_not.to_verdict();
  EXPECT_EQ(0u, saves_not.steps(StepCosts::kFirstPause));
}

TEST(StepCosts, it_is_tried_again_when_comparing_becomes_dearer) {
  StepCosts costs;
  Program program(costs);
  program.compared = 80;
  program.to_verdict();
  program.compared = 130;
  program.to_verdict();
  EXPECT_LT(program.timed, 2 * kTrial + 8);
  EXPECT_EQ(0u, program.steps(StepCosts::kFirstPause));
}

TEST(StepCosts, larger_captures_than_were_tried_are_compared_again) {
  StepCosts costs;
  Program program(costs);
  program.compared = 120;
  program.to_verdict();
  EXPECT_EQ(0u, program.steps(10));
  program.operations = 6;
  EXPECT_EQ(0u, program.steps(10));  // as good as the same
  program.operations = 7;
  EXPECT_FALSE(program.step());
  program.compared = 50;
  EXPECT_EQ(StepCosts::kLeastBetween, program.steps(StepCosts::kLeastBetween));
}

TEST(StepCosts, a_trial_in_which_captures_do_not_match_says_nothing) {
  StepCosts costs;
  Program program(costs);
  program.compared = 1000;
  program.steps(StepCosts::kFirstTrial + 1);
  program.matches = false;
  EXPECT_TRUE(program.step());
  program.matches = true;
  EXPECT_EQ(StepCosts::kFirstTrial, program.steps(StepCosts::kFirstTrial));
  EXPECT_EQ(0u, program.verdicts);
}

TEST(StepCosts, where_captures_were_left_alone_new_ones_are_tried_soon) {
  StepCosts costs;
  Program program(costs);
  program.compared = 150;
  program.to_verdict();
  EXPECT_EQ(0u, program.steps(StepCosts::kFirstPause));
  program.matches = false;  // in the next trial
  EXPECT_TRUE(program.step());
  program.matches = true;
  EXPECT_EQ(StepCosts::kLeastBetween, program.steps(StepCosts::kLeastBetween));
  EXPECT_EQ(StepCosts::kArm, program.steps(kTrial));
  EXPECT_EQ(2u, program.verdicts);
}

TEST(StepCosts, one_slow_step_decides_nothing) {
  StepCosts costs;
  Program program(costs);
  program.compared = 80;
  program.steps(StepCosts::kFirstTrial + StepCosts::kWarmUp);
  program.compared = 100000;
  program.step();
  program.compared = 80;
  program.to_verdict();
  EXPECT_EQ(StepCosts::kFirstStay, program.steps(StepCosts::kFirstStay));
}

TEST(StepCosts, steps_that_never_end_end_the_trial) {
  StepCosts costs;
  for (std::uint32_t i = 0; i < StepCosts::kFirstTrial; ++i) {
    EXPECT_TRUE(costs.begins(g_places).follow);
    costs.ended(g_places, true, 1);
  }
  for (std::uint32_t i = 0; i < StepCosts::kArm; ++i) {
    EXPECT_TRUE(costs.begins(g_places).follow);
    costs.ended(g_places, true, 1);
  }
  for (std::uint32_t i = 0; i < StepCosts::kArm; ++i) EXPECT_FALSE(costs.begins(g_places).follow);
  EXPECT_TRUE(costs.begins(g_places).follow);
}

TEST(StepCosts, places_are_judged_apart) {
  StepCosts costs;
  Program one(costs, &g_places[0]), other(costs, &g_places[1]);
  one.compared = 200;
  one.to_verdict();
  EXPECT_FALSE(one.step());
  EXPECT_TRUE(other.step());
}

}  // namespace
}  // namespace graphpool
