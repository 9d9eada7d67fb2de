#include "shim/memory/kept_limits.h"

#include "shim/hip/next.h"
#include "shim/hip/restore.h"

namespace graphpool {

void KeptLimits::configure(std::size_t bytes, unsigned percent) noexcept {
  bytes_ = bytes;
  percent_ = percent;
  for (std::atomic<std::size_t>& limit : limits_) limit.store(kUnknown, std::memory_order_relaxed);
}

std::size_t KeptLimits::find_limit(int device) noexcept {
  std::size_t limit = bytes_;
  if (limit == 0) {
    std::size_t total = 0;
    if (!PrivateCalls::worked([&] { return next().hipDeviceTotalMem(&total, device); })) return 0;
    limit = total / 100 * percent_;
  }
  limits_[static_cast<std::size_t>(device)].store(limit, std::memory_order_relaxed);
  return limit;
}

}  // namespace graphpool
