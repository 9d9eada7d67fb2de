#include <gtest/gtest.h>

#include "shim/kernel/metadata.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

using images::bytes_of;

KernelSet read(const std::string& note, Status expected) {
  KernelSet kernels;
  EXPECT_EQ(read_metadata(bytes_of(note), &kernels), expected);
  return kernels;
}

TEST(Metadata, GivesExplicitArgumentsOnly) {
  const KernelSet kernels = read(images::metadata(images::sample_kernels()), Status::kOk);
  ASSERT_EQ(kernels.kernels().size(), 3u);
  const KernelDescription* scale = kernels.find("_Z5scalePffi");
  ASSERT_NE(scale, nullptr);
  EXPECT_TRUE(scale->known);
  EXPECT_EQ(scale->arguments,
            (std::vector<Argument>{
                {0, 8, ArgumentKind::kGlobalBuffer}, {8, 4, ArgumentKind::kByValue}, {12, 4, ArgumentKind::kByValue}}));
  EXPECT_TRUE(kernels.find("empty")->known);
  EXPECT_TRUE(kernels.find("empty")->arguments.empty());
  EXPECT_EQ(kernels.find("nobody"), nullptr);
}

TEST(Metadata, KnowsTheKindsOfArguments) {
  const KernelSet kernels = read(
      images::metadata({{"k", 64, {{0, 8, "dynamic_shared_pointer"}, {8, 8, "image"}, {16, 8, "a_kind_of_tomorrow"}}}}),
      Status::kOk);
  ASSERT_EQ(kernels.find("k")->arguments.size(), 3u);
  EXPECT_EQ(kernels.find("k")->arguments[0].kind, ArgumentKind::kDynamicShared);
  EXPECT_EQ(kernels.find("k")->arguments[1].kind, ArgumentKind::kOther);
  EXPECT_EQ(kernels.find("k")->arguments[2].kind, ArgumentKind::kOther);
}

TEST(Metadata, ArgumentsThatMakeNoSenseLeaveTheKernelUnknown) {
  const KernelSet kernels = read(images::metadata({{"overlap", 64, {{0, 8, "by_value"}, {4, 8, "by_value"}}},
                                                   {"outside", 12, {{8, 8, "by_value"}}},
                                                   {"huge", 1ull << 40, {{1ull << 32, 8, "by_value"}}},
                                                   {"empty", 8, {{0, 0, "by_value"}}},
                                                   {"no_kind", 8, {{0, 8, ""}}},
                                                   {"good", 8, {{0, 8, "by_value"}}}}),
                                 Status::kOk);
  for (const char* name : {"overlap", "outside", "huge", "empty", "no_kind"}) {
    ASSERT_NE(kernels.find(name), nullptr) << name;
    EXPECT_FALSE(kernels.find(name)->known) << name;
    EXPECT_TRUE(kernels.find(name)->arguments.empty()) << name;
  }
  EXPECT_TRUE(kernels.find("good")->known);
}

TEST(Metadata, MissingKeysLeaveTheKernelUnknown) {
  // {"amdhsa.kernels": [{".name": "k"}, {".name": "a", ".kernarg_segment_size": 8, ".args": [{".size": 8}]}, {}]}
  const std::string note = std::string("\x81\xae") + "amdhsa.kernels" + "\x93" + "\x81\xa5.name\xa1k" +
                           "\x83\xa5.name\xa1"
                           "a\xb5.kernarg_segment_size\x08\xa5.args\x91\x81\xa5.size\x08" +
                           "\x80";
  const KernelSet kernels = read(note, Status::kOk);
  ASSERT_EQ(kernels.kernels().size(), 2u) << "a kernel without a name is nobody's";
  EXPECT_FALSE(kernels.find("k")->known);
  EXPECT_FALSE(kernels.find("a")->known);
}

TEST(Metadata, KeysThatAreNotTextHideNothing) {
  // {[".name"]: "x", {".name": 1}: 2, nil: 3, "amdhsa.kernels": [{".name": "k", ".kernarg_segment_size": 0}]}
  const std::string note = std::string("\x84\x91\xa5.name\xa1x\x81\xa5.name\x01\x02\xc0\x03\xae") + "amdhsa.kernels" +
                           "\x91\x82\xa5.name\xa1k\xb5.kernarg_segment_size" + std::string(1, '\0');
  const KernelSet kernels = read(note, Status::kOk);
  ASSERT_EQ(kernels.kernels().size(), 1u);
  EXPECT_TRUE(kernels.find("k")->known);
}

TEST(Metadata, TheSameKernelTwiceMustAgree) {
  KernelSet kernels;
  kernels.add("same", {{{0, 8, ArgumentKind::kGlobalBuffer}}, true});
  kernels.add("same", {{{0, 8, ArgumentKind::kGlobalBuffer}}, true});
  kernels.add("other", {{{0, 8, ArgumentKind::kGlobalBuffer}}, true});
  kernels.add("other", {{{0, 8, ArgumentKind::kByValue}}, true});
  kernels.add("unknown", {{}, false});
  kernels.add("unknown", {{}, true});
  EXPECT_TRUE(kernels.find("same")->known);
  EXPECT_FALSE(kernels.find("other")->known);
  EXPECT_FALSE(kernels.find("unknown")->known);
}

TEST(Metadata, RefusesWhatIsNotTheMap) {
  read("", Status::kMalformed);
  read("\x90", Status::kMalformed);
  read("\x05", Status::kMalformed);
  read("\xa1k", Status::kMalformed);
  read("\xc1", Status::kMalformed);
}

TEST(Metadata, TruncatedAtEveryByte) {
  const std::string whole = images::metadata(images::sample_kernels());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const images::GuardedImage cut(whole.substr(0, bytes));
    KernelSet kernels;
    EXPECT_EQ(read_metadata(cut.bytes(), &kernels), Status::kMalformed) << bytes;
  }
}

TEST(Metadata, PromisesCostNothing) {
  // Arrays, maps, texts, binaries and extensions of four billion elements, at the root and as the list of kernels.
  const std::string kernels_key = std::string("\x81\xae") + "amdhsa.kernels";
  for (const char* header : {"\xdd\xff\xff\xff\xff", "\xdf\xff\xff\xff\xff", "\xdb\xff\xff\xff\xff",
                             "\xc6\xff\xff\xff\xff", "\xc9\xff\xff\xff\xff\x01", "\xc9\xff\xff\xff\xf0\x01"}) {
    read(header, Status::kMalformed);
    read(kernels_key + header, Status::kMalformed);
    read(kernels_key + "\x91\x81\xa5.args" + header, Status::kMalformed);
  }
}

TEST(Metadata, DepthIsBounded) {
  read(std::string("\x81\xa1x") + std::string(1000, '\x91') + "\x01", Status::kMalformed);
  read(std::string("\x81\xa1x") + std::string(20, '\x91') + "\x01", Status::kOk);
}

}  // namespace
}  // namespace graphpool
