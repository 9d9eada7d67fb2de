#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "shim/kernel/code_object.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

using images::bytes_of;
using images::KernelText;

constexpr const char* kGfx90a = "hipv4-amdgcn-amd-amdhsa--gfx90a";
constexpr const char* kGfx906 = "hipv4-amdgcn-amd-amdhsa--gfx906";

std::string sample() { return images::code_object(images::sample_kernels()); }

Status read(const std::string& image, KernelSet* kernels) { return read_image(bytes_of(image), kernels); }

TEST(CodeObject, ReadsTheNoteOfASegment) {
  KernelSet kernels;
  ASSERT_EQ(read(sample(), &kernels), Status::kOk);
  EXPECT_EQ(kernels.kernels().size(), 3u);
}

TEST(CodeObject, ReadsTheNoteOfASectionWhenThereIsNoSegment) {
  KernelSet kernels;
  const std::string note = images::note("AMDGPU", 32, images::metadata(images::sample_kernels()));
  ASSERT_EQ(read(images::elf(note, true), &kernels), Status::kOk);
  EXPECT_EQ(kernels.kernels().size(), 3u);
}

TEST(CodeObject, FindsTheNoteAmongOthersAndReadsAllOfThem) {
  const std::string notes = images::note("GNU", 3, "build id") +
                            images::note("AMDGPU", 32, images::metadata({{"a", 8, {{0, 8, "by_value"}}}})) +
                            images::note("AMDGPU", 10, "an older kind") + images::note("AMD", 32, "another owner") +
                            images::note("AMDGPU", 32, images::metadata({{"b", 8, {{0, 8, "by_value"}}}}));
  KernelSet kernels;
  ASSERT_EQ(read(images::elf(notes), &kernels), Status::kOk);
  EXPECT_NE(kernels.find("a"), nullptr);
  EXPECT_NE(kernels.find("b"), nullptr);
}

