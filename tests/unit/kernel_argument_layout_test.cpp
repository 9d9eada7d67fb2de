#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "shim/kernel/argument_layout.h"

namespace graphpool {
namespace {

constexpr auto kValue = ArgumentKind::kByValue;
constexpr auto kPointer = ArgumentKind::kGlobalBuffer;

struct Inner {
  std::uint32_t a;
  void* hidden;
  std::uint16_t b;
};

/// (char, float*, Inner, short, short): gaps after the first argument only; the structure has padding of its own.
ArgumentLayout mixed() {
  return ArgumentLayout(
      {{0, 1, kValue}, {8, 8, kPointer}, {16, sizeof(Inner), kValue}, {40, 2, kValue}, {42, 2, kValue}});
}

struct Launch {
  char c = 'c';
  void* p = reinterpret_cast<void*>(0x7000);
  Inner inner{1, reinterpret_cast<void*>(0x8000), 2};
  short h = 3, g = 4;
  std::array<void*, 5> params{&c, &p, &inner, &h, &g};
};

TEST(ArgumentLayout, PacksKernelParamsAndZeroesTheGaps) {
  const ArgumentLayout layout = mixed();
  ASSERT_EQ(layout.bytes(), 44u);
  Launch launch;
  std::vector<std::byte> segment(44, std::byte{0xee});
  ASSERT_EQ(layout.pack(launch.params.data(), segment.data()), Status::kOk);
  EXPECT_EQ(segment[0], std::byte{'c'});
  for (int i = 1; i < 8; ++i) EXPECT_EQ(segment[i], std::byte{0});
  EXPECT_EQ(std::memcmp(&segment[8], &launch.p, 8), 0);
  EXPECT_EQ(std::memcmp(&segment[16], &launch.inner, sizeof launch.inner), 0);
  EXPECT_EQ(segment[42], std::byte{4});
  EXPECT_TRUE(layout.equal_params(launch.params.data(), segment.data()));
  launch.g = 5;
  EXPECT_FALSE(layout.equal_params(launch.params.data(), segment.data()));
}

TEST(ArgumentLayout, RefusesMissingParams) {
  Launch launch;
  std::array<std::byte, 44> segment;
  EXPECT_EQ(mixed().pack(nullptr, segment.data()), Status::kMalformed);
  launch.params[3] = nullptr;
  EXPECT_EQ(mixed().pack(launch.params.data(), segment.data()), Status::kMalformed);
  EXPECT_EQ(ArgumentLayout({}).pack(nullptr, nullptr), Status::kOk);
}

TEST(ArgumentLayout, RefusesArgumentsThatAreNotPlainBytes) {
  for (const ArgumentKind kind : {ArgumentKind::kOther, ArgumentKind::kDynamicShared}) {
    const ArgumentLayout layout({{0, 8, kind}});
    std::array<std::byte, 8> segment;
    std::uint64_t value = 0;
    std::array<void*, 1> params{&value};
    EXPECT_EQ(layout.pack(params.data(), segment.data()), Status::kUnsupported);
    std::size_t bytes = 8;
    std::array<void*, 5> extra{reinterpret_cast<void*>(1), &value, reinterpret_cast<void*>(2), &bytes,
                               reinterpret_cast<void*>(3)};
    EXPECT_EQ(layout.pack_extra(extra.data(), segment.data()), Status::kUnsupported);
  }
}

TEST(ArgumentLayout, ComparisonIgnoresTheGapsAndNothingElse) {
  const ArgumentLayout layout = mixed();
  std::vector<std::byte> a(44, std::byte{1}), b(44, std::byte{1});
  for (std::size_t i = 0; i < 44; ++i) {
    b[i] = std::byte{2};
    EXPECT_EQ(layout.equal(a.data(), b.data()), i >= 1 && i < 8) << "byte " << i;
    b[i] = std::byte{1};
  }
}

TEST(ArgumentLayout, ReadsAnExtraBufferInHipsOrderOnly) {
  const ArgumentLayout layout = mixed();
  std::vector<std::byte> buffer(48), segment(44, std::byte{0xee});
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::byte>(i + 1);
  std::size_t bytes = buffer.size();
  const auto mark = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  const std::array<void*, 5> good{mark(1), buffer.data(), mark(2), &bytes, mark(3)};
  ASSERT_EQ(layout.pack_extra(good.data(), segment.data()), Status::kOk);
  EXPECT_TRUE(layout.equal(buffer.data(), segment.data()));
  EXPECT_EQ(segment[1], std::byte{0}) << "gaps are zeroed, not copied";

  bytes = 44;
  EXPECT_EQ(layout.pack_extra(good.data(), segment.data()), Status::kOk);
  bytes = 43;
  EXPECT_EQ(layout.pack_extra(good.data(), segment.data()), Status::kMalformed);
  bytes = 48;
  EXPECT_EQ(layout.pack_extra(nullptr, segment.data()), Status::kMalformed);
  const std::array<void*, 5> other_order{mark(2), &bytes, mark(1), buffer.data(), mark(3)};
  EXPECT_EQ(layout.pack_extra(other_order.data(), segment.data()), Status::kMalformed);
  const std::array<void*, 5> no_end{mark(1), buffer.data(), mark(2), &bytes, mark(4)};
  EXPECT_EQ(layout.pack_extra(no_end.data(), segment.data()), Status::kMalformed);
  const std::array<void*, 5> no_buffer{mark(1), nullptr, mark(2), &bytes, mark(3)};
  EXPECT_EQ(layout.pack_extra(no_buffer.data(), segment.data()), Status::kMalformed);
  const std::array<void*, 5> no_size{mark(1), buffer.data(), mark(2), nullptr, mark(3)};
  EXPECT_EQ(layout.pack_extra(no_size.data(), segment.data()), Status::kMalformed);
}

TEST(ArgumentLayout, VisitsPointersAndTheWordsOfValues) {
  const ArgumentLayout layout = mixed();
  Launch launch;
  std::array<std::byte, 44> segment;
  ASSERT_EQ(layout.pack(launch.params.data(), segment.data()), Status::kOk);
  std::vector<std::array<std::uint64_t, 3>> seen;
  const auto note = [&seen](std::size_t index, std::size_t offset, std::uint64_t word) {
    seen.push_back({index, offset, word});
  };
  layout.for_each_pointer(segment.data(), note);
  EXPECT_EQ(seen, (std::vector<std::array<std::uint64_t, 3>>{{1, 8, 0x7000}}));
  seen.clear();
  layout.for_each_value_word(segment.data(), note);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1], (std::array<std::uint64_t, 3>{2, 24, 0x8000}));
}

