#include "shim/hip/restore.h"

#include "shim/hip/quirks.h"

namespace graphpool {

hipError_t pending_error() noexcept {
  return runtime_version() < kKeepsErrors ? hipSuccess : next().hipPeekAtLastError();
}

void clear_error(hipError_t pending) noexcept {
  static_cast<void>(next().hipGetLastError());
  if (pending != hipSuccess) t_owed_error = pending;
}

void LastErrorScope::owe() const noexcept {
  if (next().hipPeekAtLastError() == pending_ || runtime_version() < kKeepsErrors) return;
  clear_error(pending_);
}

}  // namespace graphpool
