#include "shim/capture/operand.h"

namespace graphpool {

std::uint64_t operand_class(const void* address, std::size_t) noexcept {
  return reinterpret_cast<std::uint64_t>(address);
}

}  // namespace graphpool
