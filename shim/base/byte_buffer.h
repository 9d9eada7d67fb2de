// byte_buffer.h: keeps a growing row of bytes, like a vector. Two things differ: new bytes are not initialised, and
// copies share their bytes until one copy is to be written.
//
// Why: a captured call writes all of the payload that it adds, so bytes set before would be written twice. A binding
// goes from a capture to its graph and its exec, and none of them writes it. Threads: as a vector; different threads
// may use different copies.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace graphpool {

class ByteBuffer {
 public:
  using value_type = std::byte;

  ByteBuffer() noexcept = default;
  explicit ByteBuffer(std::size_t size) { resize(size); }
  ByteBuffer(const std::byte* first, const std::byte* last) { append(first, last); }
  ByteBuffer(const ByteBuffer& other) noexcept : bytes_(other.bytes_), size_(other.size_) {
    if (bytes_ != nullptr) bytes_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  ByteBuffer(ByteBuffer&& other) noexcept { swap(other); }
  ByteBuffer& operator=(const ByteBuffer& other) noexcept {
    ByteBuffer(other).swap(*this);
    return *this;
  }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    ByteBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~ByteBuffer() { let_go(bytes_); }
  void swap(ByteBuffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
  }

  /// Returns the bytes for writing; first copies them if they are shared. Throws std::bad_alloc; then nothing is
  /// changed.
  std::byte* data() {
    if (!own()) [[unlikely]]
      move_to(capacity());
    return bytes_ == nullptr ? nullptr : bytes_->begin();
  }
  const std::byte* data() const noexcept { return bytes_ == nullptr ? nullptr : bytes_->begin(); }
  const std::byte* begin() const noexcept { return data(); }
  const std::byte* end() const noexcept { return data() + size_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return bytes_ == nullptr ? 0 : bytes_->capacity; }
  bool empty() const noexcept { return size_ == 0; }

  /// Throws std::bad_alloc; then nothing is changed.
  void resize(std::size_t size) {
    if (size > size_)
      static_cast<void>(grow(size));
    else
      size_ = size;
  }
  /// Does resize() and data() in one. Pre-condition: `size` is not below size().
  [[gnu::always_inline]] std::byte* grow(std::size_t size) {
    if (std::byte* const there = grow_in_place(size)) [[likely]]
      return there;
    move_to_grow(size);
    size_ = size;
    return bytes_->begin();
  }
  /// Does the same where that takes no other memory. Else returns null and does nothing.
  [[gnu::always_inline]] std::byte* grow_in_place(std::size_t size) noexcept {
    if (bytes_ == nullptr || size > bytes_->capacity || !own()) [[unlikely]]
      return nullptr;
    size_ = size;
    return bytes_->begin();
  }
  void reserve(std::size_t capacity) {
    if (capacity > this->capacity()) move_to(capacity);
  }
  /// Pre-condition: the bytes are not this buffer's own.
  void append(const std::byte* first, const std::byte* last) {
    if (first == last) return;
    const std::size_t old_size = size_, bytes = static_cast<std::size_t>(last - first);
    std::memcpy(grow(old_size + bytes) + old_size, first, bytes);
  }

  friend bool operator==(const ByteBuffer& a, const ByteBuffer& b) noexcept {
    return a.size_ == b.size_ &&
           (a.size_ == 0 || a.bytes_ == b.bytes_ || std::memcmp(a.data(), b.data(), a.size_) == 0);
  }

 private:
  /// Stands before the bytes.
  struct alignas(16) Shared {
    std::atomic<std::uint32_t> holders{1};
    std::size_t capacity;

    std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  };

  bool own() const noexcept { return bytes_ == nullptr || bytes_->holders.load(std::memory_order_acquire) == 1; }

  static void let_go(Shared* bytes) noexcept {
    if (bytes == nullptr) return;
    if (bytes->holders.load(std::memory_order_acquire) == 1 || bytes->holders.fetch_sub(1) == 1)
      ::operator delete(bytes);
  }

  [[gnu::noinline]] void move_to_grow(std::size_t size) {
    move_to(size > capacity() ? std::max(size, 2 * capacity()) : capacity());
  }
  /// Moves the contents to bytes of this buffer alone, with room for `capacity`.
  void move_to(std::size_t capacity) {
    auto* const own = new (::operator new(sizeof(Shared) + capacity)) Shared{.capacity = capacity};
    if (size_ != 0) std::memcpy(own->begin(), bytes_->begin(), size_);
    let_go(std::exchange(bytes_, own));
  }

  Shared* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace graphpool
