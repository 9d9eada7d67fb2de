// child_kind.h: has the functions for child graphs (kind_parts.h lists them). Some go through the child's operations.
#pragma once

#include <span>

#include "shim/recording/kind_parts.h"

namespace graphpool {

template <typename Visit>
void for_each_address(std::span<const Operation> operations, const Binding& binding, Visit&& visit, std::uint32_t base);
template <typename Visit>
void for_each_hidden_word(std::span<const Operation> operations, const Binding& binding, Visit&& visit,
                          std::uint32_t base);

struct ChildKind : NeverPatched, AddedOnly {
  static const char* signature_difference(const Signature&, const Signature&) noexcept { return "recording"; }
  static const char* why_not_staged(const Signature&) noexcept { return "it has child graphs"; }
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
  static bool has_type(int type) noexcept { return type == kChildType; }
  static const char* node_difference(const NodeQuestion& asked);

  template <typename Visit>
  static void for_each_address(const Operation& operation, const Binding& binding, std::uint32_t offset, Visit& visit) {
    graphpool::for_each_address(*operation.child, binding, visit, offset);
  }
  template <typename Visit>
  static void for_each_hidden_word(const Operation& operation, const Binding& binding, std::uint32_t offset,
                                   Visit& visit) {
    graphpool::for_each_hidden_word(*operation.child, binding, visit, offset);
  }
  /// Does nothing: the report tells no moved operands of child graphs.
  static void for_each_moved(const Operation&, const Binding&, const Binding&, MovedVisit) noexcept {}
  /// Does nothing: the child's operands were noted when its own recording was made.
  static void note_judged(const Signature&, const Binding&, std::uint32_t, JudgedVisit) noexcept {}

  static bool has_classes() noexcept { return false; }
  static bool takes_host_memory() noexcept { return false; }
  /// True where it has a fill of several rows: an exec may refuse another shape of that.
  static bool may_refuse_set(const Operation& operation, const Binding&, const Binding&) noexcept {
    return holds(operation, [](const Operation& each) { return fills_rows(each); });
  }
  static bool is_seen_whole(const Operation&) noexcept { return false; }
  static std::size_t argument_memory(const Operation& operation) noexcept;
  static const void* kernel(const Signature&) noexcept { return nullptr; }
};

}  // namespace graphpool
