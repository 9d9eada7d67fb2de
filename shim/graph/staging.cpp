#include "shim/graph/staging.h"

#include <algorithm>
#include <cstddef>

#include "policy/policy.h"
#include "shim/buffer_rules.h"
#include "shim/capture/signature_bits.h"
#include "shim/kernel/argument_layout.h"
#include "shim/memory/pool.h"
#include "shim/next.h"

namespace graphpool {
namespace {

/// Calls visit(place in the binding, address) for every operand that is a device address.
template <typename Visit>
void for_each_address(const std::vector<Operation>& operations, const Binding& binding, Visit&& visit) {
  for (const Operation& operation : operations) {
    const std::uint32_t at = operation.payload_offset;
    switch (operation.signature.kind) {
      case OperationKind::kKernel: {
        const std::uint32_t segment = at + static_cast<std::uint32_t>(sizeof(KernelPayload));
        operation.layout->for_each_pointer(binding.data() + segment,
                                           [&](std::size_t, std::size_t offset, std::uint64_t address) {
                                             visit(segment + static_cast<std::uint32_t>(offset), address);
                                           });
        break;
      }
      case OperationKind::kCopy:
      case OperationKind::kCopy2D: {
        const auto& copy = payload_at<CopyPayload>(binding, at);
        visit(at + static_cast<std::uint32_t>(offsetof(CopyPayload, dst)), copy.dst);
        visit(at + static_cast<std::uint32_t>(offsetof(CopyPayload, src)), copy.src);
        break;
      }
      case OperationKind::kCopy3D: {
        const hipMemcpy3DParms& params = payload_at<Copy3DPayload>(binding, at).params;
        const auto visit_pointer = [&](std::size_t place, const hipPitchedPtr& operand) {
          visit(at + static_cast<std::uint32_t>(place + offsetof(hipPitchedPtr, ptr)),
                reinterpret_cast<std::uint64_t>(operand.ptr));
        };
        visit_pointer(offsetof(hipMemcpy3DParms, dstPtr), params.dstPtr);
        visit_pointer(offsetof(hipMemcpy3DParms, srcPtr), params.srcPtr);
        break;
      }
      case OperationKind::kFill:
        visit(at + static_cast<std::uint32_t>(offsetof(FillPayload, dst)), payload_at<FillPayload>(binding, at).dst);
        break;
      default:
        break;
    }
  }
}

/// The live block an address lies in, when its rule stages it.
const Block* staged_block(std::uint64_t address) {
  const Block* const block = pool().table().find(reinterpret_cast<const void*>(address));
  if (block == nullptr || !block->live() || block->kind != MemoryKind::kDevice) return nullptr;
  const BufferRule* const rule = rule_of(*block);
  return rule != nullptr && rule->stage == Stage::kAlways ? block : nullptr;
}

StagePlan::Buffer buffer_by_rule(std::size_t bytes, const BufferRule& rule) {
  StagePlan::Buffer buffer;
  buffer.bytes = bytes;
  const bool writes = rule.role == Role::kInOut || rule.role == Role::kOut;
  buffer.copy_in = rule.role == Role::kIn || rule.role == Role::kInOut || (rule.role == Role::kOut && !rule.full);
  buffer.copy_out = writes;
  buffer.out_offset = std::min<std::size_t>(rule.range.offset_bytes, bytes);
  const std::size_t rest = bytes - buffer.out_offset;
  buffer.out_bytes = rule.range.length_bytes == 0 ? rest : std::min<std::size_t>(rule.range.length_bytes, rest);
  return buffer;
}

hipError_t copy(void* dst, const void* src, std::size_t bytes, hipStream_t stream) {
  return next().hipMemcpyAsync(dst, src, bytes, hipMemcpyDeviceToDevice, stream);
}

}  // namespace

std::unique_ptr<StagePlan> StagePlan::make(const std::vector<Operation>& operations, const Binding& binding) {
  const int device = node_device_of(operations.front().signature);
  for (const Operation& operation : operations) {
    const Signature& signature = operation.signature;
    if (signature.kind == OperationKind::kHost ||
        (signature.kind == OperationKind::kWait && signature.event == kExternalEvent))
      return nullptr;
    if (makes_node(signature.kind) && node_device_of(signature) != device) return nullptr;
  }
  auto plan = std::make_unique<StagePlan>();
  plan->device_ = device;
  std::vector<const Block*> blocks;
  bool one_device = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address) {
    const Block* const block = staged_block(address);
    if (block == nullptr) return;
    one_device = one_device && block->device == device;
    auto found = std::find(blocks.begin(), blocks.end(), block);
    if (found == blocks.end()) {
      plan->buffers_.push_back(buffer_by_rule(block->bytes(), *rule_of(*block)));
      blocks.push_back(block);
      found = blocks.end() - 1;
    }
    plan->words_.push_back({place, static_cast<std::uint32_t>(found - blocks.begin()), address - block->address()});
  });
  return plan->buffers_.empty() || !one_device ? nullptr : std::move(plan);
}

