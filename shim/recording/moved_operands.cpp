#include "shim/recording/moved_operands.h"

#include <cstring>

#include "shim/memory/device_memory.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {

void MovedOperands::note(const std::vector<Operation>& operations, const Binding& binding) {
  if (last_.size() != binding.size() || binding.empty()) {
    last_ = binding;
    return;
  }
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const std::uint32_t offset = operation.payload_offset;
    if (std::memcmp(last_.data() + offset, binding.data() + offset, operation.signature.payload_bytes) == 0) continue;
    const auto note_moved = [&](std::uint32_t argument, std::uint64_t address) { moved(i, argument, address); };
    with_kind(operation.signature.kind, [&](auto kind) { kind.for_each_moved(operation, last_, binding, note_moved); });
  }
  std::memcpy(last_.data(), binding.data(), binding.size());
}

void MovedOperands::moved(std::uint32_t operation, std::uint32_t argument, std::uint64_t address) {
  MovedOperand* found = nullptr;
  for (MovedOperand& operand : operands_)
    if (operand.operation == operation && operand.argument == argument) found = &operand;
  if (found == nullptr) {
    if (operands_.size() == kMost) {
      ++others_;
      return;
    }
    found = &operands_.emplace_back(MovedOperand{operation, argument});
  }
  ++found->times;
  const Block* const block = block_table().find(reinterpret_cast<const void*>(address));
  found->call_site = block == nullptr ? 0u : block->call_site;
  found->rule = block == nullptr ? 0u : block->rule;
}

}  // namespace graphpool
