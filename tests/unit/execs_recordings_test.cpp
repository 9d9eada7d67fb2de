// Which recordings there are, and which of them go.
#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "shim/execs/recordings.h"
#include "shim/kernel/communication.h"
#include "shim/kernel/functions.h"
#include "tests/support/counting_new.h"
#include "tests/unit/fills.h"

namespace graphpool {
namespace {

class RecordingsTest : public testing::Test {
 protected:
  RecordingsTest() { settings_.most_recordings = 2; }
  ~RecordingsTest() override {
    settings_.most_recordings = 0;
    const LockGuard guard(g_recordings_lock);
    for (const auto& each : recordings_.all()) each->users = 0;
    trim();
    EXPECT_TRUE(recordings_.all().empty());
  }

  /// A capture ends whose fills are these, and its graph is destroyed.
  Recordings::Recorded capture(std::uint64_t which, std::vector<Recording*> children = {}) REQUIRES(g_recordings_lock) {
    const Recordings::Recorded recorded =
        recordings_.recorded(fills(1, which), fill_binding({0x1000}), std::move(children), 0);
    --recorded.recording.users;
    return recorded;
  }
  /// And held on to.
  Recording& hold(std::uint64_t which) REQUIRES(g_recordings_lock) {
    Recording& recording = capture(which).recording;
    ++recording.users;
    return recording;
  }
  void trim() REQUIRES(g_recordings_lock) { recordings_.trim(&retired_); }
  bool has(std::uint64_t which) REQUIRES(g_recordings_lock) {
    for (const auto& each : recordings_.all())
      if (each->operations[1].signature.object == which) return true;
    return false;
  }

