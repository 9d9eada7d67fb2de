#include "shim/restore.h"

#include "shim/memory/quirks.h"

namespace graphpool {
namespace {

constexpr int kKeepsErrors = 70000000;  ///< since then success does not replace the last error

}  // namespace

void LastErrorScope::owe() const noexcept {
  if (next().hipPeekAtLastError() == pending_ || runtime_version() < kKeepsErrors) return;
  static_cast<void>(next().hipGetLastError());
  t_owed_error = pending_;
}

}  // namespace graphpool
