#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "shim/callsite/unwinder.h"

namespace graphpool {
namespace {

AddressRange this_program() { return object_around(reinterpret_cast<const void*>(&this_program)); }

std::size_t frames_in(const Backtrace& stack, AddressRange range) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < stack.count; ++i) count += range.contains(stack.addresses[i]);
  return count;
}

[[gnu::noinline]] int recurse(const Unwinder& unwinder, int depth, Backtrace* stack) {
  if (depth == 0) {
    unwinder.unwind(stack);
    return 0;
  }
  const int below = recurse(unwinder, depth - 1, stack);
  asm volatile("");  // keeps compilers from making a loop of it
  return below + 1;
}

TEST(Unwinder, BeforeItIsOpenStacksAreEmpty) {
  const Unwinder unwinder;
  Backtrace stack;
  unwinder.unwind(&stack);
  EXPECT_FALSE(unwinder.ready());
  EXPECT_EQ(stack.count, 0u);
}

TEST(Unwinder, WithoutALibraryThereAreNoStacksAndNoTraceOfTheAttempt) {
  Unwinder unwinder;
  EXPECT_EQ(unwinder.open({}, "libnothing-of-this-name.so.8"), Status::kNotFound);
  EXPECT_EQ(unwinder.open({}, "libm.so.6"), Status::kNotFound) << "no such function in it";
  EXPECT_FALSE(unwinder.ready());
  EXPECT_EQ(dlerror(), nullptr);
}

TEST(Unwinder, FindsTheFramesInnermostFirst) {
  Unwinder unwinder;
  ASSERT_EQ(unwinder.open({}), Status::kOk);
  ASSERT_EQ(unwinder.open({}), Status::kOk) << "again";
  Backtrace shallow, deep;
  EXPECT_EQ(recurse(unwinder, 0, &shallow), 0);
  EXPECT_EQ(recurse(unwinder, 7, &deep), 7);
  EXPECT_TRUE(shallow.whole);
  EXPECT_EQ(deep.count, shallow.count + 7);
  EXPECT_EQ(deep.addresses[deep.count - 1], shallow.addresses[shallow.count - 1]) << "the outermost is the same";
  EXPECT_GT(frames_in(deep, this_program()), 8u);
}

TEST(Unwinder, LeavesOutItsOwnObject) {
  Unwinder unwinder;
  ASSERT_EQ(unwinder.open(this_program()), Status::kOk);
  Backtrace stack;
  recurse(unwinder, 3, &stack);
  EXPECT_EQ(frames_in(stack, this_program()), 0u);
  EXPECT_GT(stack.count, 0u) << "what called main";
}

TEST(Unwinder, DoesNotShowLibunwindToTheProgram) {
  Unwinder unwinder;
  ASSERT_EQ(unwinder.open({}), Status::kOk);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "unw_backtrace"), nullptr);
}

TEST(Unwinder, CutsVeryDeepStacksAtTheirOuterEnd) {
  Unwinder unwinder;
  ASSERT_EQ(unwinder.open({}), Status::kOk);
  Backtrace stack;
  recurse(unwinder, 300, &stack);
  EXPECT_EQ(stack.count, Backtrace::kMaxFrames);
  EXPECT_FALSE(stack.whole);
}

TEST(Unwinder, WorksInEveryThread) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "libunwind frees a thread's cache in its last destructor, with a mutex, after ThreadSanitizer's own";
#endif
  Unwinder unwinder;
  ASSERT_EQ(unwinder.open({}), Status::kOk);
  std::thread([&unwinder] {
    Backtrace stack;
    recurse(unwinder, 2, &stack);
    EXPECT_TRUE(stack.whole);
    EXPECT_GT(stack.count, 3u);
  }).join();
}

TEST(ObjectAround, IsEmptyForMemoryOfNoObject) {
  int local = 0;
  EXPECT_FALSE(object_around(&local).contains(reinterpret_cast<std::uintptr_t>(&local)));
  EXPECT_TRUE(this_program().contains(reinterpret_cast<std::uintptr_t>(&this_program)));
}

}  // namespace
}  // namespace graphpool
