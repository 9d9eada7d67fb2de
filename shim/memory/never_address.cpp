#include "shim/memory/never_address.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shim/base/units.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

constexpr std::size_t kLargestGranularity = 2 * kMiB;

/// Several threads may make an address at the same time; the first one counts.
void* keep_first(std::atomic<void*>& known, void* address) noexcept {
  void* expected = nullptr;
  return known.compare_exchange_strong(expected, address) ? address : expected;
}

constinit std::atomic<void*> g_too_small[kMaxDevices] = {};

}  // namespace

void* never_allocated_address() noexcept {
  static constinit std::atomic<void*> known{nullptr};
  if (void* address = known.load(std::memory_order_acquire)) return address;
  const int saved_errno = errno;
  void* address = mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved_errno;
  // Without address space left: the last page of user space, which the kernel never maps.
  if (address == MAP_FAILED) address = reinterpret_cast<void*>((std::uintptr_t{1} << 47) - kPageBytes);
  return keep_first(known, address);
}

void* never_mapped_address() noexcept {
  static constinit std::atomic<void*> known{nullptr};
  if (void* address = known.load(std::memory_order_acquire)) return address;
  void* address = nullptr;
  PrivateCalls private_calls;
  if (!PrivateCalls::worked([&] { return next().hipMemAddressReserve(&address, kLargestGranularity, 0, nullptr, 0); }))
    address = never_allocated_address();
  return keep_first(known, address);
}

void* too_small_memory(int device) noexcept {
  if (!valid_device(device)) return never_mapped_address();
  if (void* address = g_too_small[device].load(std::memory_order_acquire)) return address;
  void* made = nullptr;
  {
    const PrivateCalls private_calls;
    const SavedDevice current(device);
    if (!current.ok() || !PrivateCalls::worked([&] { return next().hipMalloc(&made, 1); })) made = nullptr;
  }
  if (made == nullptr) return never_mapped_address();
  void* const kept = keep_first(g_too_small[device], made);
  if (kept != made) {
    const PrivateCalls private_calls;
    (void)PrivateCalls::gave_back([&] { return next().hipFree(made); });
  }
  return kept;
}

std::size_t too_small_bytes(int device) noexcept {
  return valid_device(device) && g_too_small[device].load(std::memory_order_relaxed) != nullptr ? kPageBytes : 0;
}

bool free_too_small_memory(int device) noexcept {
  void* const address = valid_device(device) ? g_too_small[device].exchange(nullptr) : nullptr;
  if (address == nullptr) return false;
  const PrivateCalls private_calls;
  return PrivateCalls::gave_back([&] { return next().hipFree(address); });
}

void forget_too_small_memory(int device) noexcept {
  if (valid_device(device)) g_too_small[device].store(nullptr, std::memory_order_release);
}

}  // namespace graphpool
