// pointer_table.h: a map from an address to a few words that readers search without locks.
//
// Why: every captured launch asks what its function is; a lock there would cost more than the rest of the question.
// How: open addressing under one version number (a sequence lock). A reader that sees an odd version, or another one at
// its end, reads again. Arrays that became too small are kept, because a reader may still be in one. Sizes double, so
// these arrays together are smaller than the current one.
// Threads: find() and version() from any; the others one at a time, serialised by the owner. Never destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace graphpool {

class PointerTable {
 public:
  using Value = std::array<std::uint64_t, 3>;

  constexpr PointerTable() = default;

  /// False when the key is not there.
  bool find(const void* key, Value* value) const noexcept;

  /// Adds or replaces. False when memory ran out, or the key is null; then nothing changed.
  bool put(const void* key, const Value& value) noexcept;

  void erase(const void* key) noexcept;

  std::size_t size() const noexcept { return size_; }

  /// Rises with every change; odd while a change is being made. 0: nothing was ever added.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

 private:
  struct alignas(32) Cell {
    std::atomic<std::uint64_t> key;  ///< 0: empty
    std::array<std::atomic<std::uint64_t>, 3> words;
  };
  struct Array {
    Array* previous;  ///< keeps outgrown arrays reachable
    std::size_t mask;
    Cell* cells;
  };

  static std::size_t home(std::uint64_t key, std::size_t mask) noexcept {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & mask;
  }
  static bool is_set(const Cell& cell) noexcept { return cell.key.load(std::memory_order_relaxed) != 0; }
  static void set(Cell* cell, std::uint64_t key, const Value& value) noexcept;
  bool grow() noexcept;

  std::atomic<std::uint64_t> version_{0};  ///< odd while a writer is at work
  std::atomic<Array*> array_{nullptr};
  std::size_t size_ = 0;
};

}  // namespace graphpool
