#include "shim/recording/moved_operands.h"

#include <cstring>

#include "shim/kernel/argument_layout.h"
#include "shim/memory/pool.h"

namespace graphpool {

void MovedOperands::note(const std::vector<Operation>& operations, const Binding& binding) {
  if (last_.size() != binding.size() || binding.empty()) {
    last_ = binding;
    return;
  }
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const std::uint32_t at = operation.payload_offset;
    if (std::memcmp(last_.data() + at, binding.data() + at, operation.signature.payload_bytes) == 0) continue;
    const auto compare = [&](std::uint32_t argument, std::uint64_t before, std::uint64_t now) {
      if (before != now) moved(i, argument, now);
    };
    switch (operation.signature.kind) {
      case OperationKind::kKernel: {
        const std::size_t segment = at + sizeof(KernelPayload);
        const auto compare_at = [&](std::size_t argument, std::size_t offset, std::uint64_t now) {
          std::uint64_t before;
          std::memcpy(&before, last_.data() + segment + offset, sizeof before);
          compare(static_cast<std::uint32_t>(argument), before, now);
        };
        operation.layout->for_each_pointer(binding.data() + segment, compare_at);
        operation.layout->for_each_value_word(
            binding.data() + segment, [&](std::size_t argument, std::size_t offset, std::uint64_t now) {
              const bool address = operation.layout->arguments()[argument].kind == ArgumentKind::kUnknown &&
                                   pool().table().find(reinterpret_cast<const void*>(now)) != nullptr;
              if (address) compare_at(argument, offset, now);
            });
        break;
      }
      case OperationKind::kCopy:
      case OperationKind::kCopy2D: {
        const auto& before = payload_at<CopyPayload>(last_, at);
        const auto& now = payload_at<CopyPayload>(binding, at);
        compare(0, before.dst, now.dst);
        compare(1, before.src, now.src);
        break;
      }
      case OperationKind::kCopy3D: {
        const auto& before = payload_at<Copy3DPayload>(last_, at).params;
        const auto& now = payload_at<Copy3DPayload>(binding, at).params;
        const auto address = [](const hipPitchedPtr& side) { return reinterpret_cast<std::uint64_t>(side.ptr); };
        compare(0, address(before.dstPtr), address(now.dstPtr));
        compare(1, address(before.srcPtr), address(now.srcPtr));
        break;
      }
      case OperationKind::kFill:
        compare(0, payload_at<FillPayload>(last_, at).dst, payload_at<FillPayload>(binding, at).dst);
        break;
      default:
        break;
    }
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
  const Block* const block = pool().table().find(reinterpret_cast<const void*>(address));
  found->call_site = block == nullptr ? 0u : block->call_site;
  found->rule = block == nullptr ? 0u : block->rule;
}

}  // namespace graphpool
