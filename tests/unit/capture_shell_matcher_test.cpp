// Where a capture is in the tree of recordings, and which recording it comes to the end of.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shim/capture/capture_sink.h"
#include "shim/capture/shell_matcher.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/quirks.h"
#include "shim/recording/mismatch.h"
#include "tests/unit/fills.h"

namespace graphpool {
namespace {

class ShellMatcherTest : public testing::Test {
 protected:
  using Sequence = std::vector<Operation>;

  ShellMatcherTest() { test_set_runtime_version(kPatchesFills); }
  ~ShellMatcherTest() override { matcher_.leave_tree(); }

  /// Fills, and behind them one kernel.
  Sequence with_kernel(std::size_t count) {
    Sequence operations = fills(count);
    Operation kernel;
    kernel.signature.kind = OperationKind::kKernel;
    kernel.signature.payload_bytes = sizeof(KernelPayload);
    kernel.payload_offset = operations.back().payload_offset;
    operations.insert(operations.end() - 1, kernel);
    operations.back().payload_offset += static_cast<std::uint32_t>(sizeof(KernelPayload));
    return operations;
  }
  static Binding binding_of(const Sequence& operations, std::uint32_t grid = 1) {
    Binding binding;
    for (const Operation& each : operations) {
      if (each.signature.kind == OperationKind::kFill) {
        const FillPayload fill{5, 7, 1, 1, 0};
        std::memcpy(add_payload(binding, sizeof fill), &fill, sizeof fill);
      } else if (each.signature.kind == OperationKind::kKernel) {
        add_kernel_payload(binding, {{grid, 1, 1}, {64, 1, 1}, 0, 0});
      }
    }
    return binding;
  }
  /// Captures find it from now on. Nobody else uses it.
  Recording& add(Sequence operations, std::uint32_t grid = 1) {
    operations.front().signature = begin_;
    const Binding binding = binding_of(operations, grid);
    const LockGuard guard(g_recordings_lock);
    Recording& recording = graphs().recordings.recorded(std::move(operations), binding, {}, 0).recording;
    recording.rebuildable = true;
    recording.users = 0;
    return recording;
  }
  void start(CaptureMode mode) {
    TreeNode* const begin = capture_sink().walk_begins(begin_).start;
    ASSERT_NE(nullptr, begin);
    matcher_.start(begin, mode);
  }
  TreeNode* step(const Operation& operation, const Binding& binding) {
    return matcher_.step(operation.signature, binding);
  }
  /// Every operation between the beginning and the end.
  bool step_all(const Sequence& operations) {
    for (std::size_t i = 1; i + 1 < operations.size(); ++i)
      if (step(operations[i], fill_binding(std::vector<std::uint64_t>(i, 5))) == nullptr) return false;
    return true;
  }
  void follow(const Operation& operation, const std::vector<std::uint32_t>* after = nullptr) {
    matcher_.follow(operation.signature, fill_binding({5}), after);
  }
  static std::size_t users_of(const Recording& recording) {
    const LockGuard guard(g_recordings_lock);
    return recording.users;
  }
  static std::uint64_t mismatches(Mismatch what) { return g_mismatches.count(static_cast<std::size_t>(what)); }
  /// The recording is dropped: its nodes stay while somebody walks.
  static void outdate(const Recording& recording) {
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    const std::uint64_t object = recording.operations[1].signature.object;
    graphs().recordings.outdate([&](const Operation& each) { return each.signature.object == object; }, &retired);
  }
  static bool tree_is_held() {
    GraphSettings& settings = graphs().settings;
    const std::size_t most = std::exchange(settings.most_recordings, 0);
    const bool held = graphs().recordings.tree_over_limit();
    settings.most_recordings = most;
    return held;
  }

