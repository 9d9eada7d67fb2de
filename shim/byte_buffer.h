// byte_buffer.h: a growing row of bytes, like a vector of them, but for one thing: what it grows by is not set.
//
// Why: a captured call adds its payload, writes all of it, and would write it twice. Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

namespace graphpool {

class ByteBuffer {
 public:
  using value_type = std::byte;

  ByteBuffer() noexcept = default;
  explicit ByteBuffer(std::size_t size) { resize(size); }
  ByteBuffer(const std::byte* first, const std::byte* last) { append(first, last); }
  ByteBuffer(const ByteBuffer& other) : ByteBuffer(other.begin(), other.end()) {}
  ByteBuffer(ByteBuffer&& other) noexcept { swap(other); }
  ByteBuffer& operator=(const ByteBuffer& other) {
    if (this == &other) return *this;
    if (capacity_ < other.size_) {
      ByteBuffer(other).swap(*this);
      return *this;
    }
    size_ = 0;
    append(other.begin(), other.end());
    return *this;
  }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    ByteBuffer(std::move(other)).swap(*this);
    return *this;
  }
  void swap(ByteBuffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::byte* data() noexcept { return bytes_.get(); }
  const std::byte* data() const noexcept { return bytes_.get(); }
  const std::byte* begin() const noexcept { return data(); }
  const std::byte* end() const noexcept { return data() + size_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }

  /// Throws std::bad_alloc; then nothing is changed.
  void resize(std::size_t size) {
    if (size > capacity_) [[unlikely]]
      reserve(std::max(size, 2 * capacity_));
    size_ = size;
  }
  /// resize() to no less than it has; data().
  std::byte* grow(std::size_t size) {
    resize(size);
    return data();
  }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    std::unique_ptr<std::byte[]> grown(new std::byte[capacity]);
    if (size_ != 0) std::memcpy(grown.get(), bytes_.get(), size_);
    bytes_ = std::move(grown);
    capacity_ = capacity;
  }
  /// Pre-condition: not bytes of its own.
  void append(const std::byte* first, const std::byte* last) {
    if (first == last) return;
    const std::size_t at = size_;
    resize(at + static_cast<std::size_t>(last - first));
    std::memcpy(bytes_.get() + at, first, static_cast<std::size_t>(last - first));
  }

  friend bool operator==(const ByteBuffer& a, const ByteBuffer& b) noexcept {
    return a.size_ == b.size_ && (a.size_ == 0 || std::memcmp(a.data(), b.data(), a.size_) == 0);
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace graphpool
