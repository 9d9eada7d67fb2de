// Tests of shim/streams/stream_table.h.
#include <gtest/gtest.h>

#include <set>

#include "shim/streams/stream_table.h"
#include "tests/support/counting_new.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

hipStream_t stream(std::uintptr_t number) { return reinterpret_cast<hipStream_t>(0x10000 + 16 * number); }

class StreamTableTest : public testing::Test {
 protected:
  StreamEntry* enter(std::uintptr_t number, int device = 0) {
    const LockGuard guard(g_streams_lock);
    return table_.enter(stream(number), device);
  }
  /// The stream is destroyed.
  void leave(std::uintptr_t number) { table_.find(stream(number))->stream.store(nullptr); }

  StreamTable& table_ = never_destroyed<StreamTable>();
};

TEST_F(StreamTableTest, each_of_many_streams_has_one_entry) {
  constexpr std::uintptr_t kStreams = 5000;  // more than there are buckets
  std::set<const StreamEntry*> entries;
  for (std::uintptr_t i = 0; i < kStreams; ++i) entries.insert(enter(i));
  EXPECT_EQ(kStreams, entries.size());
  for (std::uintptr_t i = 0; i < kStreams; ++i) {
    ASSERT_EQ(table_.find(stream(i)), enter(i));
    ASSERT_EQ(stream(i), table_.find(stream(i))->stream.load());
  }
  EXPECT_EQ(nullptr, table_.find(stream(kStreams)));
  std::size_t visited = 0;
  table_.for_each([&](StreamEntry&) { ++visited; });
  EXPECT_EQ(kStreams, visited);
}

TEST_F(StreamTableTest, a_stream_with_a_known_handle_on_another_device_is_another_one) {
  StreamEntry* const before = enter(1);
  const std::uint64_t serial = before->serial.load();
  before->work.submitted.add();
  before->listed = true;  // in the list of the device that it had
  StreamEntry* const now = enter(1, 1);
  EXPECT_NE(before, now);
  EXPECT_EQ(now, table_.find(stream(1)));
  EXPECT_EQ(1, now->device.load());
  EXPECT_NE(serial, now->serial.load());
  EXPECT_GT(now->serial.load(), StreamTable::kNullSerial);
  EXPECT_TRUE(before->work.busy()) << "what it had outstanding stays known";
  EXPECT_FALSE(now->work.busy());
}

TEST_F(StreamTableTest, rule_30_the_entry_of_a_stream_that_is_gone_serves_the_next_one) {
  StreamEntry* const entry = enter(1);
  const std::uint64_t serial = entry->serial.load();
  entry->work.submitted.add();
  leave(1);
  EXPECT_EQ(nullptr, table_.find(stream(1)));
  EXPECT_EQ(entry, enter(1));
  EXPECT_FALSE(entry->work.busy()) << "the work was another stream's";
  EXPECT_NE(serial, entry->serial.load());
}

TEST_F(StreamTableTest, rule_30_entries_do_not_grow_with_streams_that_come_and_go) {
  for (int i = 0; i < 1000; ++i) {
    enter(1);
    leave(1);
  }
  std::size_t entries = 0;
  table_.for_each([&](StreamEntry&) { ++entries; });
  EXPECT_EQ(1u, entries);
}

TEST_F(StreamTableTest, without_memory_a_stream_has_no_entry_and_others_keep_theirs) {
  StreamEntry* const known = enter(0);
  constexpr std::uintptr_t kMany = 10'000;
  std::uintptr_t number = 0;
  let_allocations_work(0);
  while (number < kMany && enter(number + 1) != nullptr) ++number;
  let_allocations_work(-1);
  if (number == kMany) GTEST_SKIP() << "where a sanitizer allocates rows of objects they do not fail";
  EXPECT_EQ(known, table_.find(stream(0)));
  EXPECT_EQ(nullptr, table_.find(stream(number + 1)));
  EXPECT_NE(nullptr, enter(number + 1));
}

}  // namespace
}  // namespace graphpool
