// What an exec is taken to hold, and how much patches may take.
#include <gtest/gtest.h>

#include "shim/base/units.h"
#include "shim/execs/exec_size.h"

namespace graphpool {
namespace {

constexpr int k57 = 50731921, k60 = 60032830, k62 = 60241133, k63 = 60342131, k70 = 70051831, k72 = 70251831;
constexpr std::size_t kArguments = 320;  ///< of one kernel: 40 bytes and the hidden ones, rounded up

Operation kernel(std::vector<std::uint32_t> after) {
  Operation operation;
  operation.signature.kind = OperationKind::kKernel;
  operation.signature.payload_bytes = 40;
  operation.after = std::move(after);
  return operation;
}

TEST(ExecSize, a_list_has_one_stream_and_room_for_updates_by_version) {
  const std::vector<Operation> list{kernel({}), kernel({0}), kernel({1})};
  EXPECT_EQ(kMiB, exec_memory(list, k57));
  EXPECT_EQ(kMiB + 3 * kArguments, exec_memory(list, k60));
  EXPECT_EQ(kMiB + 3 * kArguments, exec_memory(list, k62));
  EXPECT_EQ(kMiB + 128 * kKiB + 3 * kArguments, exec_memory(list, k63));
  EXPECT_EQ(kMiB + 128 * kKiB + 3 * kArguments, exec_memory(list, k70));
  EXPECT_EQ(128 * kKiB + 3 * kArguments, exec_memory(list, k72));
}

TEST(ExecSize, branches_have_a_stream_each_up_to_four_later) {
  std::vector<Operation> forked{kernel({})};
  for (int i = 0; i < 6; ++i) forked.push_back(kernel({0}));
  EXPECT_EQ(6 * kMiB, exec_memory(forked, k57));
  EXPECT_EQ(6 * kMiB + 7 * kArguments, exec_memory(forked, k62));
  EXPECT_EQ(4 * kMiB + 128 * kKiB + 7 * kArguments, exec_memory(forked, k72));
}

TEST(ExecSize, patches_stay_within_the_room_there_is) {
  EXPECT_GT(room_for_patches(k57), kGiB);
  EXPECT_EQ(0u, room_for_patches(k62));
  for (const int version : {k63, k70, k72}) {
    EXPECT_LT(room_for_patches(version), 128 * kKiB);
    EXPECT_GT(room_for_patches(version), 64 * kKiB);
  }
}

}  // namespace
}  // namespace graphpool
