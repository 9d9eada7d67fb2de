// unwinder.h: collects the return addresses of the calling thread, by libunwind.
//
// Why opened and not linked: libunwind.so exports _Unwind_*; in a preloaded library those would take the place of the
// host's own. So it is opened privately, and only when a rule or the report asks for call sites. Why unw_backtrace: a
// step-by-step walk costs twenty times as much.
// Threads: open() and unwind() from any thread. Not from a signal handler. Hold no lock.
// Limits: a stack deeper than kMaxFrames is cut at its outer end; code without unwind tables ends it early, unnoticed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/base/status.h"

namespace graphpool {

/// Where an object lies in memory: [begin, end).
struct AddressRange {
  std::uintptr_t begin = 0, end = 0;

  bool contains(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
};

/// From the first loaded segment to the last of the object that holds an address; empty when there is none.
AddressRange object_around(const void* address) noexcept;

struct Backtrace {
  static constexpr std::size_t kMaxFrames = 128;

  std::array<std::uintptr_t, kMaxFrames> addresses;  ///< innermost first
  std::size_t count = 0;
  bool whole = true;  ///< false: cut at the outer end
};

class Unwinder {
 public:
  constexpr Unwinder() = default;

  /// Frames inside `own` are left out of every stack. kNotFound: no libunwind; then every stack is empty.
  Status open(AddressRange own, const char* library = "libunwind.so.8") noexcept;

  bool ready() const noexcept { return backtrace_.load(std::memory_order_acquire) != nullptr; }

  /// The caller's stack.
  void unwind(Backtrace* stack) const noexcept NOT_CHECKED;  // it reads own_ behind backtrace_

 private:
  using Function = int(void**, int);

  std::atomic<Function*> backtrace_{nullptr};
  RankedMutex<LockRank::kCallSites> lock_;
  AddressRange own_ GUARDED_BY(lock_);  ///< written once, before backtrace_; read without the lock from then on
};

}  // namespace graphpool
