#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "shim/kernel/compressed_bundle.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

using images::bytes_of;

class CompressedBundle : public testing::TestWithParam<std::tuple<unsigned, bool>> {
 protected:
  unsigned version() const { return std::get<0>(GetParam()); }
  bool zstd() const { return std::get<1>(GetParam()); }

  /// Larger than a page when compressed, so that guard pages would be met by reading ahead.
  static std::string contents() {
    std::string text;
    std::uint32_t state = 1;
    for (int i = 0; i < 20000; ++i) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return text + std::string(50000, 'x');
  }
};

TEST_P(CompressedBundle, UnpacksWithAndWithoutAKnownSize) {
  const std::string bundle = contents();
  const images::GuardedImage packed(images::compress(bundle, version(), zstd()));
  ASSERT_TRUE(is_compressed_bundle(packed.bytes()));
  HostBuffer known, unknown;
  ASSERT_EQ(unpack_bundle(packed.bytes(), &known), Status::kOk);
  ASSERT_EQ(unpack_bundle(packed.data(), &unknown), Status::kOk);
  ASSERT_EQ(known.bytes().size(), bundle.size());
  EXPECT_EQ(std::memcmp(known.data(), bundle.data(), bundle.size()), 0);
  ASSERT_EQ(unknown.bytes().size(), bundle.size());
  EXPECT_EQ(std::memcmp(unknown.data(), bundle.data(), bundle.size()), 0);
}

TEST_P(CompressedBundle, BytesBehindItDoNotMatter) {
  const std::string packed = images::compress("contents", version(), zstd()) + std::string(10, 'y');
  HostBuffer bundle;
  ASSERT_EQ(unpack_bundle(bytes_of(packed), &bundle), Status::kOk);
  EXPECT_EQ(std::memcmp(bundle.data(), "contents", 8), 0);
}

TEST_P(CompressedBundle, TruncatedAtEveryByte) {
  const std::string whole = images::compress("some contents, some contents, some contents", version(), zstd());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const images::GuardedImage cut(whole.substr(0, bytes));
    HostBuffer bundle;
    EXPECT_EQ(unpack_bundle(cut.bytes(), &bundle), Status::kMalformed) << bytes;
  }
}

TEST_P(CompressedBundle, CorruptedAnywhereIsRefusedOrUnpacksToSomething) {
  const std::string whole = images::compress("some contents, some contents, some contents", version(), zstd());
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ flip);
      const images::GuardedImage image(broken);
      HostBuffer bundle;
      refused += unpack_bundle(image.bytes(), &bundle) != Status::kOk;
    }
  }
  EXPECT_GT(refused, 20);
}

TEST_P(CompressedBundle, AWrongUncompressedSizeIsRefused) {
  const std::string whole = images::compress("some contents", version(), zstd());
  const std::size_t at = version() == 1 ? 8 : version() == 2 ? 12 : 16;
  for (const int change : {-1, 1, 100}) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(wrong[at] + change);
    HostBuffer bundle;
    EXPECT_EQ(unpack_bundle(bytes_of(wrong), &bundle), Status::kMalformed) << change;
  }
  std::string impossible = whole;
  impossible[at + 3] = 0x3f;  // 1 GiB from some twenty bytes
  HostBuffer bundle;
  EXPECT_EQ(unpack_bundle(bytes_of(impossible), &bundle), Status::kMalformed);
  std::string too_large = whole;
  too_large[at + 3] = 0x41;
  EXPECT_EQ(unpack_bundle(bytes_of(too_large), &bundle), Status::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Forms, CompressedBundle, testing::Combine(testing::Values(1u, 2u, 3u), testing::Bool()),
                         [](const auto& info) {
                           return "V" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Zstd" : "Zlib");
                         });

TEST(CompressedBundleHeader, OtherVersionsAndMethodsAreNotSupported) {
  std::string image = images::compress("contents", 2, true);
  HostBuffer bundle;
  for (const char version : {0, 4}) {
    image[4] = version;
    EXPECT_EQ(unpack_bundle(bytes_of(image), &bundle), Status::kUnsupported);
  }
  image[4] = 2;
  image[6] = 2;
  EXPECT_EQ(unpack_bundle(bytes_of(image), &bundle), Status::kUnsupported);
  image[0] = 'X';
  EXPECT_EQ(unpack_bundle(bytes_of(image), &bundle), Status::kMalformed);
  EXPECT_FALSE(is_compressed_bundle(bytes_of(image)));
}

TEST(CompressedBundleHeader, AFileSizeSmallerThanTheHeaderIsMalformed) {
  std::string image = images::compress("contents", 2, true);
  image[8] = 23;
  HostBuffer bundle;
  EXPECT_EQ(unpack_bundle(bytes_of(image), &bundle), Status::kMalformed);
}

}  // namespace
}  // namespace graphpool