  GraphSettings settings_;
  RetiredVariants retired_;
  ExecStore store_{settings_};
  Recordings recordings_{store_, settings_};
};

TEST_F(RecordingsTest, a_kernel_of_a_communication_library_counts_in_a_child_graph_too) {
  static const char module = 0, function = 0;
  static_cast<void>(functions().on_module_file_loaded(&module, "/nowhere/librccl.so"));
  static_cast<void>(functions().on_function_found(&module, "reduce", &function));
  ASSERT_TRUE(is_communication_kernel(&function));
  std::vector<Operation> inner(1);
  inner[0].signature.kind = OperationKind::kKernel;
  inner[0].signature.object = reinterpret_cast<std::uint64_t>(&function);
  Recording own, parent, other;
  own.operations = inner;
  EXPECT_TRUE(own.communicates());
  parent.operations.resize(1);
  parent.operations[0].signature.kind = OperationKind::kChild;
  parent.operations[0].child = &inner;
  EXPECT_TRUE(parent.communicates());
  other.operations = fills(1);
  EXPECT_FALSE(other.communicates());
  functions().on_module_unloaded(&module);
}

TEST_F(RecordingsTest, the_same_operations_are_one_recording) {
  const LockGuard guard(g_recordings_lock);
  const auto first = recordings_.recorded(fills(2), fill_binding({1, 2}), {}, 0);
  const auto again = recordings_.recorded(fills(2), fill_binding({3, 4}), {}, 0);
  EXPECT_EQ(&first.recording, &again.recording);
  EXPECT_TRUE(first.is_first);
  EXPECT_FALSE(again.is_first);
  EXPECT_EQ(0u, first.away);
  EXPECT_EQ(1u, again.away);
  EXPECT_EQ(2u, first.recording.users);
  EXPECT_EQ(2u, first.recording.node_count);
  EXPECT_NE(&first.recording, &capture(5).recording);
  EXPECT_EQ(3u, recordings_.counts().captures);
}

TEST_F(RecordingsTest, its_home_is_the_one_device_of_its_operations) {
  const LockGuard guard(g_recordings_lock);
  std::vector<Operation> split = fills(2);
  split[2].signature.device = packed_devices(1, 1);
  EXPECT_EQ(0, recordings_.recorded(fills(2), fill_binding({1, 2}), {}, 0).recording.home);
  EXPECT_EQ(1, recordings_.recorded(fills(2, 0, 1), fill_binding({1, 2}), {}, 0).recording.home);
  EXPECT_EQ(-1, recordings_.recorded(std::move(split), fill_binding({1, 2}), {}, 0).recording.home);
}

TEST_F(RecordingsTest, rule_30_the_least_recently_used_that_nobody_refers_to_goes) {
  const LockGuard guard(g_recordings_lock);
  hold(1);
  for (const std::uint64_t which : {2u, 3u, 2u, 4u}) capture(which);
  trim();
  EXPECT_TRUE(has(1)) << "a graph refers to it";
  EXPECT_FALSE(has(2) || has(3));
  EXPECT_TRUE(has(4));
  EXPECT_EQ(2u, recordings_.counts().dropped);
}

TEST_F(RecordingsTest, rule_30_the_bytes_of_all_are_limited_too) {
  settings_.most_recordings = 100;
  const LockGuard guard(g_recordings_lock);
  settings_.most_recording_bytes = 2 * capture(1).recording.host_bytes;
  EXPECT_TRUE(capture(2).has_room);
  EXPECT_FALSE(capture(3).has_room);
  trim();
  EXPECT_EQ(2u, recordings_.all().size());
  EXPECT_FALSE(has(1));
}

TEST_F(RecordingsTest, a_recording_that_is_being_launched_stays) {
  settings_.most_recordings = 0;
  const LockGuard guard(g_recordings_lock);
  Recording& recording = capture(1).recording;
  auto made = std::make_unique<Variant>();
  Variant* const variant = store_.take_in(recording, std::move(made), nullptr);
  variant->under_way = 1;
  trim();
  EXPECT_TRUE(has(1));
  variant->under_way = 0;
  trim();
  EXPECT_FALSE(has(1));
  EXPECT_EQ(variant, retired_.front().get()) << "its variants go with it";
}

TEST_F(RecordingsTest, a_child_stays_as_long_as_its_parent) {
  settings_.most_recordings = 0;
  const LockGuard guard(g_recordings_lock);
  Recording& child = capture(1).recording;
  Recording& parent = capture(2, {&child}).recording;
  parent.users = 1;
  trim();
  EXPECT_TRUE(has(1) && has(2));
  parent.users = 0;
  trim();
  EXPECT_FALSE(has(1) || has(2));
}

TEST_F(RecordingsTest, where_more_take_turns_than_are_kept_most_are_there_when_they_come) {
  settings_.most_recordings = 8;
  const LockGuard guard(g_recordings_lock);
  std::size_t there = 0;
  constexpr std::size_t kTurns = 100, kGraphs = 10;
  for (std::size_t turn = 0; turn < kTurns; ++turn)
    for (std::uint64_t which = 0; which < kGraphs; ++which) {
      there += has(which) ? 1 : 0;
      capture(which);
      trim();
    }
  EXPECT_GT(there, kTurns * kGraphs / 2) << "the least recently used is the one that comes next";
}

TEST_F(RecordingsTest, rule_37_outdated_ones_go_with_their_last_user) {
  const LockGuard guard(g_recordings_lock);
  Recording& held = hold(1);
  capture(2);
  capture(3);
  auto made = std::make_unique<Variant>(), serving = std::make_unique<Variant>();
  Variant* const free = store_.take_in(held, std::move(made), nullptr);
  const ProgramExec owner;
  store_.take_in(held, std::move(serving), &owner);
  held.first = std::make_unique<Variant>();
  const auto names = [](const Operation& operation) {
    return operation.signature.object == 1 || operation.signature.object == 2;
  };
  recordings_.outdate(names, &retired_);
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3)) << "it names nothing of the module";
  EXPECT_TRUE(has(1)) << "the program has a graph of it";
  EXPECT_TRUE(held.outdated);
  EXPECT_EQ(nullptr, held.first);
  EXPECT_EQ(1u, held.variants.size()) << "what serves an exec stays";
  EXPECT_NE(free, held.variants.front().get());
  held.users = 0;
  trim();
  EXPECT_FALSE(has(1)) << "although there is room";
  EXPECT_TRUE(has(3));
}