/// A code object with a writable section of so many bytes and symbols of one byte in it.
std::string with_symbols(const std::vector<std::string>& names, std::uint64_t bytes) {
  std::string out = sample(), strings(1, '\0');
  std::vector<Elf64_Sym> symbols(1);
  for (const std::string& name : names) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(strings.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbol.st_shndx = 3;
    symbol.st_size = 1;
    symbols.push_back(symbol);
    strings += name + '\0';
  }
  const auto append = [&](const void* data, std::size_t size) {
    out.resize((out.size() + 7) / 8 * 8);
    out.append(static_cast<const char*>(data), size);
    return out.size() - size;
  };
  Elf64_Shdr sections[4]{};
  sections[1].sh_type = SHT_DYNSYM;
  sections[1].sh_link = 2;
  sections[1].sh_size = symbols.size() * sizeof symbols[0];
  sections[1].sh_offset = append(symbols.data(), sections[1].sh_size);
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_size = strings.size();
  sections[2].sh_offset = append(strings.data(), strings.size());
  sections[3].sh_type = SHT_NOBITS;
  sections[3].sh_flags = SHF_ALLOC | SHF_WRITE;
  sections[3].sh_size = bytes;
  Elf64_Ehdr header;
  std::memcpy(&header, out.data(), sizeof header);
  header.e_shnum = 4;
  header.e_shoff = append(sections, sizeof sections);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

TEST(CodeObject, TheMarksOfTranslationUnitsAreNoVariables) {
  const auto self_contained = [](const std::string& image) {
    KernelSet kernels;
    EXPECT_EQ(read(image, &kernels), Status::kOk);
    return kernels.find("mixed")->self_contained;
  };
  EXPECT_TRUE(self_contained(with_symbols({}, 0)));
  EXPECT_TRUE(self_contained(with_symbols({"__hip_cuid_bd006bbcac9601db"}, 1)));
  EXPECT_TRUE(self_contained(with_symbols({"__hip_cuid_bd006bbcac9601db", "__hip_cuid_2"}, 2)));
  EXPECT_FALSE(self_contained(with_symbols({"__hip_cuid_bd006bbcac9601db"}, 2))) << "a variable that is not exported";
  EXPECT_FALSE(self_contained(with_symbols({"__hip_cuid_bd006bbcac9601db", "flag"}, 2)));
  EXPECT_FALSE(self_contained(with_symbols({"flag"}, 1)));
  EXPECT_FALSE(self_contained(with_symbols({}, 1)));
}

TEST(CodeObject, AnObjectWithoutMetadataHasNothing) {
  KernelSet kernels;
  EXPECT_EQ(read(images::elf(images::note("GNU", 3, "build id")), &kernels), Status::kNotFound);
  EXPECT_EQ(read(images::elf(""), &kernels), Status::kNotFound);
}

TEST(CodeObject, OtherFormsAreNotSupported) {
  KernelSet kernels;
  EXPECT_EQ(read("", &kernels), Status::kUnsupported);
  EXPECT_EQ(read("#!/bin/sh", &kernels), Status::kUnsupported);
  EXPECT_EQ(read(std::string(100, '\0'), &kernels), Status::kUnsupported);
  std::string elf32 = sample();
  elf32[4] = 1;
  EXPECT_EQ(read(elf32, &kernels), Status::kUnsupported);
  EXPECT_EQ(read_image(nullptr, &kernels), Status::kUnsupported);
}

TEST(CodeObject, WithoutASizeReadsWhatTheHeadersPromise) {
  for (const bool sections : {false, true}) {
    const std::string note = images::note("AMDGPU", 32, images::metadata(images::sample_kernels()));
    const images::GuardedImage elf(images::elf(note, sections));
    KernelSet kernels;
    ASSERT_EQ(read_image(elf.data(), &kernels), Status::kOk);
    EXPECT_EQ(kernels.kernels().size(), 3u);
  }
  const std::string bundle = images::bundle({{"host-x86_64-unknown-linux", ""}, {kGfx90a, sample()}});
  const images::GuardedImage plain(bundle);
  KernelSet kernels;
  ASSERT_EQ(read_image(plain.data(), &kernels), Status::kOk);
  for (const unsigned version : {1u, 2u, 3u}) {
    for (const bool zstd : {false, true}) {
      const images::GuardedImage packed(images::compress(bundle, version, zstd));
      KernelSet unpacked;
      ASSERT_EQ(read_image(packed.data(), &unpacked), Status::kOk) << version << zstd;
      EXPECT_EQ(unpacked.kernels().size(), 3u);
    }
  }
}

TEST(CodeObject, WithoutASizeAWrongMagicIsReadNoFurther) {
  KernelSet kernels;
  EXPECT_EQ(read_image(images::GuardedImage("none").data(), &kernels), Status::kUnsupported);
}

TEST(CodeObject, WithoutASizeImpossibleHeadersAreRefused) {
  std::string elf = sample();
  elf.replace(32, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);  // e_phoff
  KernelSet kernels;
  EXPECT_EQ(read_image(images::GuardedImage(elf).data(), &kernels), Status::kMalformed);
  std::string bundle = images::bundle({{kGfx90a, sample()}});
  bundle.replace(24, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);  // the number of entries
  EXPECT_EQ(read_image(images::GuardedImage(bundle).data(), &kernels), Status::kMalformed);
}

TEST(Bundle, EntriesByIdAndThePartsTheyName) {
  const std::string image = images::bundle({{"host-x86_64-unknown-linux", ""}, {kGfx90a, "one"}, {kGfx906, "three"}});
  std::vector<BundleEntry> entries;
  ASSERT_EQ(bundle_entries(bytes_of(image), &entries), Status::kOk);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[1].id, kGfx90a);
  EXPECT_EQ(entries[2].code.size(), 5u);
  EXPECT_TRUE(entries[0].code.empty());
}

TEST(Bundle, EntriesAreTakenTogether) {
  const std::string image = images::bundle({
      {"host-x86_64-unknown-linux", ""},
      {kGfx90a, images::code_object({{"both", 280, {{0, 8, "global_buffer"}}}, {"one", 8, {{0, 8, "by_value"}}}})},
      {kGfx906, images::code_object({{"both", 56, {{0, 8, "global_buffer"}}}, {"two", 8, {{0, 8, "by_value"}}}})},
  });
  KernelSet kernels;
  ASSERT_EQ(read(image, &kernels), Status::kOk);
  EXPECT_EQ(kernels.kernels().size(), 3u);
  EXPECT_TRUE(kernels.find("both")->known) << "hidden arguments may differ";
}

