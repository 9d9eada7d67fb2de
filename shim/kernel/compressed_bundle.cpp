#include "shim/kernel/compressed_bundle.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>

#include "shim/image_reader.h"
#include "shim/units.h"

namespace graphpool {
namespace {

constexpr char kMagic[4] = {'C', 'C', 'O', 'B'};
constexpr std::uint16_t kZlib = 0, kZstd = 1;
constexpr std::size_t kMaxHeaderBytes = 32;

/// No stream grows by more: deflate spends two bits on 258 bytes, a zstd block four bytes on 128 KiB.
constexpr std::uint64_t kMaxZlibRatio = 1032, kMaxZstdRatio = 32 * kKiB;

/// A stream without a known end is offered in steps, each ending with a page: reading ahead never leaves a page that
/// the stream itself reaches.
constexpr std::size_t kHostPageBytes = 4 * kKiB;

struct Header {
  std::uint16_t version = 0, method = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t file_bytes = 0;  ///< 0: version 1 does not say
  std::uint64_t uncompressed_bytes = 0;
};

constexpr std::size_t header_bytes_of(std::uint16_t version) noexcept {
  return version == 1 ? 20 : version == 2 ? 24 : version == 3 ? kMaxHeaderBytes : 0;
}

/// Reads the common fields (8 bytes), then as many as the version has.
Status read_header(const std::byte* image, std::size_t bytes, Header* header) noexcept {
  ImageReader reader({image, std::min<std::size_t>(bytes, 8)});
  if (!reader.has_text(0, {kMagic, sizeof kMagic})) return Status::kMalformed;
  if (!reader.read(4, &header->version) || !reader.read(6, &header->method)) return Status::kMalformed;
  header->header_bytes = header_bytes_of(header->version);
  if (header->header_bytes == 0 || header->method > kZstd) return Status::kUnsupported;
  if (bytes < header->header_bytes) return Status::kMalformed;
  reader = ImageReader({image, static_cast<std::size_t>(header->header_bytes)});
  std::uint32_t file = 0, uncompressed = 0;
  bool read = true;
  switch (header->version) {
    case 1:
      read = reader.read(8, &uncompressed);
      break;
    case 2:
      read = reader.read(8, &file) && reader.read(12, &uncompressed);
      break;
    default:
      read = reader.read(8, &header->file_bytes) && reader.read(16, &header->uncompressed_bytes);
      break;
  }
  if (header->version < 3) {
    header->file_bytes = file;
    header->uncompressed_bytes = uncompressed;
  }
  if (!read || (header->version > 1 && header->file_bytes < header->header_bytes)) return Status::kMalformed;
  if (header->uncompressed_bytes > kMaxUncompressedBytes || header->file_bytes > 2 * kMaxUncompressedBytes)
    return Status::kUnsupported;
  return Status::kOk;
}

/// `end` null: the stream's end is not known.
Status inflate_stream(const std::byte* begin, const std::byte* end, std::byte* out, std::size_t out_bytes) noexcept {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return Status::kNoMemory;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(begin));
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(out_bytes);
  int result = Z_OK;
  while (result == Z_OK) {
    if (stream.avail_in == 0) {
      std::size_t step = kHostPageBytes - reinterpret_cast<std::uintptr_t>(stream.next_in) % kHostPageBytes;
      if (end != nullptr) {
        const auto left = static_cast<std::size_t>(end - reinterpret_cast<const std::byte*>(stream.next_in));
        step = std::min<std::size_t>(left, kGiB);
      }
      if (step == 0) break;
      stream.avail_in = static_cast<uInt>(step);
    }
    result = inflate(&stream, Z_NO_FLUSH);
  }
  const bool whole = result == Z_STREAM_END && stream.total_out == out_bytes;
  inflateEnd(&stream);
  if (result == Z_MEM_ERROR) return Status::kNoMemory;
  return whole ? Status::kOk : Status::kMalformed;
}

Status unpack(const std::byte* image, const Header& header, const std::byte* end, HostBuffer* bundle) noexcept {
  const std::byte* begin = image + header.header_bytes;
  if (header.method == kZstd && end == nullptr) {
    // Walks from block header to block header, so it reads no further than the frame reaches.
    const std::size_t frame = ZSTD_findFrameCompressedSize(begin, kMaxUncompressedBytes);
    if (ZSTD_isError(frame)) return Status::kMalformed;
    end = begin + frame;
  }
  const auto out_bytes = static_cast<std::size_t>(header.uncompressed_bytes);
  if (end != nullptr) {
    const std::uint64_t ratio = header.method == kZlib ? kMaxZlibRatio : kMaxZstdRatio;
    if (out_bytes / ratio > static_cast<std::uint64_t>(end - begin)) return Status::kMalformed;
  }
  HostBuffer out(out_bytes);
  if (!out) return Status::kNoMemory;
  if (header.method == kZlib) {
    if (const Status status = inflate_stream(begin, end, out.data(), out_bytes); status != Status::kOk) return status;
  } else {
    const auto in_bytes = static_cast<std::size_t>(end - begin);
    const std::size_t frame = ZSTD_findFrameCompressedSize(begin, in_bytes);  // what follows the frame is not ours
    if (ZSTD_isError(frame)) return Status::kMalformed;
    const std::size_t got = ZSTD_decompress(out.data(), out_bytes, begin, frame);
    if (ZSTD_isError(got) || got != out_bytes) return Status::kMalformed;
  }
  *bundle = std::move(out);
  return Status::kOk;
}

}  // namespace

bool is_compressed_bundle(std::span<const std::byte> image) noexcept {
  return ImageReader(image).has_text(0, {kMagic, sizeof kMagic});
}

Status unpack_bundle(std::span<const std::byte> image, HostBuffer* bundle) noexcept {
  Header header;
  if (const Status status = read_header(image.data(), image.size(), &header); status != Status::kOk) return status;
  if (header.file_bytes > image.size()) return Status::kMalformed;
  const std::size_t bytes = header.version == 1 ? image.size() : static_cast<std::size_t>(header.file_bytes);
  return unpack(image.data(), header, image.data() + bytes, bundle);
}

Status unpack_bundle(const std::byte* image, HostBuffer* bundle) noexcept {
  Header header;
  if (const Status status = read_header(image, kMaxHeaderBytes, &header); status != Status::kOk) {
    return status;
  }
  return unpack(image, header, header.version == 1 ? nullptr : image + header.file_bytes, bundle);
}

}  // namespace graphpool
