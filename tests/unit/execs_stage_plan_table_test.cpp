// The plans by which a recording is staged: one for each choice of rules, and no more than are to be kept.
#include "shim/execs/exec_store.h"
#include "shim/execs/stage_plan_table.h"
#include "tests/unit/staged_memory_fixture.h"

namespace graphpool {
namespace {

class StagePlanTableTest : public StagedMemoryTest {
 protected:
  StagePlanTableTest() { recording_.operations = fills(1); }
  ~StagePlanTableTest() override {
    const LockGuard guard(g_recordings_lock);
    while (!recording_.variants.empty()) store_.remove(recording_, recording_.variants.back().get());
  }
  StagePlanTable::Plans plans_by(std::uint32_t rule) {
    return table_.plans_for(recording_, binding_over({memory_by(rule)}));
  }
  std::size_t plans() {
    const LockGuard guard(g_recordings_lock);
    return recording_.stage_plans.size();
  }
  const char* not_staged() {
    const LockGuard guard(g_recordings_lock);
    return recording_.not_staged;
  }
  /// A variant that works by these plans.
  Variant& add(const StagePlanTable::Plans& plans, const ProgramExec* owner) {
    auto variant = std::make_unique<Variant>();
    variant->plan = {plans, plans->always.get()};
    return *store_.adopt(recording_, std::move(variant), owner);
  }

  GraphSettings settings_;
  ExecStore store_{settings_};
  Recording recording_;
  StagePlanTable table_;
};

TEST_F(StagePlanTableTest, bindings_with_the_same_rules_share_their_plans) {
  const StagePlanTable::Plans first = plans_by(kFirstRule);
  ASSERT_NE(nullptr, first);
  EXPECT_EQ(first, plans_by(kFirstRule));
  EXPECT_NE(first, plans_by(kFirstRule + 1));
  EXPECT_EQ(2u, plans());
  EXPECT_EQ(nullptr, plans_by(0)) << "no rule stages it";
}

TEST_F(StagePlanTableTest, what_a_rule_leaves_open_has_an_open_plan_alone) {
  const StagePlanTable::Plans always = plans_by(kFirstRule), open = plans_by(kOpenRule);
  EXPECT_NE(nullptr, always->always);
  EXPECT_EQ(nullptr, always->open) << "nothing is open";
  EXPECT_EQ(nullptr, open->always);
  ASSERT_NE(nullptr, open->open);
  EXPECT_TRUE(open->open->open());
  recording_.operations = fills(2);
  const StagePlanTable::Plans both =
      table_.plans_for(recording_, binding_over({memory_by(kFirstRule), memory_by(kOpenRule)}));
  ASSERT_NE(nullptr, both->always);
  ASSERT_NE(nullptr, both->open);
  EXPECT_EQ(1u, both->always->buffers());
  EXPECT_EQ(2u, both->open->buffers());
}

TEST_F(StagePlanTableTest, rule_30_the_least_recently_used_go) {
  std::vector<StagePlanTable::Plans::weak_type> made;
  for (std::uint32_t rule = 0; rule < Recording::kMostStagePlans; ++rule) made.push_back(plans_by(kFirstRule + rule));
  static_cast<void>(plans_by(kFirstRule));
  static_cast<void>(plans_by(kAlwaysRules));
  EXPECT_EQ(Recording::kMostStagePlans, plans());
  EXPECT_FALSE(made[0].expired());
  EXPECT_TRUE(made[1].expired());
  EXPECT_FALSE(made[2].expired());
}

TEST_F(StagePlanTableTest, rule_30_plans_that_an_exec_or_a_binding_uses_stay) {
  const ProgramExec owner;
  add(plans_by(kFirstRule), &owner);
  Variant& free = add(plans_by(kFirstRule + 1), nullptr);
  const StagePlanTable::Plans held = plans_by(kFirstRule + 2);
  static_cast<void>(plans_by(kFirstRule + 3));
  EXPECT_NE(nullptr, plans_by(kAlwaysRules)) << "that of the free variant has made room";
  {
    const LockGuard guard(g_recordings_lock);
    EXPECT_FALSE(free.kept()) << "nobody finds it by its plans any more";
  }
  EXPECT_EQ(nullptr, not_staged());
  std::vector<StagePlanTable::Plans> all{held, plans_by(kFirstRule + 3), plans_by(kAlwaysRules)};
  EXPECT_EQ(nullptr, plans_by(kOpenRule)) << "all are in use";
  EXPECT_STREQ("other rules have all its slots", not_staged());
  all.clear();
  EXPECT_NE(nullptr, plans_by(kOpenRule));
}

TEST_F(StagePlanTableTest, rule_04_a_graph_with_host_functions_is_not_staged_and_the_report_says_so) {
  recording_.operations[1].signature.kind = OperationKind::kFill;
  Operation host;
  host.signature.kind = OperationKind::kHost;
  host.signature.payload_bytes = sizeof(HostPayload);
  host.payload_offset = recording_.operations[2].payload_offset;
  recording_.operations.insert(recording_.operations.begin() + 2, host);
  Binding binding = binding_over({memory_by(kFirstRule)});
  const HostPayload none{0};
  std::memcpy(add_payload(binding, sizeof none), &none, sizeof none);
  EXPECT_EQ(nullptr, table_.plans_for(recording_, binding));
  EXPECT_STREQ("it has host operations", not_staged());
  EXPECT_EQ(0u, plans());
}

}  // namespace
}  // namespace graphpool