  ShellMatcher matcher_;
  /// Of captures that no other test makes.
  const Signature begin_{.object = ++last_begin_};
  static inline std::uint64_t last_begin_ = 1000;
};

TEST_F(ShellMatcherTest, a_shell_stands_at_the_last_operation_that_it_has_withheld) {
  const Sequence operations = fills(2);
  add(operations);
  start(CaptureMode::kCompare);
  const TreeNode* const begin = matcher_.shell();
  ASSERT_NE(nullptr, begin);
  const TreeNode* const first = step(operations[1], fill_binding({5}));
  ASSERT_NE(nullptr, first);
  EXPECT_EQ(first, matcher_.shell());
  EXPECT_NE(nullptr, step(operations[2], fill_binding({5, 6}))) << "its payload is the program's own";
  EXPECT_EQ((std::vector<const TreeNode*>{begin, first, matcher_.shell()}), matcher_.withheld());
  EXPECT_EQ(2u, matcher_.shell()->index);
}

TEST_F(ShellMatcherTest, an_operation_that_is_not_known_there_leaves_the_shell_where_it_was) {
  const Sequence operations = fills(2);
  add(operations);
  start(CaptureMode::kCompare);
  const TreeNode* const first = step(operations[1], fill_binding({5}));
  const std::uint64_t before = mismatches(Mismatch::kLast);
  EXPECT_EQ(nullptr, step(fills(1, 3)[1], fill_binding({5, 6})));
  EXPECT_EQ(first, matcher_.shell());
  EXPECT_EQ(before + 1, mismatches(Mismatch::kLast)) << "the report says where";
  EXPECT_EQ(first, matcher_.leave_shell()) << "what was withheld is made up for";
  EXPECT_EQ(nullptr, matcher_.shell());
}

TEST_F(ShellMatcherTest, rule_28_a_grid_that_the_runtime_has_not_accepted_is_not_withheld) {
  const Sequence operations = with_kernel(1);
  add(operations, 4);
  for (const auto& [grid, matches] : {std::pair{4u, true}, std::pair{5u, false}}) {
    const Binding binding = binding_of(operations, grid);
    start(CaptureMode::kCompare);
    ASSERT_NE(nullptr, step(operations[1], binding));
    EXPECT_EQ(matches, step(operations[2], binding) != nullptr) << grid;
    matcher_.leave_tree();
  }
}

TEST_F(ShellMatcherTest, only_what_was_withheld_is_looked_through) {
  const Sequence operations = with_kernel(1);
  add(operations);
  const auto kernel = [](const Operation& each) { return each.signature.kind == OperationKind::kKernel; };
  const auto fill = [](const Operation& each) { return each.signature.kind == OperationKind::kFill; };
  start(CaptureMode::kCompare);
  EXPECT_FALSE(matcher_.withholds(fill));
  ASSERT_NE(nullptr, step(operations[1], binding_of(operations)));
  EXPECT_FALSE(matcher_.withholds(kernel)) << "it comes later, if at all";
  EXPECT_TRUE(matcher_.withholds(fill));
  ASSERT_NE(nullptr, step(operations[2], binding_of(operations)));
  EXPECT_TRUE(matcher_.withholds(kernel));
  EXPECT_TRUE(matcher_.withholds(fill)) << "not the last alone";
}

TEST_F(ShellMatcherTest, the_recording_at_the_end_is_held) {
  const Sequence operations = fills(2);
  const Recording& recording = add(operations);
  add(fills(3));
  start(CaptureMode::kCompare);
  const TreeNode& begin = *matcher_.shell();
  ASSERT_TRUE(step_all(operations));
  {
    const HeldRecording held = matcher_.matched_end(80);
    ASSERT_TRUE(held);
    EXPECT_EQ(&recording, &*held);
    EXPECT_EQ(1u, users_of(recording));
  }
  EXPECT_EQ(0u, users_of(recording));
  EXPECT_EQ(80u, begin.expected_bytes.load()) << "the next capture has room for its binding at once";
  static_cast<void>(matcher_.matched_end(40));
  EXPECT_EQ(80u, begin.expected_bytes.load()) << "a smaller one has room enough";
}

TEST_F(ShellMatcherTest, a_capture_that_ends_before_every_recording_has_none) {
  const Sequence operations = fills(3);
  add(operations);
  start(CaptureMode::kCompare);
  ASSERT_TRUE(step_all(fills(2)));
  const std::uint64_t before = mismatches(Mismatch::kShorter);
  EXPECT_FALSE(matcher_.matched_end(80));
  EXPECT_EQ(before + 1, mismatches(Mismatch::kShorter));
}

TEST_F(ShellMatcherTest, a_recording_of_which_no_graph_can_be_made_any_more_is_not_given) {
  const Sequence operations = fills(1);
  Recording& recording = add(operations);
  start(CaptureMode::kCompare);
  ASSERT_TRUE(step_all(operations));
  recording.rebuildable = false;  // verification has found a difference, while this capture was open
  EXPECT_FALSE(matcher_.matched_end(40));
  EXPECT_EQ(0u, users_of(recording)) << "nor is it held";
}

TEST_F(ShellMatcherTest, rule_30_the_tree_is_held_until_the_capture_leaves_it) {
  const Sequence operations = fills(1, 77);
  const Recording& recording = add(operations);
  add(fills(2));
  start(CaptureMode::kCompare);
  ASSERT_NE(nullptr, capture_sink().walk_begins(begin_).start) << "another capture";
  ASSERT_TRUE(step_all(operations));
  outdate(recording);
  EXPECT_FALSE(matcher_.matched_end(40)) << "it was dropped";
  matcher_.leave_tree();
  matcher_.leave_tree();
  EXPECT_EQ(nullptr, matcher_.shell());
  EXPECT_TRUE(tree_is_held()) << "the other one walks still";
  capture_sink().walk_ended();
  EXPECT_FALSE(tree_is_held());
}

TEST_F(ShellMatcherTest, a_verified_capture_is_no_shell_and_is_told_what_was_expected) {
  const Sequence operations = fills(2);
  const Recording& recording = add(operations);
  start(CaptureMode::kVerify);
  EXPECT_EQ(nullptr, matcher_.shell());
  follow(operations[1]);
  EXPECT_FALSE(matcher_.expected_end());
  follow(operations[2]);
  {
    const HeldRecording expected = matcher_.expected_end();
    ASSERT_TRUE(expected);
    EXPECT_EQ(&recording, &*expected);
  }
  follow(fills(1, 3)[1]);
  follow(operations[2]);
  EXPECT_FALSE(matcher_.expected_end()) << "nothing is expected once it has left the tree";
}

TEST_F(ShellMatcherTest, rule_28_of_an_added_kernel_that_is_verified_only_a_grid_is_expected_that_was_accepted) {
  Sequence operations = with_kernel(1);
  operations[2].after = {1};
  add(operations, 4);
  for (const auto& [grid, expected] : {std::pair{4u, true}, std::pair{5u, false}}) {
    const Binding binding = binding_of(operations, grid);
    start(CaptureMode::kVerify);
    matcher_.follow(operations[1].signature, binding, nullptr);
    matcher_.follow(operations[2].signature, binding, &operations[2].after);
    EXPECT_EQ(expected, static_cast<bool>(matcher_.expected_end())) << grid;
    matcher_.leave_tree();
  }
}

TEST_F(ShellMatcherTest, what_a_verified_operation_depends_on_counts_where_it_names_it) {
  const Sequence operations = fills(2);
  add(operations);
  const std::vector<std::uint32_t> first{1}, none;
  for (const auto& [after, matches] : {std::pair{&first, true}, std::pair{&none, false}}) {
    start(CaptureMode::kVerify);
    follow(operations[1]);
    follow(operations[2], after);
    EXPECT_EQ(matches, static_cast<bool>(matcher_.expected_end()));
    matcher_.leave_tree();
  }
}

}  // namespace
}  // namespace graphpool