TEST(ArgumentLayout, WordsOfAValueThatIsNotAlignedStayInside) {
  const ArgumentLayout layout({{4, 15, kValue}});
  std::array<std::byte, 19> segment{};
  std::size_t words = 0;
  layout.for_each_value_word(segment.data(), [&](std::size_t, std::size_t offset, std::uint64_t) {
    EXPECT_EQ(offset, 8u);
    ++words;
  });
  EXPECT_EQ(words, 1u);
}

TEST(ArgumentLayout, KnowsWhatIsNotALayout) {
  using Arguments = std::vector<Argument>;
  EXPECT_TRUE(ArgumentLayout::is_valid(Arguments{}));
  EXPECT_TRUE(ArgumentLayout::is_valid(Arguments{{0, 4, kValue}, {4, 1, kValue}}));
  EXPECT_FALSE(ArgumentLayout::is_valid(Arguments{{0, 0, kValue}})) << "empty";
  EXPECT_FALSE(ArgumentLayout::is_valid(Arguments{{0, 8, kValue}, {4, 8, kValue}})) << "overlapping";
  EXPECT_FALSE(ArgumentLayout::is_valid(Arguments{{8, 8, kValue}, {0, 8, kValue}})) << "out of order";
  EXPECT_FALSE(ArgumentLayout::is_valid(Arguments{{0, 4, kPointer}})) << "half a pointer";
  EXPECT_FALSE(ArgumentLayout::is_valid(Arguments{{0xffffffff, 0xffffffff, kValue}})) << "too large";
}

TEST(LayoutPool, EqualLayoutsAreOneObject) {
  LayoutPool pool;
  const ArgumentLayout* first = pool.intern({{0, 8, kPointer}});
  ASSERT_NE(first, nullptr);
  for (std::uint32_t i = 1; i < 1000; ++i) EXPECT_NE(pool.intern({{i * 4, 4, kValue}}), first);
  EXPECT_EQ(pool.intern({{0, 8, kPointer}}), first);
  EXPECT_NE(pool.intern({{0, 8, kValue}}), first) << "the kind counts";
  EXPECT_EQ(pool.intern({{0, 0, kValue}}), nullptr);
  EXPECT_EQ(pool.size(), 1001u);
}

TEST(LayoutPool, IsBounded) {
  LayoutPool pool;
  const ArgumentLayout* first = pool.intern({{0, 1, kValue}});
  for (std::uint32_t i = 1; i < LayoutPool::kMaxLayouts; ++i) ASSERT_NE(pool.intern({{i, 1, kValue}}), nullptr);
  EXPECT_EQ(pool.intern({{0, 2, kValue}}), nullptr);
  EXPECT_EQ(pool.intern({{0, 1, kValue}}), first) << "known ones stay";
}

}  // namespace
}  // namespace graphpool
