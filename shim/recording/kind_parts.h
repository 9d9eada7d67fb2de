// kind_parts.h: what the classes of operation_kinds.def have in common, and those of kinds that make no node.
//
// A class has these static functions, all of which with_kind() (operation_functions.h) needs:
//   signature_difference  what of a signature is not as recorded, where kind, device, stream and thread are
//   why_not_staged        why a graph with this operation may not work on other memory than the program's; null: it may
//   issue                 makes the call that a program would make to capture or run it
//   add                   adds its node to a graph
//   patch                 gives its node in an exec the payload of a binding
//   has_type              whether nodes of it have a type; types are counted from that of kernels
//   node_difference       what of a node's parameters differs from the operation; null: nothing that the runtime tells
//   for_each_address      visits (place in the binding, address, whether it may write there) of each operand that is
//   one for_each_hidden_word  visits (place in the binding, word) of each word that may be an address, or not
//   for_each_moved        visits (argument, address) of each operand that had another address in the other binding
//   note_judged           visits (class of the operand, bytes) of each operand that has a class (operand.h)
//   node_class            the row of patch_table.h
//   has_classes           whether the classes of its signature are those of memory operands (operand.h)
//   takes_host_memory     whether an operand may be memory of the host
//   may_refuse_set        whether the runtime may refuse to set its node to another payload of the same signature
//   is_seen_whole         whether verify knows all that it reads and writes
//   argument_memory       device memory that its node has for arguments, in bytes
//   kernel                the handle of the kernel that it launches, or null
// Where a kind has nothing to do it says so by a base of this file: that is a decision, not something forgotten.
// Errors: HIP's. Threads: any. Units: bytes.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/recording/operand.h"
#include "shim/recording/operation.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {

/// Where a node is added: behind these. *node: the node that was made.
struct NewNode {
  hipGraph_t graph;
  const std::vector<hipGraphNode_t>& after;
  hipGraphNode_t* node;
};

/// A node that is compared with its operation. `inside`: NodesInside of a child graph (node_check.h); null: not known.
/// *argument: which argument of a kernel differs, when it is one.
struct NodeQuestion {
  hipGraphNode_t node;
  const Operation& operation;
  const Binding& binding;
  std::size_t* argument;
  const std::vector<hipGraphNode_t>* inside;
};

/// Types of nodes, counted from that of kernels (node_check.cpp).
enum NodeTypeNumber : int { kKernelType, kMemcpyType, kMemsetType, kHostType, kChildType, kEmptyType };

using JudgedVisit = FunctionRef<void(std::uint64_t operand_class, std::uint64_t bytes)>;
using MovedVisit = FunctionRef<void(std::uint32_t argument, std::uint64_t address)>;

inline void* pointer_of(std::uint64_t address) noexcept { return reinterpret_cast<void*>(address); }
inline hipMemcpyKind copy_kind_of(const Signature& signature) noexcept {
  return static_cast<hipMemcpyKind>(signature.validity & 0xff);
}

/// Whether a copy or fill is of one row, not empty, of known memory, and not of equal operands (rule 28).
inline bool is_plain(const Signature& signature) noexcept {
  return (signature.validity & ~0xffu) == 0 && is_known_class(signature.dst_class) &&
         is_known_class(signature.src_class);
}

/// Calls visit(argument, now) where an operand moved.
inline void visit_if_moved(std::uint32_t argument, std::uint64_t before, std::uint64_t now, MovedVisit visit) {
  if (before != now) visit(argument, now);
}

/// No operand is memory.
struct WithoutOperands {
  static void for_each_address(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static void for_each_hidden_word(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static void for_each_moved(const Operation&, const Binding&, const Binding&, MovedVisit) noexcept {}
  static void note_judged(const Signature&, const Binding&, std::uint32_t, JudgedVisit) noexcept {}
  static bool has_classes() noexcept { return false; }
  static bool takes_host_memory() noexcept { return false; }
};

/// It launches no kernel.
struct WithoutKernel {
  static std::size_t argument_memory(const Operation&) noexcept { return 0; }
  static const void* kernel(const Signature&) noexcept { return nullptr; }
};

/// Its node is never updated: another exec serves.
struct NeverPatched {
  static NodeClass node_class(const Signature&) noexcept { return NodeClass::kOther; }
};

/// The runtime takes every payload of one signature.
struct TakesEveryPayload {
  static bool may_refuse_set(const Operation&, const Binding&, const Binding&) noexcept { return false; }
};

/// It cannot be captured: nodes of it are added only.
struct AddedOnly {
  static hipError_t issue(const Signature&, std::uint32_t, const ArgumentLayout*, const Binding&,
                          hipStream_t) noexcept {
    return hipErrorInvalidValue;
  }
};

/// What differs of kinds whose signature has operands only.
inline const char* operand_difference(const Signature& own, const Signature& recorded) noexcept {
  return own.validity != recorded.validity ? "copy kind, element or empty size" : "memory of an operand";
}

/// It makes no node.
struct MarkKind : WithoutOperands, WithoutKernel, NeverPatched, TakesEveryPayload, AddedOnly {
  static const char* signature_difference(const Signature& own, const Signature& recorded) noexcept {
    return operand_difference(own, recorded);
  }
  static const char* why_not_staged(const Signature&) noexcept { return nullptr; }
  static hipError_t add(const Operation&, const Binding&, const NewNode&) noexcept { return hipErrorInvalidValue; }
  static hipError_t patch(const Operation&, const Binding&, hipGraphExec_t, hipGraphNode_t) noexcept {
    return hipErrorInvalidValue;
  }
  static bool has_type(int) noexcept { return false; }
  static const char* node_difference(const NodeQuestion&) noexcept { return nullptr; }
  static bool is_seen_whole(const Operation&) noexcept { return true; }
};

struct EventKind : MarkKind {
  static const char* signature_difference(const Signature&, const Signature&) noexcept { return "event"; }
};

struct WaitKind : EventKind {
  static const char* why_not_staged(const Signature& signature) noexcept {
    if (signature.object != kExternalEvent) return nullptr;
    return "it waits for an event from outside of it";
  }
};

struct DependenciesKind : MarkKind {
  static const char* signature_difference(const Signature&, const Signature&) noexcept { return "nodes or flags"; }
  static const char* why_not_staged(const Signature&) noexcept { return "it has dependencies of the program's own"; }
};

}  // namespace graphpool
