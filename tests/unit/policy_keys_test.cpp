// policy_keys_test.cpp: the tables made from policy_keys.def.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/keys.h"

namespace graphpool {
namespace {

using namespace reading;

template <typename Target>
void defaults_are_good(std::span<const Key<Target>> keys) {
  Target target;
  for (const Key<Target>& key : keys) {
    EXPECT_FALSE(key.read(target, key.items(key.fallback)).has_value()) << key.name;
    EXPECT_NE(key.forms, 0u) << key.name;
    EXPECT_FALSE(key.allowed().empty()) << key.name;
  }
}

TEST(Keys, DefaultsAreGood) {
  defaults_are_good(policy_keys());
  defaults_are_good(buffer_keys());
}

TEST(Keys, EveryKeyHasASection) {
  for (const Key<Policy>& key : policy_keys()) {
    bool known = std::any_of(policy_sections().begin(), policy_sections().end(),
                             [&](const Section& section) { return section.name == key.section; });
    EXPECT_TRUE(key.section.empty() || known) << key.name;
  }
}

TEST(Keys, Names) {
  EXPECT_EQ(full_name(policy_keys()[0]), "enabled");
  EXPECT_EQ(variable_name(policy_keys()[0]), "GRAPHPOOL_ENABLED");
  EXPECT_EQ(full_name(policy_keys()[1]), "pool.enabled");
  EXPECT_EQ(variable_name(policy_keys()[1]), "GRAPHPOOL_POOL_ENABLED");
  EXPECT_EQ(full_name(buffer_keys()[0]), "buffer.name");
}

TEST(Keys, PromisedDefaults) {
  Policy policy;
  EXPECT_TRUE(policy.enabled);
  EXPECT_TRUE(policy.pool.enabled);
  EXPECT_EQ(policy.pool.backing, Backing::kAuto);
  EXPECT_EQ(policy.pool.free, FreeMode::kSync);
  EXPECT_EQ(policy.pool.limit, (Share{0, 25, true}));
  EXPECT_TRUE(policy.graph.compare);
  EXPECT_EQ(policy.graph.stage, Stage::kNever);
  EXPECT_EQ(policy.graph.slots, 1u);
  EXPECT_EQ(policy.graph.ring_timeout, std::chrono::seconds(30));
  EXPECT_EQ(policy.log.level, LogLevel::kWarn);
  EXPECT_EQ(policy.log.file, "");
  EXPECT_EQ(policy.report.file, "");
}

}  // namespace
}  // namespace graphpool
