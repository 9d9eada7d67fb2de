#include "shim/capture/operand.h"

#include "shim/memory/pool.h"

namespace graphpool {

std::uint64_t operand_class(const void* address, std::size_t bytes) noexcept {
  constexpr std::uint64_t kKnown = std::uint64_t{1} << 63;  // no address of a process has this bit
  const auto first = reinterpret_cast<std::uint64_t>(address);
  const Block* const block = pool().table().find(address);
  if (block == nullptr || !block->live() || block->kind != MemoryKind::kDevice) return first;
  const std::uint64_t end = block->address() + block->bytes();
  if (bytes > end - first) return first;
  return kKnown | static_cast<std::uint64_t>(block->device);
}

}  // namespace graphpool
