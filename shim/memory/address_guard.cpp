#include "shim/memory/address_guard.h"

#include "shim/hip/restore.h"
#include "shim/memory/never_address.h"

namespace graphpool {
namespace {

/// Memory that is too small does not refuse one byte.
void* refused_operand(int device, std::size_t bytes) noexcept {
  return bytes > 1 ? too_small_memory(device) : never_mapped_address();
}

}  // namespace

void* AddressGuard::refused() noexcept { return never_allocated_address(); }

void* AddressGuard::refused_value() noexcept { return never_mapped_address(); }

void* AddressGuard::checked(const void* ptr, std::size_t bytes) const noexcept {
  void* const same = const_cast<void*>(ptr);
  const Block* const block = table_.find(ptr);
  if (block == nullptr)
    return bytes != 0 && chunks_.between_parts(ptr) ? refused_operand(calling_device(), bytes) : same;
  if (!block->live()) return refused_operand(block->device, bytes);
  const auto offset = reinterpret_cast<std::uintptr_t>(ptr) - block->address();
  const bool leaves = block->backing == BlockBacking::kVmm && bytes > block->bytes() - offset;
  return leaves ? refused_operand(block->device, bytes) : same;
}

}  // namespace graphpool
