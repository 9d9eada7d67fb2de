// What AMD's and LLVM's own tools write: hipcc's code objects and bundles, hipRTC's objects, bundles put together and
// compressed by clang-offload-bundler. The files are made by the build; a tool that is not installed leaves its out.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "shim/kernel/code_object.h"
#include "shim/kernel/compressed_bundle.h"
#include "tests/support/code_images.h"

namespace graphpool {
namespace {

struct Pair {
  int a;
  double b;
  char c;
};

std::optional<std::string> made(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr || *path == '\0') return {};
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class Compilers : public testing::TestWithParam<const char*> {};

TEST_P(Compilers, LayoutsAreThoseOfTheSource) {
  const std::optional<std::string> image = made(GetParam());
  if (!image) GTEST_SKIP() << "its compiler is not installed";
  const images::GuardedImage guarded(*image);
  KernelSet known, unknown;
  ASSERT_EQ(read_image(guarded.bytes(), &known), Status::kOk);
  ASSERT_EQ(read_image(guarded.data(), &unknown), Status::kOk) << "without a size";
  for (const KernelSet* kernels : {&known, &unknown}) {
    ASSERT_EQ(kernels->kernels().size(), 4u);
    const auto layout = [kernels](const char* name) {
      const KernelDescription* kernel = kernels->find(name);
      EXPECT_TRUE(kernel != nullptr && kernel->known) << name;
      return kernel == nullptr ? std::vector<Argument>{} : kernel->arguments;
    };
    constexpr auto kValue = ArgumentKind::kByValue;
    constexpr auto kPointer = ArgumentKind::kGlobalBuffer;
    EXPECT_EQ(layout("mixed"), (std::vector<Argument>{{0, 1, kValue},
                                                      {8, 8, kPointer},
                                                      {16, sizeof(Pair), kValue},
                                                      {40, 2, kValue},
                                                      {48, 8, kPointer},
                                                      {56, 1, kValue}}));
    EXPECT_EQ(layout("_Z5scaleIfEvPT_S0_i"),
              (std::vector<Argument>{{0, 8, kPointer}, {8, 4, kValue}, {12, 4, kValue}}));
    EXPECT_EQ(layout("_Z5scaleIdEvPT_S0_i"),
              (std::vector<Argument>{{0, 8, kPointer}, {8, 8, kValue}, {16, 4, kValue}}));
    EXPECT_TRUE(layout("empty").empty());
    for (const auto& [name, kernel] : kernels->kernels()) EXPECT_TRUE(kernel.self_contained) << name;
  }
}

TEST(CompilersVariable, KernelsOfAModuleWithVariablesReachMoreThanTheirArguments) {
  const std::optional<std::string> image = made("HIPCC_VARIABLE");
  if (!image) GTEST_SKIP() << "hipcc is not installed";
  const images::GuardedImage guarded(*image);
  KernelSet kernels;
  ASSERT_EQ(read_image(guarded.bytes(), &kernels), Status::kOk);
  ASSERT_EQ(kernels.kernels().size(), 4u);
  for (const auto& [name, kernel] : kernels.kernels()) EXPECT_FALSE(kernel.self_contained) << name;
}

TEST_P(Compilers, CutAnywhereIsRefusedOrWhole) {
  const std::optional<std::string> image = made(GetParam());
  if (!image) GTEST_SKIP() << "its compiler is not installed";
  for (std::size_t bytes = 0; bytes < image->size(); bytes += bytes < 4096 ? 1 : 61) {
    const images::GuardedImage cut(image->substr(0, bytes));
    KernelSet kernels;
    EXPECT_TRUE(read_image(cut.bytes(), &kernels) != Status::kOk || kernels.kernels().size() == 4) << bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Tools, Compilers,
                         testing::Values("HIPCC_OBJECT", "HIPCC_BUNDLE", "HIPRTC_OBJECT", "BUNDLER_BUNDLE",
                                         "BUNDLER_COMPRESSED"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CompilersBundle, HasTheEntriesOfItsArchitectures) {
  const std::optional<std::string> image = made("HIPCC_BUNDLE");
  if (!image) GTEST_SKIP() << "hipcc is not installed";
  std::vector<BundleEntry> entries;
  ASSERT_EQ(bundle_entries(images::bytes_of(*image), &entries), Status::kOk);
  std::size_t serving = 0;
  for (const BundleEntry& entry : entries) serving += entry_serves(entry.id, "gfx90a:sramecc+:xnack-");
  EXPECT_EQ(serving, 1u);
}

TEST(CompilersBundle, LlvmsCompressionIsOneOfOurs) {
  const std::optional<std::string> image = made("BUNDLER_COMPRESSED");
  if (!image) GTEST_SKIP() << "no clang-offload-bundler that compresses is installed";
  EXPECT_TRUE(is_compressed_bundle(images::bytes_of(*image)));
}

}  // namespace
}  // namespace graphpool
