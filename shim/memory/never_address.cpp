#include "shim/memory/never_address.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shim/restore.h"
#include "shim/units.h"

namespace graphpool {
namespace {

constexpr std::size_t kLargestGranularity = 2 * kMiB;

/// Several threads may make it at the same time; the first one counts.
void* keep_first(std::atomic<void*>& known, void* address) noexcept {
  void* expected = nullptr;
  return known.compare_exchange_strong(expected, address) ? address : expected;
}

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

}  // namespace graphpool
