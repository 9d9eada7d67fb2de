#include "shim/graph/both_ways.h"

#include <algorithm>

#include "shim/kernel/argument_layout.h"
#include "shim/memory/pool.h"
#include "shim/next.h"

namespace graphpool {

bool may_run_both_ways(const std::vector<Operation>& operations, const Binding& binding, const StagePlan& plan) {
  for (const Operation& operation : operations) {
    switch (operation.signature.kind) {
      case OperationKind::kHost:
        return false;
      case OperationKind::kKernel: {
        if (!operation.layout->self_contained()) return false;
        bool hidden = false;
        operation.layout->for_each_value_word(
            binding.data() + operation.payload_offset + sizeof(KernelPayload),
            [&](std::size_t, std::size_t, std::uint64_t word) {
              hidden = hidden || pool().table().find(reinterpret_cast<const void*>(word)) != nullptr;
            });
        if (hidden) return false;
        break;
      }
      default:
        break;
    }
  }
  return plan.covers(operations, binding);
}

Shadows::~Shadows() {
  for (char* const shadow : shadows_)
    if (shadow != nullptr) static_cast<void>(next().hipFree(shadow));
}

hipError_t Shadows::allocate(const StagePlan& plan) {
  plan_ = &plan;
  shadows_.assign(plan.buffers(), nullptr);
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const hipError_t result = pool().retry_after_trim(
        plan.device(), [&] { return next().hipMalloc(reinterpret_cast<void**>(&shadows_[i]), plan.bytes(i)); });
    if (result != hipSuccess) {
      shadows_[i] = nullptr;
      return result;
    }
  }
  return hipSuccess;
}

hipError_t Shadows::copy_from(const std::vector<char*>& bases, hipStream_t stream) {
  for (std::size_t i = 0; i < shadows_.size(); ++i) {
    const hipError_t result =
        next().hipMemcpyAsync(shadows_[i], bases[i], plan_->bytes(i), hipMemcpyDeviceToDevice, stream);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

hipError_t Shadows::compare(const std::vector<char*>& bases, hipStream_t stream, Difference* difference) const {
  std::vector<char> real, staged;
  for (std::size_t i = 0; i < shadows_.size() && !difference->found; ++i) {
    if (!plan_->survives(i)) continue;
    const std::size_t bytes = plan_->bytes(i);
    real.resize(bytes);
    staged.resize(bytes);
    hipError_t result = next().hipMemcpyAsync(real.data(), bases[i], bytes, hipMemcpyDeviceToHost, stream);
    if (result == hipSuccess)
      result = next().hipMemcpyAsync(staged.data(), shadows_[i], bytes, hipMemcpyDeviceToHost, stream);
    const hipError_t waited = next().hipStreamSynchronize(stream);  // the host memory must not go before
    if (result == hipSuccess) result = waited;
    if (result != hipSuccess) return result;
    const auto at = std::mismatch(real.begin(), real.end(), staged.begin());
    if (at.first != real.end()) *difference = {true, i, static_cast<std::size_t>(at.first - real.begin())};
  }
  return next().hipStreamSynchronize(stream);
}

}  // namespace graphpool
