// Who has which variant, and which of them go.
#include <gtest/gtest.h>

#include <memory>
#include <new>

#include "shim/execs/exec_store.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

class ExecStoreTest : public testing::Test {
 protected:
  ExecStoreTest() {
    settings_.most_variants = 2;
    recording_.exec_bytes = 100;
    exec_.recording = other_.recording = &recording_;
  }
  ~ExecStoreTest() override {
    const LockGuard guard(g_recordings_lock);
    while (!recording_.variants.empty()) store_.remove(recording_, recording_.variants.back().get());
  }
  Variant* adopt(const ProgramExec* owner, std::byte baked = {}, Keep keep = Keep::kForLater) {
    auto variant = std::make_unique<Variant>();
    variant->baked.append(&baked, &baked + 1);
    return store_.adopt(recording_, std::move(variant), owner, keep);
  }
  static Binding binding(std::byte value) {
    Binding all;
    all.append(&value, &value + 1);
    return all;
  }
  std::size_t evict() {
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    store_.evict(recording_, &retired);
    return retired.size();
  }

  GraphSettings settings_;
  ExecStore store_{settings_};
  Recording recording_;
  ProgramExec exec_, other_;
};

TEST_F(ExecStoreTest, a_variant_has_one_holder) {
  Variant* const variant = adopt(&exec_);
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(Holder::kServing, variant->holder());
  EXPECT_EQ(0u, recording_.free_variants);
  store_.disown(*variant);
  EXPECT_EQ(Holder::kNobody, variant->holder());
  EXPECT_EQ(1u, recording_.free_variants);
  const std::unique_ptr<Variant> removed = store_.remove(recording_, variant);
  EXPECT_EQ(Holder::kApart, removed->holder());
  EXPECT_EQ(0u, store_.limits.held(0).bytes);
  EXPECT_EQ(100u, store_.limits.held(0).peak_bytes);
}

TEST_F(ExecStoreTest, a_variant_that_is_being_launched_is_not_free_yet) {
  Variant* const variant = adopt(&exec_);
  variant->under_way = 1;
  const LockGuard guard(g_recordings_lock);
  store_.disown(*variant);
  EXPECT_EQ(&exec_, variant->owner());
}

TEST_F(ExecStoreTest, a_free_variant_serves_its_binding_and_one_exec) {
  exec_.source = other_.source = 7;
  Variant* const variant = adopt(nullptr, std::byte{1});
  variant->source = 7;
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(nullptr, store_.take_free(recording_, binding(std::byte{2}), 0, exec_));
  EXPECT_EQ(variant, store_.take_free(recording_, binding(std::byte{1}), 0, exec_));
  EXPECT_EQ(nullptr, store_.take_free(recording_, binding(std::byte{1}), 0, other_));
}

TEST_F(ExecStoreTest, only_a_good_variant_serves_another_exec) {
  for (const Health health : {Health::kUnsure, Health::kBroken, Health::kDistrusted}) {
    Variant* const variant = adopt(nullptr);
    const LockGuard guard(g_recordings_lock);
    variant->worsen(health);
    EXPECT_EQ(nullptr, store_.take_free(recording_, binding({}), 0, exec_));
    store_.remove(recording_, variant);
  }
}

TEST_F(ExecStoreTest, health_only_gets_worse) {
  Variant variant;
  const LockGuard guard(g_recordings_lock);
  variant.worsen(Health::kBroken);
  variant.worsen(Health::kUnsure);
  EXPECT_EQ(Health::kBroken, variant.health());
  EXPECT_TRUE(variant.is_broken());
  EXPECT_TRUE(variant.kept());
  variant.use_up(Health::kDistrusted);
  EXPECT_EQ(Health::kDistrusted, variant.health());
  EXPECT_FALSE(variant.kept());
}

