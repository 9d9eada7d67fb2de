// Tests of shim/streams/fresh_streams.h.
#include <gtest/gtest.h>

#include "shim/streams/fresh_streams.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

hipStream_t stream(std::uintptr_t number) { return reinterpret_cast<hipStream_t>(number * 64); }
hipEvent_t event(std::uintptr_t number) { return reinterpret_cast<hipEvent_t>(number * 64 + 16); }
constexpr StreamKind kKind{0, hipStreamNonBlocking};

TEST(FreshStreams, count_as_the_librarys_own_until_they_are_used) {
  auto& fresh = never_destroyed<FreshStreams>();
  EXPECT_FALSE(fresh.any());
  fresh.add(stream(1), kKind);
  fresh.add(stream(1), kKind);
  EXPECT_TRUE(fresh.has(stream(1)));
  EXPECT_FALSE(fresh.has(stream(2)));
  EXPECT_TRUE(g_private_handles.has(stream(1)));
  fresh.waits(stream(1));
  EXPECT_FALSE(fresh.any());
  EXPECT_FALSE(g_private_handles.has(stream(1)));
  fresh.remove(stream(1));
}

TEST(FreshStreams, a_join_is_put_off_once) {
  auto& fresh = never_destroyed<FreshStreams>();
  EXPECT_FALSE(fresh.put_off_join(stream(3), event(1)));
  fresh.add(stream(3), kKind);
  EXPECT_TRUE(fresh.put_off_join(stream(3), event(1)));
  EXPECT_TRUE(joins_put_off());
  EXPECT_FALSE(fresh.put_off_join(stream(3), event(2)));
  EXPECT_TRUE(fresh.awaits(event(1)));
  EXPECT_FALSE(fresh.awaits(event(2)));
  EXPECT_FALSE(fresh.awaits(nullptr));
  fresh.waits(stream(3));
  StreamKind kind;
  EXPECT_FALSE(fresh.take(stream(3), &kind)) << "it has not left the capture";
  fresh.left_capture(stream(3));
  EXPECT_FALSE(joins_put_off());
  EXPECT_TRUE(fresh.take(stream(3), &kind));
  EXPECT_EQ(kKind, kind);
  EXPECT_FALSE(fresh.take(stream(3), &kind));
}

TEST(FreshStreams, few_are_known) {
  auto& fresh = never_destroyed<FreshStreams>();
  fresh.add(stream(100), kKind);
  EXPECT_TRUE(fresh.put_off_join(stream(100), event(1)));
  for (std::uintptr_t i = 1; i <= 3 * FreshStreams::kMost; ++i) fresh.add(stream(i), kKind);
  EXPECT_TRUE(fresh.has(stream(100))) << "its join is put off";
  EXPECT_FALSE(fresh.has(stream(1)));
  std::size_t known = 0;
  for (std::uintptr_t i = 1; i <= 3 * FreshStreams::kMost; ++i) known += fresh.has(stream(i)) ? 1 : 0;
  EXPECT_EQ(FreshStreams::kMost - 1, known);
  fresh.remove_all();
  EXPECT_TRUE(fresh.any());
  fresh.remove(stream(100));
  EXPECT_FALSE(fresh.any());
  EXPECT_FALSE(joins_put_off());
}

}  // namespace
}  // namespace graphpool
