// policy_readers_test.cpp: which texts each reader allows, what they become, and what it says is allowed.
#include <gtest/gtest.h>

#include <climits>
#include <initializer_list>

#include "policy/readers.h"

namespace graphpool {
namespace {

using namespace reading;

using namespace std::chrono_literals;

template <typename Reader>
std::optional<typename Reader::Value> read(std::string_view text) {
  typename Reader::Value value{};
  if (Reader::read(items_of<Reader>(text), value)) return std::nullopt;
  return value;
}

/// Which item of the text is wrong; -1: none is.
template <typename Reader>
int fault(std::string_view text) {
  typename Reader::Value value{};
  Outcome outcome = Reader::read(items_of<Reader>(text), value);
  return outcome ? static_cast<int>(outcome->item) : -1;
}

TEST(Readers, Flag) {
  for (const char* yes : {"true", "1", "on"}) EXPECT_EQ(read<Flag>(yes), true);
  for (const char* no : {"false", "0", "off"}) EXPECT_EQ(read<Flag>(no), false);
  for (const char* bad : {"", "True", "yes", "2", " true"}) EXPECT_EQ(fault<Flag>(bad), 0) << bad;
  EXPECT_EQ(Flag::allowed(), "true, false (in the environment also 1, 0, on, off)");
}

TEST(Readers, Number) {
  EXPECT_EQ(read<SlotCount>("1"), 1u);
  EXPECT_EQ(read<SlotCount>("64"), 64u);
  for (const char* bad : {"0", "65", "-1", "", "x", "99999999999999999999999", "0x10", "1.5"}) {
    EXPECT_NE(fault<SlotCount>(bad), -1) << bad;
  }
  EXPECT_EQ(fault<SlotCount>("12x"), 0);
  EXPECT_EQ(SlotCount::allowed(), "an integer from 1 to 64");
  EXPECT_EQ(Count::allowed(), "an integer from 1 to 1000000000");
}

TEST(Readers, Size) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"0", 0},
      {"17", 17},
      {"17B", 17},
      {"4K", 4096},
      {"4KiB", 4096},
      {"4 KiB", 4096},
      {"64MiB", 64ull << 20},
      {"64m", 64ull << 20},
      {"3G", 3ull << 30},
      {"3GiB", 3ull << 30},
      {"2T", 2ull << 40},
      {"2TiB", 2ull << 40},
      {"18446744073709551615", UINT64_MAX},
      {"16777215T", 16777215ull << 40},
  };
  for (const auto& [text, bytes] : good) EXPECT_EQ(read<Size>(text), Bytes{bytes}) << text;
  for (const char* bad : {"", "MiB", "-1", "1.5G", "64MB", "64Mi", "18446744073709551616", "16777216T", " 1", "1 "}) {
    EXPECT_NE(fault<Size>(bad), -1) << bad;
  }
  EXPECT_EQ(fault<Size>("64MiX"), 0);
  EXPECT_EQ(Size::allowed(), "a size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB");
}

TEST(Readers, SizeBetween) {
  EXPECT_EQ(read<ChunkSize>("2MiB"), Bytes{2u << 20});
  EXPECT_EQ(read<ChunkSize>("1TiB"), Bytes{1ull << 40});
  EXPECT_NE(fault<ChunkSize>("2097151"), -1);
  EXPECT_NE(fault<ChunkSize>("1025G"), -1);
  EXPECT_EQ(ChunkSize::allowed(), Size::allowed() + "; at least 2097152 bytes; at most 1099511627776 bytes");
}

TEST(Readers, PartOfMemory) {
  EXPECT_EQ(read<PartOfMemory>("25%"), (Share{0, 25, true}));
  EXPECT_EQ(read<PartOfMemory>("100%"), (Share{0, 100, true}));
  EXPECT_EQ(read<PartOfMemory>("0"), Share{});
  EXPECT_EQ(read<PartOfMemory>("1GiB"), (Share{1u << 30, 0, false}));
  for (const char* bad : {"", "%", "101%", "-1%", "2.5%", "25%%", "25 percent"}) {
    EXPECT_NE(fault<PartOfMemory>(bad), -1) << bad;
  }
  EXPECT_EQ(PartOfMemory::allowed(), "0% to 100%, or a size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB");
}

