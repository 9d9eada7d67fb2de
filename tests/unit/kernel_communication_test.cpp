#include <gtest/gtest.h>

#include "shim/kernel/communication.h"

namespace graphpool {
namespace {

TEST(Communication, names_of_libraries_are_found_in_any_case_anywhere) {
  for (const char* const name :
       {"_Z25ncclDevKernel_Generic_4P", "librccl.so.1", "RCCLKernel", "mscclKernel_Sum", "rocSHMEM_wg", "nvshmemi_put"})
    EXPECT_TRUE(names_communication(name)) << name;
  for (const char* const name : {"", "mix", "reduce_shmem", "ncc", "lncl", "all_reduce"})
    EXPECT_FALSE(names_communication(name)) << name;
}

TEST(Communication, a_function_of_this_program_is_none) {
  EXPECT_FALSE(is_communication_kernel(reinterpret_cast<const void*>(&names_communication)));
  EXPECT_FALSE(is_communication_kernel(nullptr));
}

}  // namespace
}  // namespace graphpool
