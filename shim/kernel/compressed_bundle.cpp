#include "shim/kernel/compressed_bundle.h"

#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY  // it is linked statically
#include <zstd.h>

#include <algorithm>
#include <new>

#include "shim/base/image_reader.h"
#include "shim/base/units.h"

namespace graphpool {
namespace {

constexpr char kMagic[4] = {'C', 'C', 'O', 'B'};
constexpr std::uint16_t kZlib = 0, kZstd = 1;
constexpr std::size_t kMaxHeaderBytes = 32;

/// No stream unpacks to more times its size: deflate takes two bits for 258 bytes, a zstd block four bytes for 128 KiB.
constexpr std::uint64_t kMaxZlibRatio = 1032, kMaxZstdRatio = 32 * kKiB;

/// A stream without a known end is read in steps that end with a page: no page is read that it does not reach.
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

}  // namespace

/// A stream that is unpacked in steps, by either method.
struct BundleUnpacker::Stream {
  Stream(const std::byte* begin, const std::byte* end) noexcept : next(begin), end(end) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual bool begin() noexcept = 0;
  /// Unpacks on until `bytes` are there, if the stream has them; `all`: to its end.
  virtual Status advance(std::span<std::byte> to, std::size_t bytes, bool all, std::size_t* reached) noexcept = 0;

  const std::byte* next;
  const std::byte* const end;  ///< null: not known
};

namespace {

class ZlibStream : public BundleUnpacker::Stream {
 public:
  using Stream::Stream;
  ~ZlibStream() override {
    if (open_) inflateEnd(&stream_);
  }
  bool begin() noexcept override { return open_ = inflateInit(&stream_) == Z_OK; }

  Status advance(std::span<std::byte> to, std::size_t bytes, bool all, std::size_t* reached) noexcept override {
    stream_.next_out = reinterpret_cast<Bytef*>(to.data() + *reached);
    stream_.avail_out = static_cast<uInt>(bytes - *reached);
    while (result_ == Z_OK && (all || stream_.avail_out != 0) && offer()) result_ = inflate(&stream_, Z_NO_FLUSH);
    *reached = bytes - stream_.avail_out;
    if (result_ == Z_MEM_ERROR) return Status::kNoMemory;
    return *reached == bytes && (!all || result_ == Z_STREAM_END) ? Status::kOk : Status::kMalformed;
  }

 private:
  bool offer() noexcept {
    if (stream_.avail_in != 0) return true;
    std::size_t step = kHostPageBytes - reinterpret_cast<std::uintptr_t>(next) % kHostPageBytes;
    if (end != nullptr) step = std::min<std::size_t>(static_cast<std::size_t>(end - next), kGiB);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(next));
    stream_.avail_in = static_cast<uInt>(step);
    next += step;
    return step != 0;
  }

  z_stream stream_{};
  int result_ = Z_OK;
  bool open_ = false;
};

class ZstdStream : public BundleUnpacker::Stream {
 public:
  using Stream::Stream;
  ~ZstdStream() override { ZSTD_freeDCtx(stream_); }
  /// The stream looks back into the unpacked bytes themselves, as far as the frame does, and keeps no copy of them.
  bool begin() noexcept override {
    stream_ = ZSTD_createDCtx();
    const auto set = [&](ZSTD_dParameter parameter, int value) {
      return ZSTD_isError(ZSTD_DCtx_setParameter(stream_, parameter, value)) == 0;
    };
    return stream_ != nullptr && set(ZSTD_d_stableOutBuffer, 1) && set(ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);
  }

  Status advance(std::span<std::byte> to, std::size_t bytes, bool all, std::size_t* reached) noexcept override {
    ZSTD_outBuffer out{to.data(), to.size(), *reached};
    while (wanted_ != 0 && (all || out.pos < bytes)) {
      ZSTD_inBuffer in{next, std::min(wanted_, static_cast<std::size_t>(end - next)), 0};
      const std::size_t before = out.pos;
      wanted_ = ZSTD_decompressStream(stream_, &out, &in);
      next += in.pos;
      if (ZSTD_isError(wanted_) != 0 || (in.pos == 0 && out.pos == before)) return Status::kMalformed;
    }
    *reached = out.pos;
    return out.pos >= bytes && (!all || wanted_ == 0) ? Status::kOk : Status::kMalformed;
  }

 private:
  ZSTD_DCtx* stream_ = nullptr;
  std::size_t wanted_ = 1;  ///< bytes that the next step takes, one block; 0: the frame has ended
};

}  // namespace

bool is_compressed_bundle(std::span<const std::byte> image) noexcept {
  return ImageReader(image).has_text(0, {kMagic, sizeof kMagic});
}

BundleUnpacker::BundleUnpacker() noexcept = default;
BundleUnpacker::~BundleUnpacker() = default;

Status BundleUnpacker::open(const std::byte* begin, const std::byte* end, std::uint16_t method,
                            std::uint64_t bytes) noexcept {
  if (method == kZstd && end == nullptr) {
    // Walks from block header to block header, so it reads no further than the frame reaches.
    const std::size_t frame = ZSTD_findFrameCompressedSize(begin, kMaxUncompressedBytes);
    if (ZSTD_isError(frame)) return Status::kMalformed;
    end = begin + frame;
  }
  if (end != nullptr) {
    const std::uint64_t ratio = method == kZlib ? kMaxZlibRatio : kMaxZstdRatio;
    if (bytes / ratio > static_cast<std::uint64_t>(end - begin)) return Status::kMalformed;
  }
  unpacked_ = HostBuffer(static_cast<std::size_t>(bytes));
  if (!unpacked_) return Status::kNoMemory;
  if (method == kZlib)
    stream_.reset(new (std::nothrow) ZlibStream(begin, end));
  else
    stream_.reset(new (std::nothrow) ZstdStream(begin, end));
  return stream_ != nullptr && stream_->begin() ? Status::kOk : Status::kNoMemory;
}

Status BundleUnpacker::open(std::span<const std::byte> image) noexcept {
  Header header;
  if (const Status status = read_header(image.data(), image.size(), &header); status != Status::kOk) return status;
  if (header.file_bytes > image.size()) return Status::kMalformed;
  const std::size_t bytes = header.version == 1 ? image.size() : static_cast<std::size_t>(header.file_bytes);
  return open(image.data() + header.header_bytes, image.data() + bytes, header.method, header.uncompressed_bytes);
}

Status BundleUnpacker::open(const std::byte* image) noexcept {
  Header header;
  if (const Status status = read_header(image, kMaxHeaderBytes, &header); status != Status::kOk) return status;
  const std::byte* const end = header.version == 1 ? nullptr : image + header.file_bytes;
  return open(image + header.header_bytes, end, header.method, header.uncompressed_bytes);
}

Status BundleUnpacker::reach(std::uint64_t bytes) noexcept {
  const std::span<const std::byte> all = unpacked_.bytes();
  if (stream_ == nullptr || bytes > all.size()) return Status::kMalformed;
  if (bytes <= reached_ && bytes < all.size()) return Status::kOk;
  const std::span to(unpacked_.data(), all.size());
  return stream_->advance(to, static_cast<std::size_t>(bytes), bytes == all.size(), &reached_);
}

}  // namespace graphpool