bool StagePlan::locate(const std::vector<Operation>& operations, const Binding& binding,
                       std::vector<char*>* bases) const {
  bases->assign(buffers_.size(), nullptr);
  std::vector<const Block*> blocks(buffers_.size(), nullptr);
  auto word = words_.begin();
  bool fits = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address) {
    const Block* const block = staged_block(address);
    if (word == words_.end() || word->place != place) {
      fits = fits && block == nullptr;  // an operand that was not staged must not be now
      return;
    }
    const Word& expected = *word++;
    if (block == nullptr || address - block->address() != expected.offset ||
        block->bytes() != buffers_[expected.buffer].bytes || block->device != device_ ||
        (blocks[expected.buffer] != nullptr && blocks[expected.buffer] != block)) {
      fits = false;
      return;
    }
    blocks[expected.buffer] = block;
    (*bases)[expected.buffer] = static_cast<char*>(block->pointer());
  });
  // Two buffers that were apart must be apart.
  std::sort(blocks.begin(), blocks.end());
  return fits && word == words_.end() && std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end();
}

bool StagePlan::covers(const std::vector<Operation>& operations, const Binding& binding) const {
  auto word = words_.begin();
  bool covered = true;
  for_each_address(operations, binding, [&](std::uint32_t place, std::uint64_t address) {
    if (word != words_.end() && word->place == place)
      ++word;
    else
      covered = covered && address == 0;
  });
  return covered;
}

Binding StagePlan::translated(const Binding& binding, const SlotSet& slots) const {
  Binding moved = binding;
  for (const Word& word : words_) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(slots.address(word.buffer)) + word.offset;
    std::memcpy(moved.data() + word.place, &address, sizeof address);
  }
  return moved;
}

hipError_t StagePlan::make_slots(std::unique_ptr<SlotSet>* slots) const {
  std::vector<SlotRequest> requests;
  for (const Buffer& buffer : buffers_) requests.push_back({buffer.bytes, device_});
  return SlotSet::create(requests, false, slots);
}

hipError_t StagePlan::copy_in(const std::vector<char*>& bases, const SlotSet& slots, hipStream_t stream,
                              std::uint64_t* bytes) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].copy_in) continue;
    const hipError_t result = copy(slots.address(i), bases[i], buffers_[i].bytes, stream);
    if (result != hipSuccess) return result;
    *bytes += buffers_[i].bytes;
  }
  return hipSuccess;
}

hipError_t StagePlan::copy_out(const std::vector<char*>& bases, const SlotSet& slots, hipStream_t stream,
                               std::uint64_t* bytes) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = buffers_[i];
    if (!buffer.copy_out || buffer.out_bytes == 0) continue;
    const hipError_t result = copy(bases[i] + buffer.out_offset,
                                   static_cast<char*>(slots.address(i)) + buffer.out_offset, buffer.out_bytes, stream);
    if (result != hipSuccess) return result;
    *bytes += buffer.out_bytes;
  }
  return hipSuccess;
}

}  // namespace graphpool
