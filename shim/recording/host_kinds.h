// host_kinds.h: has the functions for host functions and for empty nodes (kind_parts.h lists them).
#pragma once

#include "shim/recording/kind_parts.h"

namespace graphpool {

struct HostKind : WithoutOperands, WithoutKernel, NeverPatched, TakesEveryPayload {
  static const char* signature_difference(const Signature&, const Signature&) noexcept { return "function"; }
  static const char* why_not_staged(const Signature&) noexcept { return "it has host operations"; }
  static hipError_t issue(const Signature& signature, std::uint32_t offset, const ArgumentLayout*,
                          const Binding& binding, hipStream_t stream);
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  static hipError_t patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node);
  static bool has_type(int type) noexcept { return type == kHostType; }
  static const char* node_difference(const NodeQuestion& asked);
  static bool is_seen_whole(const Operation&) noexcept { return false; }
};

struct EmptyKind : WithoutOperands, WithoutKernel, NeverPatched, TakesEveryPayload, AddedOnly {
  static const char* signature_difference(const Signature& own, const Signature& recorded) noexcept {
    return operand_difference(own, recorded);
  }
  static const char* why_not_staged(const Signature&) noexcept { return nullptr; }
  static hipError_t add(const Operation& operation, const Binding& binding, const NewNode& place);
  /// Refuses: an empty node has nothing to set.
  static hipError_t patch(const Operation&, const Binding&, hipGraphExec_t, hipGraphNode_t) noexcept {
    return hipErrorInvalidValue;
  }
  static bool has_type(int type) noexcept { return type == kEmptyType; }
  static const char* node_difference(const NodeQuestion&) noexcept { return nullptr; }
  static bool is_seen_whole(const Operation&) noexcept { return true; }
};

}  // namespace graphpool
