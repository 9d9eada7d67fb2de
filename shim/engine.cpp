#include "shim/engine.h"

#include "shim/coverage.h"

namespace graphpool {

bool start_engine() noexcept {
  check_coverage();
  return true;
}

}  // namespace graphpool
