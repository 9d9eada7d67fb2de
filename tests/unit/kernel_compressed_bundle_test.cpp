#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>

#include "shim/kernel/code_object.h"
#include "shim/kernel/compressed_bundle.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

using images::bytes_of;

/// All of a bundle, whose image is given with its size or without.
template <typename Image>
Status unpack_bundle(const Image& image, std::string* bundle) {
  BundleUnpacker unpacker;
  if (const Status status = unpacker.open(image); status != Status::kOk) return status;
  const Status status = unpacker.reach(unpacker.bytes().size());
  if (status == Status::kOk)
    bundle->assign(reinterpret_cast<const char*>(unpacker.bytes().data()), unpacker.bytes().size());
  return status;
}

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
  std::string known, unknown;
  ASSERT_EQ(unpack_bundle(packed.bytes(), &known), Status::kOk);
  ASSERT_EQ(unpack_bundle(packed.data(), &unknown), Status::kOk);
  EXPECT_EQ(bundle, known);
  EXPECT_EQ(bundle, unknown);
}

TEST_P(CompressedBundle, UnpacksAsFarAsIsWanted) {
  // Blocks of zstd unpack to 128 KiB.
  std::string bundle;
  for (int i = 0; i < 200; ++i) bundle += contents();
  const images::GuardedImage packed(images::compress(bundle, version(), zstd()));
  BundleUnpacker unpacker;
  ASSERT_EQ(unpacker.open(packed.data()), Status::kOk);
  EXPECT_EQ(bundle.size(), unpacker.bytes().size());
  std::size_t last = 0;
  for (const std::size_t wanted : {std::size_t{1}, std::size_t{32}, bundle.size() / 3, bundle.size() / 4}) {
    ASSERT_EQ(unpacker.reach(wanted), Status::kOk);
    EXPECT_GE(unpacker.reached(), wanted);
    EXPECT_GE(unpacker.reached(), last);
    EXPECT_LT(unpacker.reached(), bundle.size() / 2);
    EXPECT_EQ(0, std::memcmp(unpacker.bytes().data(), bundle.data(), unpacker.reached()));
    last = unpacker.reached();
  }
  EXPECT_EQ(unpacker.reach(bundle.size() + 1), Status::kMalformed);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(unpacker.reach(bundle.size()), Status::kOk);
  EXPECT_EQ(0, std::memcmp(unpacker.bytes().data(), bundle.data(), bundle.size()));
}

TEST_P(CompressedBundle, WhatLiesBehindTheEntryNeededIsNotRead) {
  const std::string object = images::code_object(images::sample_kernels());
  const auto random = [] {
    std::uint32_t state = 1;
    std::string text(400'000, ' ');
    for (char& each : text) each = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return text;
  };
  const std::string bundle = images::bundle({{"host-x86_64-unknown-linux", ""},
                                             {"hipv4-amdgcn-amd-amdhsa--gfx90a", object},
                                             {"hipv4-amdgcn-amd-amdhsa--gfx942", object + random()}});
  std::string packed = images::compress(bundle, version(), zstd());
  for (std::size_t at = packed.size() / 2; at < packed.size(); ++at) packed[at] = '\xff';  // no such data
  const std::string mine[] = {"gfx90a:sramecc+:xnack-"}, others[] = {"gfx90a:sramecc+:xnack-", "gfx942:xnack-"},
                    generic[] = {"gfx908"};
  const auto read = [&](Architectures devices) {
    KernelSet known, unknown;
    const Status status = read_image(bytes_of(packed), &known, devices);
    if (version() > 1) {
      EXPECT_EQ(status, read_image(packed.data(), &unknown, devices));
      EXPECT_EQ(known.kernels().size(), unknown.kernels().size());
    }
    EXPECT_EQ(status == Status::kOk, known.find("mixed") != nullptr);
    return status;
  };
  EXPECT_EQ(Status::kOk, read(mine));
  EXPECT_EQ(Status::kMalformed, read(others)) << "two devices";
  EXPECT_EQ(Status::kMalformed, read(generic)) << "nothing is its own";
  EXPECT_EQ(Status::kMalformed, read({})) << "not known what the devices are";
}

TEST_P(CompressedBundle, BytesBehindItDoNotMatter) {
  const std::string packed = images::compress("contents", version(), zstd()) + std::string(10, 'y');
  std::string bundle;
  ASSERT_EQ(unpack_bundle(bytes_of(packed), &bundle), Status::kOk);
  EXPECT_EQ("contents", bundle);
}

TEST_P(CompressedBundle, TruncatedAtEveryByte) {
  const std::string whole = images::compress("some contents, some contents, some contents", version(), zstd());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const images::GuardedImage cut(whole.substr(0, bytes));
    std::string bundle;
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
      std::string bundle;
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
    std::string bundle;
    EXPECT_EQ(unpack_bundle(bytes_of(wrong), &bundle), Status::kMalformed) << change;
  }
  std::string impossible = whole;
  impossible[at + 3] = 0x3f;  // 1 GiB from some twenty bytes
  std::string bundle;
  EXPECT_EQ(unpack_bundle(bytes_of(impossible), &bundle), Status::kMalformed);
  if (version() != 3) return;  // those cannot say more than is unpacked
  std::string too_large = whole;
  too_large[at + 4] = 1;
  EXPECT_EQ(unpack_bundle(bytes_of(too_large), &bundle), Status::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Forms, CompressedBundle, testing::Combine(testing::Values(1u, 2u, 3u), testing::Bool()),
                         [](const auto& info) {
                           return "V" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Zstd" : "Zlib");
                         });

TEST(CompressedBundleHeader, OtherVersionsAndMethodsAreNotSupported) {
  std::string image = images::compress("contents", 2, true);
  std::string bundle;
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

TEST(CompressedBundleHeader, OneOfMoreThanAGibibyteIsReadAsFarAsIsNeeded) {
  const std::string object = images::code_object(images::sample_kernels());
  std::string random(400'000, ' ');
  std::uint32_t state = 1;
  for (char& each : random) each = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  std::string packed = images::compress(images::bundle({{"host-x86_64-unknown-linux", ""},
                                                        {"hipv4-amdgcn-amd-amdhsa--gfx90a", object},
                                                        {"hipv4-amdgcn-amd-amdhsa--gfx942", object + random}}),
                                        3, true);
  constexpr std::size_t kUncompressedAt = 16;
  for (const std::uint64_t said : {std::uint64_t{1'200'000'000}, kMaxUncompressedBytes, kMaxUncompressedBytes + 1}) {
    std::memcpy(packed.data() + kUncompressedAt, &said, sizeof said);
    KernelSet kernels;
    const std::string mine[] = {"gfx90a:sramecc+:xnack-"};
    EXPECT_EQ(said > kMaxUncompressedBytes ? Status::kUnsupported : Status::kOk,
              read_image(bytes_of(packed), &kernels, mine));
    EXPECT_EQ(said <= kMaxUncompressedBytes, kernels.find("mixed") != nullptr) << said;
  }
}

TEST(CompressedBundleHeader, AFileSizeSmallerThanTheHeaderIsMalformed) {
  std::string image = images::compress("contents", 2, true);
  image[8] = 23;
  std::string bundle;
  EXPECT_EQ(unpack_bundle(bytes_of(image), &bundle), Status::kMalformed);
}

}  // namespace
}  // namespace graphpool
