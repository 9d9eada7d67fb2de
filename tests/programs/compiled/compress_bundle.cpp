// compress_bundle.cpp: writes an offload bundle in LLVM's compressed form (magic CCOB, version 2, zstd), which clang
// makes from release 19 on: usage: compress_bundle BUNDLE OUTPUT. The hash field holds FNV-1a: no loader checks it.
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

template <typename Integer>
void append(std::string* out, Integer value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);  // little endian, as the host
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: compress_bundle BUNDLE OUTPUT\n");
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  const std::string bundle((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in || bundle.empty()) {
    std::fprintf(stderr, "cannot read '%s'\n", argv[1]);
    return 1;
  }
  std::vector<char> compressed(ZSTD_compressBound(bundle.size()));
  const std::size_t bytes = ZSTD_compress(compressed.data(), compressed.size(), bundle.data(), bundle.size(), 3);
  if (ZSTD_isError(bytes) != 0) {
    std::fprintf(stderr, "zstd: %s\n", ZSTD_getErrorName(bytes));
    return 1;
  }
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : bundle) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;

  constexpr std::uint16_t kVersion = 2, kZstd = 1;
  constexpr std::size_t kHeaderBytes = 24;
  std::string file = "CCOB";
  append(&file, kVersion);
  append(&file, kZstd);
  append(&file, static_cast<std::uint32_t>(kHeaderBytes + bytes));
  append(&file, static_cast<std::uint32_t>(bundle.size()));
  append(&file, hash);
  file.append(compressed.data(), bytes);
  std::ofstream out(argv[2], std::ios::binary);
  out.write(file.data(), static_cast<std::streamsize>(file.size()));
  if (!out.flush()) {
    std::fprintf(stderr, "cannot write '%s'\n", argv[2]);
    return 1;
  }
  return 0;
}
