#include "shim/verify/bounded_wait.h"

#include "shim/base/back_off.h"
#include "shim/hip/restore.h"

namespace graphpool {

bool wait_for(Fence* fence) {
  if (fence == nullptr) return false;
  const PrivateCalls private_calls;
  BackOff wait(kLongestVerifyWait);
  bool passed = stream_work().passed(fence);
  while (!passed && wait.again()) passed = stream_work().passed(fence);
  stream_work().release(fence);
  return passed;
}

bool wait_until_idle(int device) {
  return stream_work().is_idle(device) || (wait_for(stream_work().make_fence(device)) && stream_work().is_idle(device));
}

void BoundedShadows::drop() noexcept {
  if (!bases().empty() && !stream_work().is_idle(device_) && !wait_for(stream_work().make_fence(device_))) leave();
  Shadows::drop();
}

}  // namespace graphpool
