// registered_memory.h: knows how much host memory the program has registered (hipHostRegister) at each address, because
// hipHostUnregister does not say. Bounded: kMost ranges; of more nothing is known. Threads: any; a short lock. Units:
// bytes.
#pragma once

#include <cstddef>

#include "shim/base/short_lock.h"

namespace graphpool {

class RegisteredMemory {
 public:
  constexpr RegisteredMemory() = default;

  void add(const void* address, std::size_t bytes) noexcept {
    const LockGuard guard(lock_);
    Range* const to = find(nullptr);
    if (to != nullptr) *to = {address, bytes};
  }
  void remove(const void* address) noexcept {
    const LockGuard guard(lock_);
    Range* const known = find(address);
    if (known != nullptr) known->address = nullptr;
  }
  /// 0: not known.
  std::size_t bytes_at(const void* address) noexcept {
    const LockGuard guard(lock_);
    const Range* const known = address == nullptr ? nullptr : find(address);
    return known == nullptr ? 0 : known->bytes;
  }

 private:
  static constexpr std::size_t kMost = 256;
  struct Range {
    const void* address;
    std::size_t bytes;
  };

  /// The range that begins at the address, or null. A null address finds a free place.
  Range* find(const void* address) noexcept REQUIRES(lock_) {
    for (Range& each : ranges_)
      if (each.address == address) return &each;
    return nullptr;
  }

  ShortLock<LockRank::kReport> lock_;
  Range ranges_[kMost] GUARDED_BY(lock_){};
};

inline constinit RegisteredMemory g_registered_memory;

}  // namespace graphpool
