// code_images.h: device code made by hand: metadata, ELF objects, bundles, compressed bundles. For tests and as seeds
// of the fuzzers; what real compilers write is tested beside it. Layouts: LLVM's AMDGPUUsage and ClangOffloadBundler
// pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graphpool::images {

struct ArgumentText {
  std::uint64_t offset, bytes;
  std::string kind;
};

struct KernelText {
  std::string name;
  std::uint64_t segment_bytes;
  std::vector<ArgumentText> arguments;
};

/// Three kernels: values with gaps, pointers with hidden arguments behind them, none at all.
std::vector<KernelText> sample_kernels();

/// The msgpack map, with keys no reader needs in between.
std::string metadata(const std::vector<KernelText>& kernels);

std::string note(const std::string& owner, std::uint32_t type, const std::string& description, std::size_t align = 4);

/// An ELF object whose notes are reached by a program header, or (`sections`) by a section header only.
std::string elf(const std::string& notes, bool sections = false, std::uint16_t machine = 224);

/// An ELF object with the metadata of these kernels.
std::string code_object(const std::vector<KernelText>& kernels);

std::string bundle(const std::vector<std::pair<std::string, std::string>>& entries, std::size_t align = 8);

/// Version 1 to 3.
std::string compress(const std::string& bundle, unsigned version, bool zstd);

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A copy of an image that ends where readable memory ends.
class GuardedImage {
 public:
  explicit GuardedImage(const std::string& image);
  ~GuardedImage();
  GuardedImage(const GuardedImage&) = delete;
  GuardedImage& operator=(const GuardedImage&) = delete;

  const std::byte* data() const noexcept { return data_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, bytes_}; }

 private:
  std::byte* pages_;
  std::size_t mapped_bytes_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace graphpool::images