TEST_F(RecordingsTest, what_was_dropped_is_told_with_its_reason) {
  settings_.track_operands = true;
  settings_.most_recordings = 1;
  const LockGuard guard(g_recordings_lock);
  const std::uint64_t number = capture(1).recording.number;
  EXPECT_EQ(2u, recordings_.withheld(hold(2), 0) + 1) << "one capture ago";
  trim();
  ASSERT_EQ(1u, recordings_.dropped().size());
  EXPECT_EQ(number, recordings_.dropped().front().number);
  EXPECT_STREQ("others were used later, and there were too many", recordings_.dropped().front().dropped);
  EXPECT_EQ(1u, recordings_.counts().withheld_captures);
}

TEST_F(RecordingsTest, what_cannot_be_dropped_for_want_of_memory_is_found_still) {
  settings_.track_operands = true;
  const LockGuard guard(g_recordings_lock);
  Recording& recording = capture(1).recording;
  store_.take_in(recording, std::make_unique<Variant>(), nullptr);
  settings_.most_recordings = 0;
  for (int allocations = 0; has(1); ++allocations) {
    let_allocations_work(allocations);
    try {
      trim();
    } catch (const std::bad_alloc&) {
    }
    let_allocations_work(-1);
    if (!has(1)) break;
    ASSERT_EQ(&recording, &capture(1).recording) << allocations;
    ASSERT_EQ(1u, recordings_.all().size());
  }
  EXPECT_EQ(1u, recordings_.counts().dropped);
}

TEST_F(RecordingsTest, variants_of_a_place_that_is_left_alone_are_kept_no_longer) {
  const LockGuard guard(g_recordings_lock);
  const char places[2] = {};
  Recording& here = capture(1).recording;
  Recording& there = capture(2).recording;
  here.place = &places[0];
  there.place = &places[1];
  const ProgramExec owner;
  Variant* const free = store_.take_in(here, std::make_unique<Variant>(), nullptr);
  Variant* const serving = store_.take_in(here, std::make_unique<Variant>(), &owner);
  Variant* const elsewhere = store_.take_in(there, std::make_unique<Variant>(), nullptr);
  recordings_.keep_no_variants_of(&places[0]);
  EXPECT_FALSE(free->kept());
  EXPECT_TRUE(serving->kept());
  EXPECT_TRUE(elsewhere->kept());
}

TEST_F(RecordingsTest, verify_picks_so_many_captures_for_each_recording_of_a_beginning) {
  settings_.verify = {Verify::Mode::kFirst, 2};
  Recording *first = nullptr, *second = nullptr;
  {
    const LockGuard guard(g_recordings_lock);
    first = &capture(1).recording;
    second = &capture(2).recording;
    first->rebuildable = second->rebuildable = true;
  }
  const auto picked = [&] {
    const TreeWalk walk = recordings_.walk_begins(fills(1).front().signature);
    EXPECT_NE(nullptr, walk.start);
    recordings_.walk_ended();
    return walk.verify;
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(picked()) << i;
  EXPECT_FALSE(picked()) << "as many as it takes if they come in turn";
  settings_.verify = {Verify::Mode::kFirst, 10};
  EXPECT_TRUE(picked());
  {
    const LockGuard guard(g_recordings_lock);
    first->statistics.verified = second->statistics.verified = 10;
  }
  EXPECT_FALSE(picked()) << "all have been";
}

TEST_F(RecordingsTest, a_hold_by_a_place_in_the_tree_is_empty_once_the_recording_is_gone) {
  const TreeNode* end = nullptr;
  {
    const LockGuard guard(g_recordings_lock);
    end = capture(1).recording.end;
  }
  ASSERT_NE(nullptr, recordings_.walk_begins(fills(1).front().signature).start);
  settings_.most_recordings = 0;
  {
    const HeldRecording held = recordings_.hold(*end);
    ASSERT_TRUE(held);
    const LockGuard guard(g_recordings_lock);
    trim();
    EXPECT_EQ(1u, recordings_.all().size());
  }
  {
    const LockGuard guard(g_recordings_lock);
    trim();
  }
  EXPECT_FALSE(recordings_.hold(*end));
  recordings_.walk_ended();
}

}  // namespace
}  // namespace graphpool