TEST(Bundle, AKernelItsEntriesDisagreeAboutIsUnknown) {
  const std::string image = images::bundle({
      {kGfx90a, images::code_object({{"k", 16, {{0, 8, "global_buffer"}}}, {"good", 8, {{0, 8, "by_value"}}}})},
      {kGfx906, images::code_object({{"k", 16, {{8, 8, "global_buffer"}}}, {"good", 8, {{0, 8, "by_value"}}}})},
  });
  KernelSet kernels;
  ASSERT_EQ(read(image, &kernels), Status::kOk);
  EXPECT_FALSE(kernels.find("k")->known);
  EXPECT_TRUE(kernels.find("good")->known);
}

TEST(Bundle, EntriesOfOtherKindsArePassedOver) {
  const std::string spirv = std::string("\x03\x02\x23\x07", 4) + std::string(60, '\0');
  const std::string cubin = images::elf(images::note("CUDA", 1, "x"), false, 190);
  const std::string image = images::bundle({{"host-x86_64-unknown-linux", ""},
                                            {"hip-spirv64-amd-amdhsa--amdgcnspirv", spirv},
                                            {"hipv4-nvptx64-nvidia-cuda--sm_90", cubin},
                                            {std::string(kCpuEntryId), sample()}});
  KernelSet kernels;
  ASSERT_EQ(read(image, &kernels), Status::kOk);
  EXPECT_EQ(kernels.kernels().size(), 3u);
  KernelSet none;
  EXPECT_EQ(read(images::bundle({{"hip-spirv64-amd-amdhsa--amdgcnspirv", spirv}}), &none), Status::kNotFound);
}

TEST(Bundle, ABrokenEntryMakesTheBundleMalformed) {
  std::string broken = sample();
  broken.resize(broken.size() - 20);
  KernelSet kernels;
  EXPECT_EQ(read(images::bundle({{kGfx90a, broken}, {kGfx906, sample()}}), &kernels), Status::kMalformed);
}

TEST(Bundle, AnEntryServesItsProcessorAndFeatures) {
  EXPECT_TRUE(entry_serves(kGfx90a, "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(entry_serves(std::string(kGfx90a) + ":xnack-", "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(entry_serves(std::string(kGfx90a) + ":xnack-:sramecc+", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(entry_serves(std::string(kGfx90a) + ":xnack+", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(entry_serves(kGfx90a, "gfx90"));
  EXPECT_FALSE(entry_serves(kGfx90a, "gfx942"));
  EXPECT_TRUE(entry_serves("hip-amdgcn-amd-amdhsa--gfx906", "gfx906:xnack-")) << "an older kind of id";
  EXPECT_FALSE(entry_serves(kCpuEntryId, "cpu"));
  EXPECT_FALSE(entry_serves("host-x86_64-unknown-linux", "gfx90a"));
  EXPECT_FALSE(entry_serves("", ""));
}

/// Every image cut at every byte and with every byte changed is refused or read, but never past its end.
class DamagedImage : public testing::TestWithParam<int> {
 protected:
  static std::string image() {
    const std::string bundle = images::bundle({{"host-x86_64-unknown-linux", ""}, {kGfx90a, sample()}});
    switch (GetParam()) {
      case 0:
        return sample();
      case 1:
        return images::elf(images::note("AMDGPU", 32, images::metadata(images::sample_kernels())), true);
      case 2:
        return bundle;
      case 3:
        return images::compress(bundle, 3, true);
      default:
        return images::compress(bundle, 2, false);
    }
  }
};

TEST_P(DamagedImage, CutAtEveryByte) {
  const std::string whole = image();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const images::GuardedImage cut(whole.substr(0, bytes));
    KernelSet kernels;
    const Status status = read_image(cut.bytes(), &kernels);
    // A cut in what lies behind the notes (padding) may still leave all of them.
    EXPECT_TRUE(status != Status::kOk || kernels.kernels().size() == 3) << bytes;
  }
}

TEST_P(DamagedImage, ChangedAtEveryByte) {
  const std::string whole = image();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned char change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const images::GuardedImage guarded(changed);
      KernelSet kernels;
      const Status status = read_image(guarded.bytes(), &kernels);
      for (const auto& [name, kernel] : kernels.kernels()) {
        EXPECT_TRUE(ArgumentLayout::is_valid(kernel.arguments))
            << name << " at " << at << " status " << static_cast<int>(status);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, DamagedImage, testing::Range(0, 5));

}  // namespace
}  // namespace graphpool
