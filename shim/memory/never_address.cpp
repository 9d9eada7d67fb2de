#include "shim/memory/never_address.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shim/units.h"

namespace graphpool {

void* never_allocated_address() noexcept {
  static constinit std::atomic<void*> known{nullptr};
  void* address = known.load(std::memory_order_acquire);
  if (address != nullptr) return address;
  const int saved_errno = errno;
  address = mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  errno = saved_errno;
  // Without address space left: the last page of user space, which the kernel never maps.
  if (address == MAP_FAILED) address = reinterpret_cast<void*>((std::uintptr_t{1} << 47) - kPageBytes);
  void* expected = nullptr;
  if (known.compare_exchange_strong(expected, address)) return address;
  munmap(address, kPageBytes);
  return expected;
}

}  // namespace graphpool
