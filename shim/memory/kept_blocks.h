// kept_blocks.h: has the kept blocks of one key in rising address order.
//
// Why: the lowest address is handed out first, and programs free in the order in which they allocated, or in the
// reverse order. So both ends cost a few instructions. A block that belongs in the middle moves the blocks of the
// shorter side, at about 1 ns each.
// Invariant: addresses rise strictly. Threads: as a vector. Units: blocks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace graphpool {

struct Block;

struct KeptBlock {
  std::uintptr_t address;
  Block* block;
};

class KeptBlocks {
 public:
  /// Makes room for so many. Throws std::bad_alloc; then nothing is changed.
  void reserve(std::size_t blocks) {
    if (blocks <= ring_.size()) return;
    std::vector<KeptBlock> larger(std::bit_ceil(blocks));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    ring_.swap(larger);
    first_ = 0;
  }
  std::size_t capacity() const noexcept { return ring_.size(); }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  /// The i-th block by address. Pre-condition: i < size().
  const KeptBlock& operator[](std::size_t i) const noexcept { return ring_[(first_ + i) & (ring_.size() - 1)]; }
  Block* lowest() const noexcept { return ring_[first_].block; }

  /// Pre-condition: size() < capacity(), and no block has this address.
  void add(std::uintptr_t address, Block* block) noexcept {
    std::size_t place = size_;
    if (size_ != 0 && address < (*this)[size_ - 1].address) place = address < (*this)[0].address ? 0 : find(address);
    if (place < size_ - place) {
      first_ = (first_ - 1) & (ring_.size() - 1);
      for (std::size_t i = 0; i < place; ++i) nth(i) = nth(i + 1);
    } else {
      for (std::size_t i = size_; i > place; --i) nth(i) = nth(i - 1);
    }
    nth(place) = {address, block};
    ++size_;
  }

  void remove_lowest() noexcept {
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
  }

  /// Pre-condition: it is there.
  void remove(std::uintptr_t address) noexcept {
    const std::size_t place = find(address);
    if (place < size_ - place - 1) {
      for (std::size_t i = place; i > 0; --i) nth(i) = nth(i - 1);
      first_ = (first_ + 1) & (ring_.size() - 1);
    } else {
      for (std::size_t i = place; i + 1 < size_; ++i) nth(i) = nth(i + 1);
    }
    --size_;
  }

 private:
  KeptBlock& nth(std::size_t i) noexcept { return ring_[(first_ + i) & (ring_.size() - 1)]; }

  /// The place of the first block that does not come before this address.
  std::size_t find(std::uintptr_t address) const noexcept {
    std::size_t low = 0, high = size_;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if ((*this)[middle].address < address)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }

  std::vector<KeptBlock> ring_;  ///< a power of two, or nothing
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace graphpool
