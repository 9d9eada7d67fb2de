// A row of bytes that grows without being set.
#include <gtest/gtest.h>

#include "shim/base/byte_buffer.h"

namespace graphpool {
namespace {

ByteBuffer counting(std::size_t size) {
  ByteBuffer made(size);
  for (std::size_t i = 0; i < size; ++i) made.data()[i] = static_cast<std::byte>(i);
  return made;
}

TEST(ByteBuffer, keeps_what_it_has_when_it_grows_and_shrinks) {
  ByteBuffer bytes = counting(10);
  bytes.resize(1000);
  bytes.resize(10);
  EXPECT_EQ(counting(10), bytes);
  EXPECT_GE(bytes.capacity(), 1000u);
  const std::byte* const before = bytes.data();
  bytes.resize(900);
  EXPECT_EQ(before, bytes.data());
}

TEST(ByteBuffer, copies_are_equal_and_apart) {
  const ByteBuffer bytes = counting(33);
  ByteBuffer copy = bytes, assigned = counting(100), small;
  assigned = bytes;
  small = bytes;
  for (ByteBuffer* each : {&copy, &assigned, &small}) {
    EXPECT_EQ(bytes, *each);
    each->data()[32] = std::byte{0xff};
    EXPECT_FALSE(bytes == *each);
  }
  ByteBuffer& same = copy;
  copy = same;
  EXPECT_EQ(33u, copy.size());
  EXPECT_EQ(std::byte{0xff}, copy.data()[32]);
}

TEST(ByteBuffer, copies_share_their_bytes_until_one_is_written) {
  ByteBuffer bytes = counting(40);
  bytes.resize(20);
  ByteBuffer copy = bytes;
  const ByteBuffer &read = bytes, &read_copy = copy;
  EXPECT_EQ(read.data(), read_copy.data());
  // What one grows by is its own, also where there was room.
  bytes.resize(21);
  copy.resize(21);
  bytes.data()[20] = std::byte{1};
  copy.data()[20] = std::byte{2};
  EXPECT_EQ(std::byte{1}, bytes.data()[20]);
  EXPECT_EQ(counting(20), ByteBuffer(read.begin(), read.begin() + 20));
  EXPECT_EQ(counting(20), ByteBuffer(read_copy.begin(), read_copy.begin() + 20));
  // The last one that has them writes in place, whoever had them first.
  const std::byte* place = nullptr;
  ByteBuffer last;
  {
    const ByteBuffer first = counting(8);
    last = first;
    place = first.data();
  }
  EXPECT_EQ(place, last.data());
}

TEST(ByteBuffer, grows_in_place_only_where_it_has_room_of_its_own) {
  ByteBuffer bytes;
  EXPECT_EQ(nullptr, bytes.grow_in_place(1));
  bytes = counting(5);
  bytes.reserve(8);
  ASSERT_NE(nullptr, bytes.grow_in_place(8));
  EXPECT_EQ(8u, bytes.size());
  EXPECT_EQ(nullptr, bytes.grow_in_place(bytes.capacity() + 1));
  EXPECT_EQ(8u, bytes.size());
  const ByteBuffer shared = bytes;
  EXPECT_EQ(nullptr, bytes.grow_in_place(8));
  bytes.resize(5);
  EXPECT_EQ(counting(5), bytes);
}

TEST(ByteBuffer, moving_leaves_nothing_behind) {
  ByteBuffer bytes = counting(5);
  const ByteBuffer moved = std::move(bytes);
  EXPECT_EQ(counting(5), moved);
  EXPECT_TRUE(bytes.empty());  // NOLINT: stated
  EXPECT_TRUE(ByteBuffer() == ByteBuffer());
}

TEST(ByteBuffer, a_part_is_taken_and_put_back) {
  ByteBuffer bytes = counting(20);
  const ByteBuffer tail(bytes.begin() + 15, bytes.end());
  bytes.resize(15);
  bytes.append(tail.begin(), tail.end());
  EXPECT_EQ(counting(20), bytes);
}

}  // namespace
}  // namespace graphpool
