#include "shim/verify/bounded_wait.h"

#include "shim/base/back_off.h"
#include "shim/hip/restore.h"

namespace graphpool {

bool wait_for(Fence* fence) {
  if (fence == nullptr) return false;
  const PrivateCalls private_calls;
  BackOff wait(kLongestVerifyWait);
  bool passed = fences().passed(fence);
  while (!passed && wait.again()) passed = fences().passed(fence);
  fences().release(fence);
  return passed;
}

bool wait_until_idle(int device) {
  return work_counts().is_idle(device) || (wait_for(fences().make(device)) && work_counts().is_idle(device));
}

void BoundedShadows::drop() noexcept {
  if (!bases().empty() && !work_counts().is_idle(device_) && !wait_for(fences().make(device_))) leave();
  Shadows::drop();
}

}  // namespace graphpool
