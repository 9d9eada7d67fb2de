// Functions that the runtime exports and the rows do not know. One process: the tests run in this order.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "shim/hip/coverage.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

class Coverage : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(policy_of_process() != nullptr);
    runtime_ = dlopen(std::getenv("FAKE_RUNTIME"), RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(runtime_, nullptr) << dlerror();
    resolve_next();
  }
  static inline void* runtime_ = nullptr;
};

TEST_F(Coverage, unknown_functions_that_nobody_uses_do_not_count) {
  check_coverage();
  EXPECT_FALSE(unknown_entries_in_use());
}

TEST_F(Coverage, known_and_foreign_lookups_do_not_count) {
  g_mode.store(Mode::kActive);
  int local = 0;
  note_unknown_lookup("hipFutureLaunch", &local);
  note_unknown_lookup("other_function", dlsym(runtime_, "hipFutureLaunch"));
  EXPECT_FALSE(unknown_entries_in_use());
}

/// The check of the start may be over by then. In a process of its own: only the first function found is told.
TEST_F(Coverage, a_lookup_at_the_end_of_the_start_counts) {
  const pid_t child = fork();
  if (child == 0) {
    g_mode.store(Mode::kStarting);
    note_unknown_lookup("hipFutureLaunch", dlsym(runtime_, "hipFutureLaunch"));
    g_mode.store(Mode::kActive);
    const bool before = unknown_entries_in_use();
    check_objects_loaded_since();
    _exit(!before && unknown_entries_in_use() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Coverage, an_import_counts_and_is_said_once) {
  testing::internal::CaptureStderr();
  check_objects_loaded_since();
  EXPECT_FALSE(unknown_entries_in_use());
  ASSERT_NE(dlopen(std::getenv("UNKNOWN_IMPORTER"), RTLD_LAZY | RTLD_LOCAL), nullptr) << dlerror();
  check_objects_loaded_since();
  EXPECT_TRUE(unknown_entries_in_use());
  check_coverage();
  note_unknown_lookup("hipAnotherFutureLaunch", dlsym(runtime_, "hipAnotherFutureLaunch"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(unknown_entries_in_use());
  EXPECT_NE(said.find("hipFutureLaunch is imported by a loaded object"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
}

}  // namespace
}  // namespace graphpool
