#include "common/module_image.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "common/elf_object.h"

namespace hipfront {
namespace {

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::string_view kCompressedMagic = "CCOB";

template <typename T>
T take(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

bool begins_with(const void* image, std::string_view magic) {
  return std::memcmp(image, magic.data(), magic.size()) == 0;
}

bool inflate_zlib(std::span<const std::byte> from, std::vector<std::byte>* to) {
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(from.size(), UINT32_MAX));
  stream.next_out = reinterpret_cast<Bytef*>(to->data());
  stream.avail_out = static_cast<uInt>(to->size());
  if (::inflateInit(&stream) != Z_OK) return false;
  const int result = ::inflate(&stream, Z_FINISH);
  ::inflateEnd(&stream);
  return result == Z_STREAM_END && stream.avail_out == 0;
}

bool inflate_zstd(std::span<const std::byte> from, std::vector<std::byte>* to) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(), &ZSTD_freeDStream);
  if (stream == nullptr) return false;
  ZSTD_inBuffer in{from.data(), from.size(), 0};
  ZSTD_outBuffer out{to->data(), to->size(), 0};
  std::size_t left = 1;
  while (left != 0) {
    const std::size_t before = in.pos + out.pos;
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(left) != 0 || (left != 0 && in.pos + out.pos == before)) return false;
  }
  return out.pos == out.size;
}

}  // namespace

hipError_t ModuleImage::open(const void* image) {
  if (image == nullptr) return hipErrorInvalidValue;
  const auto* bytes = static_cast<const std::byte*>(image);
  if (begins_with(bytes,
                  "\x7f"
                  "ELF")) {
    object_ = {bytes, elf_bytes(bytes)};
    return object_.empty() ? hipErrorInvalidImage : hipSuccess;
  }
  if (begins_with(bytes, kCompressedMagic)) return decompress(bytes);
  if (begins_with(bytes, kBundleMagic)) return open_bundle(bytes);
  return hipErrorInvalidImage;
}

hipError_t ModuleImage::open_bundle(const std::byte* bundle) {
  const std::byte* at = bundle + kBundleMagic.size();
  for (auto count = take<std::uint64_t>(at); count != 0; --count) {
    const auto offset = take<std::uint64_t>(at), size = take<std::uint64_t>(at), id_size = take<std::uint64_t>(at);
    const std::string_view id(reinterpret_cast<const char*>(at), id_size);
    at += id_size;
    if (id == entry_) {
      object_ = {bundle + offset, size};
      return hipSuccess;
    }
  }
  return hipErrorNoBinaryForGpu;
}

/// "CCOB", u16 version, u16 method (0 zlib, 1 zstd), sizes of the file and of what it holds, u64 hash; version 1 has no
/// size of the file, version 3 has sizes of 64 bits.
hipError_t ModuleImage::decompress(const std::byte* bundle) {
  const std::byte* at = bundle + kCompressedMagic.size();
  const auto version = take<std::uint16_t>(at), method = take<std::uint16_t>(at);
  std::uint64_t file_bytes = 0, bytes = 0;
  if (version == 1) {
    bytes = take<std::uint32_t>(at);
  } else if (version == 2) {
    file_bytes = take<std::uint32_t>(at);
    bytes = take<std::uint32_t>(at);
  } else if (version == 3) {
    file_bytes = take<std::uint64_t>(at);
    bytes = take<std::uint64_t>(at);
  } else {
    return hipErrorInvalidImage;
  }
  take<std::uint64_t>(at);  // the hash of what it holds
  const auto header_bytes = static_cast<std::uint64_t>(at - bundle);
  if (version != 1 && file_bytes < header_bytes) return hipErrorInvalidImage;
  // Without a size the stream itself says where it ends; it is never larger than this.
  const std::uint64_t packed = version == 1 ? bytes + bytes / 2 + 4096 : file_bytes - header_bytes;
  unpacked_.resize(bytes);
  const std::span<const std::byte> from(at, packed);
  const bool good = method == 0 ? inflate_zlib(from, &unpacked_) : method == 1 && inflate_zstd(from, &unpacked_);
  if (!good || unpacked_.size() < kBundleMagic.size() || !begins_with(unpacked_.data(), kBundleMagic))
    return hipErrorInvalidImage;
  return open_bundle(unpacked_.data());
}

}  // namespace hipfront
