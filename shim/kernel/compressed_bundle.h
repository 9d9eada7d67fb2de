// compressed_bundle.h: unpacks clang's compressed offload bundle ("CCOB"), versions 1 to 3, zlib or zstd.
//
// Format: LLVM's ClangOffloadBundler documentation; all numbers little endian:
//   "CCOB", u16 version, u16 method (0 zlib, 1 zstd), [file size: u32 in V2, u64 in V3], uncompressed size (u32; u64 in
//   V3), u64 hash, compressed data. Version 1 does not say how long it is; its stream does.
// It is unpacked from its beginning on, as far as the caller wants: a bundle has an entry for each architecture, and a
// process needs one. What lies behind that costs neither time nor memory.
// Pure parsing of untrusted bytes: no HIP call, no exception, bounded memory. The hash is not checked: the runtime has
// accepted the bundle, and its contents are checked anyway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "shim/base/status.h"

namespace graphpool {

/// Larger bundles are not unpacked, because that takes host memory; the runtime is asked for their kernels' arguments
/// (asked_kernels.h). RCCL's has 1.2 GB, and all that lies before the process's own architecture is unpacked, too.
inline constexpr std::uint64_t kMaxUncompressedBytes = (std::uint64_t{1} << 32) - 1;

bool is_compressed_bundle(std::span<const std::byte> image) noexcept;

/// Unpacked bytes; `data` came from malloc.
class HostBuffer {
 public:
  HostBuffer() = default;
  explicit HostBuffer(std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(std::malloc(bytes == 0 ? 1 : bytes))), bytes_(data_ ? bytes : 0) {}

  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_.get(); }
  std::span<const std::byte> bytes() const noexcept { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

/// A compressed bundle, as far as it has been unpacked. The image must outlive it.
class BundleUnpacker {
 public:
  struct Stream;

  BundleUnpacker() noexcept;
  ~BundleUnpacker();
  BundleUnpacker(const BundleUnpacker&) = delete;
  BundleUnpacker& operator=(const BundleUnpacker&) = delete;

  /// Reads the header; `image` may be longer than the bundle. Call it once.
  Status open(std::span<const std::byte> image) noexcept;
  /// The same for a bundle of unknown size: reads as far as its header and its stream say. The end of a zlib stream
  /// shows only when it is read. So such a stream is read ahead, but only within its last page.
  Status open(const std::byte* image) noexcept;

  /// Unpacks the first `bytes`, or a little more. If that is the whole bundle, the stream must end there. kMalformed:
  /// it does not, or it has fewer.
  Status reach(std::uint64_t bytes) noexcept;

  /// The whole bundle inside. Only what was reached may be read.
  std::span<const std::byte> bytes() const noexcept { return unpacked_.bytes(); }
  std::size_t reached() const noexcept { return reached_; }

 private:
  Status open(const std::byte* begin, const std::byte* end, std::uint16_t method, std::uint64_t bytes) noexcept;

  HostBuffer unpacked_;  ///< pages that nobody has written to take no memory
  std::unique_ptr<Stream> stream_;
  std::size_t reached_ = 0;
};

}  // namespace graphpool
