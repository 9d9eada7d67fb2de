// What is set of kernels, told by the generations of their handles; and whose a handle is.
#include <gtest/gtest.h>

#include <deque>

#include "shim/kernel/owned_functions.h"
#include "shim/kernel/set_kernels.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

class SetKernelsTest : public testing::Test {
 protected:
  static constexpr KernelSetting kSetting{1, 0};

  static const void* handle(int number) { return reinterpret_cast<const void*>(0x1000L * (number + 1)); }
  /// A handle that is new there, of a kernel whose arguments are not known.
  void add(const void* owner, const void* function, const char* name) {
    EXPECT_EQ(Status::kNotFound, functions_.add(owner, &owned_, function, {nullptr, name, 0, true}));
  }
  std::uint64_t settings_of(const void* function) const {
    PointerTable::Value value;
    return table_.find(function, &value) ? unpack(value).generation >> kSettingsShift : 0;
  }
  bool set(const KernelKey& kernel, std::uint64_t value) {
    return set_kernels_.set(
        kernel, kSetting, value, true,
        [this](const void* each, const KernelKey& its) { return functions_.owner_of(each) == its.owner; },
        [this](const KernelKey&) { return owned_; });
  }

  /// A table that is never destroyed, as the process's own.
  static PointerTable& new_table() {
    static auto& tables = *new std::deque<PointerTable>;
    return tables.emplace_back();
  }

  PointerTable& table_ = new_table();
  SetKernels set_kernels_{table_};
  OwnedFunctions functions_{table_, set_kernels_};
  std::vector<const void*> owned_;
  const void* const module_ = handle(100);
  const void* const other_ = handle(101);
  const char* const name_ = "kernel";
};

TEST_F(SetKernelsTest, what_is_set_is_told_by_every_handle_of_the_kernel) {
  add(module_, handle(0), name_);
  add(module_, handle(1), name_);
  EXPECT_EQ(0u, settings_of(handle(0)));
  EXPECT_TRUE(set({module_, name_}, 7));
  EXPECT_TRUE(set_kernels_.has({module_, name_}, kSetting, 7));
  EXPECT_NE(0u, settings_of(handle(0)));
  EXPECT_EQ(settings_of(handle(0)), settings_of(handle(1)));
  add(module_, handle(2), name_);  // one that comes later, too
  EXPECT_EQ(settings_of(handle(0)), settings_of(handle(2)));
}

TEST_F(SetKernelsTest, a_handle_that_has_moved_on_is_left_alone) {
  add(module_, handle(0), name_);
  EXPECT_TRUE(set({module_, name_}, 7));
  add(other_, handle(0), name_);
  EXPECT_EQ(other_, functions_.owner_of(handle(0)));
  EXPECT_TRUE(set({module_, name_}, 8));
  EXPECT_EQ(0u, settings_of(handle(0)));
  functions_.forget({handle(0)}, module_);
  EXPECT_EQ(other_, functions_.owner_of(handle(0)));
}

TEST_F(SetKernelsTest, what_is_set_goes_with_its_owner) {
  EXPECT_TRUE(set({module_, name_}, 7));
  EXPECT_TRUE(set({other_, name_}, 7));
  set_kernels_.forget_owner(module_);
  EXPECT_FALSE(set_kernels_.has({module_, name_}, kSetting, 7));
  EXPECT_TRUE(set_kernels_.has({other_, name_}, kSetting, 7));
}

TEST_F(SetKernelsTest, all_that_was_set_is_forgotten) {
  add(module_, handle(0), name_);
  EXPECT_TRUE(set({module_, name_}, 7));
  set_kernels_.forget_all([](const void*, const KernelKey&) { return true; });
  EXPECT_EQ(0u, settings_of(handle(0)));
  EXPECT_FALSE(set_kernels_.has({module_, name_}, kSetting, 7));
}

TEST_F(SetKernelsTest, a_function_that_its_owner_has_keeps_its_generation) {
  add(module_, handle(0), name_);
  PointerTable::Value first, again;
  ASSERT_TRUE(table_.find(handle(0), &first));
  EXPECT_EQ(Status::kOk, functions_.add(module_, &owned_, handle(0), {nullptr, name_, 0, true}));
  ASSERT_TRUE(table_.find(handle(0), &again));
  EXPECT_EQ(first, again);
  EXPECT_EQ(1u, owned_.size());
}

TEST_F(SetKernelsTest, without_memory_a_handle_that_is_another_kernels_now_is_unknown) {
  constexpr int kUntilTheTableGrows = 128;
  owned_.reserve(kUntilTheTableGrows + 1);
  for (int i = 0; i < kUntilTheTableGrows; ++i) add(module_, handle(i), name_);
  let_allocations_work(0);
  const Status result = functions_.add(other_, &owned_, handle(0), {nullptr, "other", 0, true});
  let_allocations_work(-1);
  EXPECT_EQ(Status::kNoMemory, result);
  PointerTable::Value value;
  EXPECT_FALSE(table_.find(handle(0), &value));
}

}  // namespace
}  // namespace graphpool
