// Tests of shim/hip/private_handles.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

const void* handle(std::uintptr_t number) { return reinterpret_cast<const void*>(number); }

TEST(PrivateHandles, what_is_entered_is_ours_until_it_is_removed) {
  auto& handles = never_destroyed<PrivateHandles>();
  EXPECT_FALSE(handles.has(nullptr));
  EXPECT_FALSE(handles.has(handle(16)));
  handles.add(nullptr);
  handles.add(handle(16));
  handles.add(handle(16));
  EXPECT_FALSE(handles.has(nullptr));
  EXPECT_TRUE(handles.has(handle(16)));
  EXPECT_FALSE(handles.has(handle(32)));
  handles.remove(handle(32));
  handles.remove(handle(16));
  EXPECT_FALSE(handles.has(handle(16)));
  handles.remove(handle(16));
  handles.remove(nullptr);
}

TEST(PrivateHandles, many_come_and_go) {
  auto& handles = never_destroyed<PrivateHandles>();
  std::set<std::uintptr_t> there;
  std::uint64_t random = 1;
  for (int i = 0; i < 200000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const std::uintptr_t number = (random >> 33) % 8192 * 16 + 16;
    if (there.erase(number) != 0) {
      handles.remove(handle(number));
    } else {
      there.insert(number);
      handles.add(handle(number));
    }
    const std::uintptr_t other = (random >> 20) % 8192 * 16 + 16;
    ASSERT_EQ(there.count(other) != 0, handles.has(handle(other)));
  }
  for (std::uintptr_t number = 16; number <= 8192 * 16; number += 16)
    ASSERT_EQ(there.count(number) != 0, handles.has(handle(number)));
  handles.forget_all();
  for (const std::uintptr_t number : there) ASSERT_FALSE(handles.has(handle(number)));
}

TEST(PrivateHandles, others_may_look_meanwhile) {
  auto& handles = never_destroyed<PrivateHandles>();
  std::atomic<bool> over{false};
  std::thread looks([&] {
    while (!over)
      for (std::uintptr_t number = 16; number < 160000; number += 16) EXPECT_FALSE(handles.has(handle(number + 8)));
  });
  for (int round = 0; round < 20; ++round) {
    for (std::uintptr_t number = 16; number < 160000; number += 16) handles.add(handle(number));
    for (std::uintptr_t number = 16; number < 160000; number += 16) handles.remove(handle(number));
  }
  over = true;
  looks.join();
}

/// Others, which begin to be searched at the same place of the table, come and go meanwhile.
TEST(PrivateHandles, a_handle_that_stays_is_seen_all_the_time) {
  auto& handles = never_destroyed<PrivateHandles>();
  std::uintptr_t number = 0;
  const auto another = [&number] {
    do ++number;
    while ((number * 0x9E3779B97F4A7C15u >> 32 & 1023) != 0);
    return handle(number << 4);
  };
  std::vector<const void*> stay(100), go(100);
  for (std::size_t i = 0; i < go.size(); ++i) {
    handles.add(go[i] = another());
    handles.add(stay[i] = another());
  }
  std::atomic<bool> over{false};
  std::atomic<int> missed{0};
  std::thread looks([&] {
    while (!over)
      for (const void* const one : stay) missed += !handles.has(one);
  });
  for (std::size_t i = 0; i < 200000; ++i) {
    const void*& one = go[i * 7 % go.size()];
    handles.remove(one);
    if (i % 3 != 0) one = another();
    handles.add(one);
  }
  over = true;
  looks.join();
  EXPECT_EQ(0, missed);
}

TEST(PrivateHandles, a_call_names_the_first_of_its_arguments_that_is_ours) {
  const auto stream = reinterpret_cast<hipStream_t>(std::uintptr_t{0x1000});
  const auto event = reinterpret_cast<hipEvent_t>(std::uintptr_t{0x2000});
  EXPECT_EQ(PrivateKind::kNone, names_private());
  EXPECT_EQ(PrivateKind::kNone, names_private(stream, event, 3));
  EXPECT_EQ(hipErrorOutOfMemory, made_private(hipErrorOutOfMemory, &event));
  EXPECT_EQ(PrivateKind::kNone, names_private(event));
  EXPECT_EQ(hipSuccess, made_private(hipSuccess, &event));
  EXPECT_EQ(PrivateKind::kEvent, names_private(3, event, stream));
  EXPECT_EQ(hipSuccess, made_private(hipSuccess, &stream));
  EXPECT_EQ(PrivateKind::kStream, names_private(stream, event));
  hipStream_t told = stream;
  give_to_program(&told, 3, static_cast<hipEvent_t*>(nullptr));
  EXPECT_EQ(PrivateKind::kNone, names_private(stream)) << "the program's now";
  EXPECT_EQ(event, no_longer_private(event));
  EXPECT_EQ(PrivateKind::kNone, names_private(event));
}

/// Only calls that look their handles up are given one that is nobody's.
TEST(PrivateHandles, a_call_is_refused_by_the_runtime_itself) {
  const Next saved = test_next();
  Next& next = test_next();
  next.hipStreamGetFlags = [](hipStream_t, unsigned*) { return hipErrorContextIsDestroyed; };
  next.hipEventDestroy = [](hipEvent_t event) {
    EXPECT_NE(nullptr, event);
    return hipErrorContextIsDestroyed;
  };
  next.hipEventQuery = [](hipEvent_t event) {
    EXPECT_EQ(nullptr, event);
    return hipErrorInvalidHandle;
  };
  next.hipGraphDestroy = [](hipGraph_t graph) {
    return graph == nullptr ? hipErrorInvalidValue : hipErrorIllegalState;
  };
  const auto refused = [](PrivateKind kind, EntryId call = EntryId::hipGraphLaunch) {
    return refuse_private(kind, call);
  };
  for (const int version : {50200000, 50700000, 60300000, 70200000}) {
    test_set_runtime_version(version);
    EXPECT_EQ(hipErrorContextIsDestroyed, refused(PrivateKind::kStream));
    EXPECT_EQ(version < 50500000 ? hipErrorInvalidHandle : hipErrorContextIsDestroyed, refused(PrivateKind::kEvent));
    EXPECT_EQ(hipErrorInvalidValue, refused(PrivateKind::kGraph));
    EXPECT_EQ(hipErrorIllegalState, refused(PrivateKind::kGraph, EntryId::hipGraphDestroy));
    EXPECT_EQ(hipErrorInvalidValue, refused(PrivateKind::kExec));
  }
  next.hipStreamGetFlags = [](hipStream_t, unsigned*) { return hipSuccess; };  // HIP 7 does not look it up
  EXPECT_EQ(hipErrorContextIsDestroyed, refused(PrivateKind::kStream));
  test_set_runtime_version(-1);
  test_next() = saved;
}

}  // namespace
}  // namespace graphpool
