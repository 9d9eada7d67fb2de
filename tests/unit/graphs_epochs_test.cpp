// Calls after which recordings say nothing: when an epoch begins, and when what is withheld is made real.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "shim/graphs/epochs.h"
#include "shim/kernel/functions.h"
#include "shim/recording/operand.h"
#include "shim/recording/settings.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr EntryId kLimit = EntryId::hipDeviceSetLimit;

class Epochs : public ::testing::Test {
 protected:
  Epochs() {
    forget_settings();
    next_settings_epoch();  // recordings of other tests judge nothing
  }

  /// The program's call, which must find the epoch that the test began with.
  struct Call {
    hipError_t operator()() {
      ++made;
      EXPECT_EQ(epoch, settings_epoch()) << "an epoch begins behind the call";
      return result;
    }
    hipError_t result = hipSuccess;
    std::uint64_t epoch = settings_epoch();
    int made = 0;
  };
  /// Makes the call by `change`, once, and says whether an epoch began.
  template <typename Change>
  static bool begins(hipError_t result, Change&& change) {
    Call call;
    call.result = result;
    EXPECT_EQ(result, change(call));
    EXPECT_EQ(1, call.made);
    return settings_epoch() != call.epoch;
  }
  static bool sets(std::uint64_t value, hipError_t result = hipSuccess) {
    return begins(result, [&](Call& call) { return change_setting(kLimit, 1, value, call); });
  }
  static bool changes_kind(const void* address, std::size_t bytes, hipError_t result = hipSuccess) {
    return begins(result, [&](Call& call) { return change_kind(address, bytes, call); });
  }

  fake::Install fake;
};

TEST_F(Epochs, rule_38_what_is_not_remembered_begins_one_each_time) {
  const auto change = [](Call& call) { return change_settings(call); };
  EXPECT_TRUE(begins(hipSuccess, change));
  EXPECT_TRUE(begins(hipSuccess, change));
  EXPECT_FALSE(begins(hipErrorInvalidValue, change)) << "nothing was changed";
}

TEST_F(Epochs, rule_38_a_value_begins_one_where_it_differs) {
  EXPECT_TRUE(sets(64));
  EXPECT_FALSE(sets(64));
  EXPECT_FALSE(sets(65, hipErrorInvalidValue));
  EXPECT_FALSE(sets(64)) << "it was not changed by the call that failed";
  EXPECT_TRUE(sets(65));
  ASSERT_EQ(hipSuccess, change_settings([] { return hipSuccess; }));
  EXPECT_TRUE(sets(65)) << "who knows what was changed";
}

TEST_F(Epochs, rule_38_what_is_set_of_a_kernel_begins_none) {
  constexpr KernelSetting kAttribute{hipFuncAttributeMaxDynamicSharedMemorySize, 0};
  const auto sets_of = [&](const void* handle, std::uint64_t value, hipError_t result = hipSuccess) {
    return begins(result, [&](Call& call) { return change_kernel_setting(handle, kAttribute, value, call); });
  };
  const auto address = [](std::uintptr_t value) { return reinterpret_cast<const void*>(value); };
  static_cast<void>(functions().on_function_found(address(0x100), "kernel", address(0x1000)));
  EXPECT_FALSE(sets_of(address(0x1000), 64));
  EXPECT_TRUE(functions().has_setting(address(0x1000), kAttribute, 64));
  EXPECT_FALSE(sets_of(address(0x1000), 65, hipErrorInvalidValue));
  EXPECT_TRUE(functions().has_setting(address(0x1000), kAttribute, 64)) << "it was not changed by the call that failed";
  EXPECT_TRUE(sets_of(address(0x2000), 64)) << "nobody knows which kernel this is";
  EXPECT_FALSE(functions().has_setting(address(0x1000), kAttribute, 64)) << "it may have been that one";
  functions().on_module_unloaded(address(0x100));
  EXPECT_TRUE(sets_of(address(0x1000), 64)) << "nor that";
}

TEST_F(Epochs, memory_begins_one_where_a_recording_knows_it_by_its_address) {
  char memory[64] = {};
  char* const other = memory + 32;
  EXPECT_FALSE(changes_kind(memory, 16));
  Binding binding;
  const CopyPayload copy{
      reinterpret_cast<std::uint64_t>(memory), reinterpret_cast<std::uint64_t>(memory), 16, 1, 16, 16};
  std::memcpy(add_payload(binding, sizeof copy), &copy, sizeof copy);
  Signature signature;
  signature.kind = OperationKind::kCopy;
  signature.dst_class = signature.src_class = operand_class(memory, 16);
  ASSERT_FALSE(is_known_class(signature.dst_class));
  note_judged_operands(signature, binding, 0);
  EXPECT_FALSE(changes_kind(other, 16));
  EXPECT_FALSE(changes_kind(memory + 8, 1, hipErrorInvalidValue));
  EXPECT_TRUE(changes_kind(memory + 8, 1));
  EXPECT_FALSE(changes_kind(memory + 8, 1)) << "recordings of the epoch before are used no more";
}

TEST_F(Epochs, a_capture_may_be_invalidated_by_any_of_them) {
  const auto doubts = [] { return g_capture_doubts.load(); };
  const auto before = doubts();
  const auto all = [&] {
    static_cast<void>(begins(hipSuccess, [](Call& call) { return change_settings(call); }));
    static_cast<void>(sets(1, hipErrorInvalidValue));
    static_cast<void>(changes_kind(&before, 1, hipErrorInvalidValue));
  };
  all();
  EXPECT_EQ(before, doubts()) << "there is none";
  capture_opened();
  all();
  capture_closed();
  EXPECT_EQ(before + 3, doubts());
}

TEST_F(Epochs, rule_31_a_reset_begins_one_and_the_devices_settings_are_gone) {
  EXPECT_TRUE(sets(7));
  EXPECT_FALSE(sets(7));
  const std::uint64_t before = settings_epoch();
  drop_device(0);
  EXPECT_NE(before, settings_epoch());
  EXPECT_TRUE(sets(7));
}

TEST_F(Epochs, rule_20_a_reset_completes_the_launches_of_the_device_and_takes_its_streams) {
  hipStream_t stream = nullptr;
  ASSERT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  work_counts().created(stream, 0);
  const StreamKey key = stream_key({stream, false});
  LaunchMarks marks;
  marks.add(key, stream, next_launch());
  const auto state = stream_state(key);
  drop_device(1);
  EXPECT_FALSE(marks.complete());
  EXPECT_TRUE(stream_lives(*state));
  drop_device(0);
  EXPECT_TRUE(marks.complete()) << "an event would be gone with the device";
  EXPECT_FALSE(stream_lives(*state));
  EXPECT_NE(state, stream_state(key)) << "of a new stream at the same address";
}

}  // namespace
}  // namespace graphpool