TEST(Values, ShareOf) {
  EXPECT_EQ((Share{0, 25, true}.resolve(192ull << 30)), 48ull << 30);
  EXPECT_EQ((Share{0, 100, true}.resolve(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ((Share{0, 50, true}.resolve(3)), 1u);
  EXPECT_EQ((Share{100, 0, false}.resolve(1000)), 100u);
  EXPECT_EQ((Share{100, 0, false}.resolve(10)), 10u);
}

TEST(Readers, Duration) {
  EXPECT_EQ(read<Duration>("250ms"), 250ms);
  EXPECT_EQ(read<Duration>("30s"), 30s);
  EXPECT_EQ(read<Duration>("2 min"), 2min);
  EXPECT_EQ(read<Duration>("0s"), 0s);
  EXPECT_EQ(read<Duration>("9223372036s"), 9223372036s);
  for (const char* bad : {"", "30", "s", "30h", "-1s", "9223372037s", "1.5s"})
    EXPECT_NE(fault<Duration>(bad), -1) << bad;
  EXPECT_EQ(fault<Duration>("30h"), 0);
  EXPECT_EQ(Duration::allowed(), "a number with ms, s or min");
}

TEST(Readers, PermitCount) {
  EXPECT_TRUE(read<PermitCount>("auto")->is_auto());
  EXPECT_EQ(read<PermitCount>("8"), PermitLimit{8});
  for (const char* bad : {"", "0", "all", "65537"}) EXPECT_NE(fault<PermitCount>(bad), -1) << bad;
  EXPECT_EQ(PermitCount::allowed(), "auto, or an integer from 1 to 65536");
}

TEST(Readers, VerifyRule) {
  EXPECT_EQ(read<VerifyRule>("off"), Verify{});
  EXPECT_EQ(read<VerifyRule>("first:3"), (Verify{Verify::Mode::kFirst, 3}));
  EXPECT_EQ(read<VerifyRule>("every:100"), (Verify{Verify::Mode::kEvery, 100}));
  for (const char* bad : {"", "on", "first", "first:", "first:0", "every:0", "first:-1", "last:1"}) {
    EXPECT_NE(fault<VerifyRule>(bad), -1) << bad;
  }
  EXPECT_EQ(fault<VerifyRule>("every:1x"), 0);
  EXPECT_EQ(VerifyRule::allowed(), "off, first:K, every:M, where K and M are at least 1");
}

TEST(Values, VerifyWants) {
  EXPECT_FALSE(Verify{}.wants(0));
  Verify first{Verify::Mode::kFirst, 2};
  EXPECT_TRUE(first.wants(0) && first.wants(1));
  EXPECT_FALSE(first.wants(2));
  Verify every{Verify::Mode::kEvery, 3};
  EXPECT_TRUE(every.wants(0) && every.wants(3));
  EXPECT_FALSE(every.wants(1) || every.wants(2));
}

template <typename Enum>
void all_names(std::initializer_list<std::pair<const char*, Enum>> names, const char* allowed) {
  for (const auto& [text, value] : names) {
    EXPECT_EQ(read<Choice<Enum>>(text), value) << text;
    EXPECT_EQ(name_of(value), text);
  }
  EXPECT_EQ(std::size(kNames<Enum>), names.size());
  for (const char* bad : {"", "other", "AUTO"}) EXPECT_EQ(fault<Choice<Enum>>(bad), 0) << bad;
  EXPECT_EQ(Choice<Enum>::allowed(), allowed);
}

TEST(Readers, Choices) {
  all_names<Backing>({{"auto", Backing::kAuto}, {"classic", Backing::kClassic}, {"vmm", Backing::kVmm}},
                     "auto, classic, vmm");
  all_names<FreeMode>({{"sync", FreeMode::kSync}, {"deferred", FreeMode::kDeferred}}, "sync, deferred");
  all_names<Stage>({{"never", Stage::kNever}, {"auto", Stage::kAuto}, {"always", Stage::kAlways}},
                   "never, auto, always");
  all_names<Strategy>({{"auto", Strategy::kAuto},
                       {"new_exec", Strategy::kNewExec},
                       {"patch", Strategy::kPatch},
                       {"one_shot", Strategy::kOneShot}},
                      "auto, new_exec, patch, one_shot");
  all_names<Unknown>({{"off", Unknown::kOff}, {"trust", Unknown::kTrust}}, "off, trust");
  all_names<Scope>({{"process", Scope::kProcess}, {"user", Scope::kUser}, {"node", Scope::kNode}},
                   "process, user, node");
  all_names<Jobserver>({{"off", Jobserver::kOff}, {"honour", Jobserver::kHonour}, {"offer", Jobserver::kOffer}},
                       "off, honour, offer");
  all_names<LogLevel>({{"off", LogLevel::kOff},
                       {"error", LogLevel::kError},
                       {"warn", LogLevel::kWarn},
                       {"info", LogLevel::kInfo},
                       {"debug", LogLevel::kDebug},
                       {"trace", LogLevel::kTrace}},
                      "off, error, warn, info, debug, trace");
  all_names<Action>({{"pool", Action::kPool}, {"pass", Action::kPass}}, "pool, pass");
  all_names<Role>({{"inout", Role::kInOut}, {"in", Role::kIn}, {"out", Role::kOut}, {"temp", Role::kTemp}},
                  "inout, in, out, temp");
}

TEST(Readers, SizeSpan) {
  EXPECT_EQ(read<SizeSpan>("64MiB"), (Span{64u << 20, 64u << 20}));
  EXPECT_EQ(read<SizeSpan>(">=1MiB"), (Span{1u << 20, UINT64_MAX}));
  EXPECT_EQ(read<SizeSpan>(">= 1MiB"), (Span{1u << 20, UINT64_MAX}));
  EXPECT_EQ(read<SizeSpan>("<=4K"), (Span{0, 4096}));
  EXPECT_EQ(read<SizeSpan>("1MiB..64MiB"), (Span{1u << 20, 64u << 20}));
  EXPECT_EQ(read<SizeSpan>("1 .. 2"), (Span{1, 2}));
  for (const char* bad : {"", "..", "1..", "..1", ">1", "=1", ">=", "<=x", "1...2", "1..2..3"}) {
    EXPECT_NE(fault<SizeSpan>(bad), -1) << bad;
  }
  EXPECT_EQ(fault<SizeSpan>("2..1"), 0);
  EXPECT_EQ(fault<SizeSpan>(">=1X"), 0);
  EXPECT_EQ(fault<SizeSpan>("1..2X"), 0);
  EXPECT_EQ(
      SizeSpan::allowed(),
      "a size, \">=size\", \"<=size\" or \"size..size\"; a size is bytes, or a number with K, M, G, T or KiB, MiB, "
      "GiB, TiB");
}

TEST(Values, SpanContains) {
  Span span{2, 4};
  EXPECT_FALSE(span.contains(1) || span.contains(5));
  EXPECT_TRUE(span.contains(2) && span.contains(4));
  EXPECT_FALSE(span.is_everything());
  EXPECT_TRUE(Span{}.is_everything());
  EXPECT_TRUE(Span{}.contains(UINT64_MAX));
}

TEST(Readers, IndexSpan) {
  EXPECT_EQ(read<IndexSpan>("3"), (Span{3, 3}));
  EXPECT_EQ(read<IndexSpan>("0..7"), (Span{0, 7}));
  EXPECT_NE(fault<IndexSpan>("1K"), -1);
  EXPECT_EQ(IndexSpan::allowed(), "a number from 0, \">=n\", \"<=n\" or \"n..m\"");
}

TEST(Readers, Text) {
  EXPECT_EQ(read<Text>("/tmp/a b,c"), "/tmp/a b,c");
  EXPECT_EQ(read<Text>(""), "");
  EXPECT_EQ(fault<Text>("a\nb"), 0);
  EXPECT_EQ(fault<Text>(std::string_view("ab\0", 3)), 0);
  EXPECT_EQ(fault<Text>("\x7f"), 0);
  EXPECT_EQ(Text::allowed(), "text without control characters");
}

TEST(Readers, GlobText) {
  EXPECT_EQ(read<GlobText>("lib*!f"), Glob("lib*!f"));
  EXPECT_EQ(fault<GlobText>("a\t"), 0);
  EXPECT_EQ(GlobText::allowed(), "a pattern; * stands for any characters, ? for one");
}

TEST(Readers, GlobList) {
  EXPECT_EQ(read<GlobList>("clang*,lld"), (std::vector<Glob>{Glob("clang*"), Glob("lld")}));
  EXPECT_EQ(read<GlobList>(""), std::vector<Glob>{});
  EXPECT_EQ(fault<GlobList>("a,,b"), 1);
  EXPECT_EQ(fault<GlobList>("a,"), 1);
  EXPECT_EQ(fault<GlobList>("a,b\x01"), 1);
  EXPECT_EQ(GlobList::allowed(),
            "a list of patterns, none empty (in the environment separated by commas); * stands for any characters, "
            "? for one");
}

TEST(Readers, DeviceList) {
  EXPECT_EQ(read<DeviceList>("0,3"), (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(fault<DeviceList>("0,x"), 1);
  EXPECT_NE(fault<DeviceList>("65536"), -1);
  EXPECT_EQ(DeviceList::allowed(), "a device number from 0, or a list of them");
}

TEST(Readers, ByteRange) {
  EXPECT_EQ(read<ByteRange>("0,0"), WrittenRange{});
  EXPECT_EQ(read<ByteRange>("4K,1MiB"), (WrittenRange{4096, 1u << 20}));
  for (const char* bad : {"", "1", "1,2,3", "x,1", "18446744073709551615,1"})
    EXPECT_NE(fault<ByteRange>(bad), -1) << bad;
  EXPECT_EQ(fault<ByteRange>("1,2x"), 1);
  EXPECT_EQ(ByteRange::allowed(), "[offset, length], each bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB");
}

}  // namespace
}  // namespace graphpool