TEST_F(ExecStoreTest, the_least_recently_used_free_variant_goes_first) {
  Variant* const oldest = adopt(nullptr);
  Variant* const second = adopt(nullptr);
  Variant* const newest = adopt(nullptr);
  {
    const LockGuard guard(g_recordings_lock);
    store_.note_used(*oldest);
  }
  EXPECT_EQ(1u, evict());
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(2u, recording_.variants.size());
  for (const auto& each : recording_.variants) EXPECT_NE(second, each.get());
  EXPECT_EQ(1u, recording_.statistics.evicted);
  EXPECT_EQ(Holder::kNobody, newest->holder());
}

TEST_F(ExecStoreTest, what_serves_a_program_exec_stays) {
  for (int i = 0; i < 4; ++i) adopt(&exec_);
  EXPECT_EQ(0u, evict());
}

TEST_F(ExecStoreTest, a_variant_for_one_use_goes_when_it_is_free) {
  Variant* const variant = adopt(&exec_, {}, Keep::kThisUse);
  EXPECT_EQ(0u, evict());
  {
    const LockGuard guard(g_recordings_lock);
    store_.give(*variant, nullptr);
  }
  EXPECT_EQ(1u, evict());
}

TEST_F(ExecStoreTest, memory_that_has_run_out_takes_every_free_variant) {
  adopt(nullptr);
  adopt(&exec_);
  EXPECT_TRUE(store_.reclaim(0));
  EXPECT_FALSE(store_.reclaim(0));
  const LockGuard guard(g_recordings_lock);
  EXPECT_EQ(1u, recording_.variants.size());
}

TEST_F(ExecStoreTest, variants_go_without_memory_of_the_hosts) {
  for (int i = 0; i < 3; ++i) adopt(nullptr);
  let_allocations_work(0);
  const bool any = store_.reclaim(0);
  let_allocations_work(-1);
  EXPECT_TRUE(any);
  EXPECT_EQ(0u, store_.limits.held(0).bytes);
}

TEST_F(ExecStoreTest, a_variant_for_which_no_place_is_found_is_not_evicted) {
  adopt(nullptr, {}, Keep::kThisUse);
  for (int i = 0; i < 3; ++i) adopt(nullptr);
  for (int allocations = 0; allocations < 2; ++allocations) {
    const std::size_t before = recording_.variants.size();
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    let_allocations_work(allocations);
    EXPECT_THROW(store_.evict(recording_, &retired), std::bad_alloc);
    let_allocations_work(-1);
    EXPECT_EQ(before, recording_.variants.size() + retired.size()) << "else it was destroyed under the lock";
  }
}

TEST_F(ExecStoreTest, a_variant_for_which_there_is_no_memory_is_not_taken_in) {
  adopt(&exec_);
  bool taken = false;
  for (int allocations = 0; !taken; ++allocations) {
    auto variant = std::make_unique<Variant>();
    variant->device = 1;
    const LockGuard guard(g_recordings_lock);
    let_allocations_work(allocations);
    try {
      store_.take_in(recording_, std::move(variant), nullptr);
      taken = true;
    } catch (const std::bad_alloc&) {
    }
    let_allocations_work(-1);
    EXPECT_EQ(taken ? 2u : 1u, recording_.variants.size());
    EXPECT_EQ(taken ? 100u : 0u, store_.limits.held(1).bytes);
    EXPECT_NE(taken, variant != nullptr) << "else it would be destroyed under the lock";
  }
}

TEST_F(ExecStoreTest, a_reset_of_the_device_forgets_what_is_free_and_uses_up_the_rest) {
  adopt(nullptr);
  Variant* const serving = adopt(&exec_);
  const LockGuard guard(g_recordings_lock);
  store_.device_reset(0);
  EXPECT_EQ(1u, recording_.variants.size());
  EXPECT_EQ(Health::kUnsure, serving->health());
  EXPECT_FALSE(serving->kept());
}

}  // namespace
}  // namespace graphpool
