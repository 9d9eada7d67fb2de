// Finding a runtime that is opened while the process runs. The tests share one process: they run in this order.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "shim/hip/entry.h"
#include "shim/hip/lookup.h"
#include "shim/hip/next.h"

namespace graphpool {
namespace {

void* g_runtime = nullptr;

TEST(Next, without_a_runtime_every_entry_is_a_stand_in) {
  resolve_next();
  for (std::size_t i = 0; i < kEntryCount; ++i) EXPECT_FALSE(has(static_cast<EntryId>(i)));
  void* pointer = nullptr;
  EXPECT_EQ(next().hipMalloc(&pointer, 1), hipErrorNotSupported);
  EXPECT_EQ(next().hiprtcVersion(nullptr, nullptr), HIPRTC_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(next().__hipRegisterFatBinary(nullptr), nullptr);
  EXPECT_FALSE(runtime_owns_memory());
  keep_runtime_loaded();
}

TEST(Next, dlerror_is_left_alone) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "nobody_has_this"), nullptr);
  g_runtime = dlopen(std::getenv("FAKE_RUNTIME"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(g_runtime, nullptr);
  EXPECT_EQ(dlsym(g_runtime, "nobody_has_this"), nullptr);
  resolve_next();
  const char* const error = dlerror();
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::strstr(error, "nobody_has_this"), nullptr) << error;
}

TEST(Next, an_opened_runtime_fills_the_table) {
  EXPECT_TRUE(has(EntryId::hipMalloc));
  EXPECT_EQ(reinterpret_cast<void*>(next().hipMalloc), dlsym(g_runtime, "hipMalloc"));
  EXPECT_FALSE(has(EntryId::hipGraphAddNode)) << "the runtime lacks it";
  EXPECT_TRUE(runtime_owns_memory());
  EXPECT_TRUE(in_runtime(dlsym(g_runtime, "hipFree")));
  EXPECT_FALSE(in_runtime(reinterpret_cast<void*>(&resolve_next)));
}

TEST(Next, only_its_own_functions_are_adopted) {
  EXPECT_TRUE(adopt_next(EntryId::hipMalloc, dlsym(g_runtime, "hipMalloc")));
  int local = 0;
  EXPECT_FALSE(adopt_next(EntryId::hipMalloc, &local)) << "another runtime's function";
  EXPECT_FALSE(adopt_next(EntryId::hipGraphAddNode, &local)) << "a second runtime does not fill holes of the first";
  EXPECT_FALSE(has(EntryId::hipGraphAddNode));
}

TEST(Next, a_runtime_the_program_opened_is_kept) {
  keep_runtime_loaded();
  void* const version = reinterpret_cast<void*>(next().hipRuntimeGetVersion);
  dlclose(g_runtime);
  Dl_info info;
  EXPECT_NE(dladdr(version, &info), 0) << "the runtime was unloaded under us";
}

TEST(Next, an_address_is_told_to_be_of_a_startup_object) {
  EXPECT_TRUE(in_startup_object(reinterpret_cast<void*>(&resolve_next)));
  EXPECT_FALSE(in_startup_object(reinterpret_cast<void*>(next().hipMalloc)));
  int local = 0;
  EXPECT_FALSE(in_startup_object(&local));
}

}  // namespace
}  // namespace graphpool
