// Tests of shim/streams/open_captures.h.
#include <gtest/gtest.h>

#include <thread>

#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr hipStreamCaptureMode kGlobal = hipStreamCaptureModeGlobal, kThreadLocal = hipStreamCaptureModeThreadLocal,
                               kRelaxed = hipStreamCaptureModeRelaxed;

/// The answers for a thread in each mode: global, thread-local, relaxed.
std::array<bool, 3> refused() {
  std::array<bool, 3> answers{};
  for (const hipStreamCaptureMode mode : {kGlobal, kThreadLocal, kRelaxed}) {
    fake::t_mode = mode;
    answers[static_cast<std::size_t>(mode)] = captures_refuse_memory_calls();
    EXPECT_EQ(fake::t_mode, mode);
  }
  fake::t_mode = kGlobal;
  return answers;
}
std::array<bool, 3> refused_elsewhere() {
  std::array<bool, 3> answers{};
  std::thread([&] { answers = refused(); }).join();
  return answers;
}

using Answers = std::array<bool, 3>;

TEST(OpenCaptures, rule_08_MemoryCallsAreRefusedAsTheRuntimeDoes) {
  const fake::Install fake;
  EXPECT_EQ(refused(), (Answers{false, false, false}));
  capture_opened(kGlobal);
  EXPECT_EQ(refused(), (Answers{true, true, false}));
  EXPECT_EQ(refused_elsewhere(), (Answers{true, false, false}));
  capture_opened(kThreadLocal);
  capture_closed(kGlobal);
  EXPECT_EQ(refused(), (Answers{true, true, false}));
  EXPECT_EQ(refused_elsewhere(), (Answers{false, false, false}));
  capture_opened(kRelaxed);
  capture_closed(kThreadLocal);
  EXPECT_EQ(refused(), (Answers{false, false, false}));
  EXPECT_TRUE(captures_open());
  capture_closed(kRelaxed);
  EXPECT_FALSE(captures_open());
}

TEST(OpenCaptures, OneMayBeClosedByAnotherThread) {
  const fake::Install fake;
  capture_opened(kThreadLocal);
  const void* const thread = &t_thread_token;
  std::thread([&] { capture_closed(kThreadLocal, thread); }).join();
  capture_opened(kRelaxed);
  EXPECT_EQ(refused(), (Answers{false, false, false}));
  capture_closed(kRelaxed);
}

TEST(OpenCaptures, MoreThanAreListedForbidEverything) {
  const fake::Install fake;
  constexpr int kMany = 100;
  for (int i = 0; i < kMany; ++i) capture_opened(kThreadLocal);
  EXPECT_EQ(refused_elsewhere(), (Answers{true, true, false}));
  for (int i = 0; i < kMany; ++i) capture_closed(kThreadLocal);
  capture_opened(kRelaxed);
  EXPECT_EQ(refused(), (Answers{false, false, false}));
  capture_closed(kRelaxed);
}

TEST(OpenCaptures, WhereTheRuntimeDoesNotSayTheCallsAreItsOwn) {
  const fake::Install fake;
  capture_opened(kRelaxed);
  EXPECT_FALSE(captures_refuse_memory_calls());
  fake.hip->fail["hipThreadExchangeStreamCaptureMode"] = hipErrorUnknown;
  EXPECT_TRUE(captures_refuse_memory_calls());
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake.hip->fail.clear();
  capture_closed(kRelaxed);
}

}  // namespace
}  // namespace graphpool
