// image_reader.h: bounds-checked reads of little-endian fields from an image in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace graphpool {

/// Every read says whether it lay inside the image. Positions are 64-bit as in file formats; no sum can overflow.
class ImageReader {
 public:
  explicit ImageReader(std::span<const std::byte> image) noexcept : image_(image) {}

  std::uint64_t bytes() const noexcept { return image_.size(); }

  bool contains(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= image_.size() && bytes <= image_.size() - offset;
  }

  /// Copies: images need not be aligned.
  template <typename Field>
  bool read(std::uint64_t offset, Field* field) const noexcept {
    static_assert(std::is_trivially_copyable_v<Field>);
    if (!contains(offset, sizeof *field)) return false;
    std::memcpy(field, image_.data() + offset, sizeof *field);
    return true;
  }

  /// Empty when not inside the image.
  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    if (!contains(offset, bytes)) return {};
    return image_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  }

  std::string_view text(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const auto found = part(offset, bytes);
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }

  bool has_text(std::uint64_t offset, std::string_view text) const noexcept {
    return contains(offset, text.size()) && this->text(offset, text.size()) == text;
  }

 private:
  std::span<const std::byte> image_;
};

}  // namespace graphpool
