// handle_table.h: makes handles of the library's own that a program holds in place of the runtime's.
//
// A handle is an address inside a reserved range that nothing else can have, so telling ours from the runtime's is one
// compare, and finding the object takes a few loads. While the range lasts, a handle is not given out again before
// kReuseAfter others were removed: use after destruction is seen instead of hitting a new object. Threads: find() takes
// no lock; add() and remove() do (rank kHandles). The table is never destroyed.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>

#include "shim/base/lock_rank.h"

namespace graphpool {

template <typename Object>
class HandleTable {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;  ///< live handles; more are the program's leak
  static constexpr std::size_t kReuseAfter = 4096;

  /// Null when the address range cannot be reserved or the table is full: the caller must do without a handle of ours.
  /// Throws std::bad_alloc.
  void* add(Object* object) {
    const LockGuard guard(lock_);
    if (base_.load(std::memory_order_relaxed) == 0) {
      void* const range = mmap(nullptr, kMost * kStride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) return nullptr;
      base_.store(reinterpret_cast<std::uintptr_t>(range), std::memory_order_release);
    }
    std::size_t index;
    if (free_.size() > kReuseAfter || used_ == kMost) {
      if (free_.empty()) return nullptr;
      index = free_.front();
      free_.pop_front();
    } else {
      index = used_;
      if (pages_[index / kPage].load(std::memory_order_relaxed) == nullptr)
        pages_[index / kPage].store(new Page{}, std::memory_order_release);
      ++used_;
    }
    slot(index).store(object, std::memory_order_release);
    return reinterpret_cast<void*>(base_.load(std::memory_order_relaxed) + index * kStride);
  }

  /// False while no handle was ever added.
  bool used() const noexcept { return base_.load(std::memory_order_acquire) != 0; }

  /// True for every handle of this table, live or not.
  bool owns(const void* handle) const noexcept {
    return reinterpret_cast<std::uintptr_t>(handle) - base_.load(std::memory_order_acquire) < kMost * kStride &&
           base_.load(std::memory_order_relaxed) != 0;
  }

  /// The live object; null when the handle is not ours or was removed.
  Object* find(const void* handle) const noexcept {
    if (!owns(handle) ||
        (reinterpret_cast<std::uintptr_t>(handle) - base_.load(std::memory_order_relaxed)) % kStride != 0)
      return nullptr;
    const std::size_t index = index_of(handle);
    Page* const page = pages_[index / kPage].load(std::memory_order_acquire);
    return page == nullptr ? nullptr : (*page)[index % kPage].load(std::memory_order_acquire);
  }

  /// Without host memory to remember it by, the handle is not given out again.
  void remove(const void* handle) noexcept {
    const LockGuard guard(lock_);
    slot(index_of(handle)).store(nullptr, std::memory_order_release);
    try {
      free_.push_back(static_cast<std::uint32_t>(index_of(handle)));
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  static constexpr std::size_t kStride = 64;  // a handle looks like the address of an object
  static constexpr std::size_t kPage = 4096;
  using Page = std::array<std::atomic<Object*>, kPage>;

  std::size_t index_of(const void* handle) const noexcept {
    return (reinterpret_cast<std::uintptr_t>(handle) - base_.load(std::memory_order_relaxed)) / kStride;
  }
  std::atomic<Object*>& slot(std::size_t index) noexcept {
    return (*pages_[index / kPage].load(std::memory_order_relaxed))[index % kPage];
  }

  std::atomic<std::uintptr_t> base_{0};
  std::array<std::atomic<Page*>, kMost / kPage> pages_{};
  RankedMutex<LockRank::kHandles> lock_;
  std::size_t used_ = 0;
  std::deque<std::uint32_t> free_;
};

}  // namespace graphpool
