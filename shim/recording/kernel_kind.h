// kernel_kind.h: has the functions for launches of kernels (kind_parts.h lists them).
#pragma once

#include "shim/kernel/argument_layout.h"
#include "shim/recording/kind_parts.h"

namespace graphpool {

struct KernelKind : TakesEveryPayload {
  static const char* signature_difference(const Signature& own, const Signature& recorded) noexcept;
  static const char* why_not_staged(const Signature&) noexcept { return nullptr; }
  static hipError_t issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                          const Binding& binding, hipStream_t stream);
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
  /// Sets the node in a graph, not in an exec. False: nobody knows what the graph does any more.
  static bool set_in_graph(const Operation& operation, const Binding& binding, hipGraphNode_t node);
  static bool has_type(int type) noexcept { return type == kKernelType; }
  static const char* node_difference(const NodeQuestion& asked);

  template <typename Visit>
  static void for_each_address(const Operation& operation, const Binding& binding, std::uint32_t offset, Visit& visit) {
    const std::uint32_t segment = offset + static_cast<std::uint32_t>(sizeof(KernelPayload));
    operation.layout->for_each_pointer(binding.data() + segment,
                                       [&](std::size_t, std::size_t place, std::uint64_t address) {
                                         visit(segment + static_cast<std::uint32_t>(place), address, true);
                                       });
  }
  template <typename Visit>
  static void for_each_hidden_word(const Operation& operation, const Binding& binding, std::uint32_t offset,
                                   Visit& visit) {
    const std::uint32_t segment = offset + static_cast<std::uint32_t>(sizeof(KernelPayload));
    operation.layout->for_each_value_word(binding.data() + segment,
                                          [&](std::size_t, std::size_t place, std::uint64_t word) {
                                            visit(segment + static_cast<std::uint32_t>(place), word);
                                          });
  }
  static void for_each_moved(const Operation& operation, const Binding& before, const Binding& now, MovedVisit visit);
  static void note_judged(const Signature&, const Binding&, std::uint32_t, JudgedVisit) noexcept {}

  static bool has_classes() noexcept { return false; }
  static bool takes_host_memory() noexcept { return false; }

  static NodeClass node_class(const Signature&) noexcept { return NodeClass::kKernel; }
  static bool is_seen_whole(const Operation& operation) noexcept { return operation.layout->self_contained(); }
  static std::size_t argument_memory(const Operation& operation) noexcept;
  static const void* kernel(const Signature& signature) noexcept {
    return reinterpret_cast<const void*>(signature.object);
  }
};

}  // namespace graphpool
