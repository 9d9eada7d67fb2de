// kind_parts.h: has what the classes of operation_kinds.def share, and the classes of kinds that make no node.
//
// A class has these static functions. with_kind() (operation_functions.h) finds the class by the kind:
//   signature_difference  tells what differs from the recorded signature, where kind, device, stream and thread do not
//   why_not_staged        why a graph with this operation may not work on other memory than the program's; null: it may
//   issue                 makes the call that a program would make to capture or run it
//   add                   adds its node to a graph
//   patch                 gives its node in an exec the payload of a binding
//   has_type              whether its nodes may have this type; types are counted from that of kernels
//   node_difference       tells what differs in a node's parameters; null: nothing that the runtime tells
//   for_each_address      visits (place in the binding, address, whether it may write there) of each address operand
//   for_each_hidden_word  visits (place in the binding, word) of each word that is perhaps an address
//   for_each_moved        visits (argument, address) of each operand that had another address in the other binding
//   note_judged           visits (class of the operand, bytes) of each operand that has a class (operand.h)
//   node_class            the class of node by which patch_table.h has its rows
//   has_classes           whether the classes of its signature are those of memory operands (operand.h)
//   takes_host_memory     whether an operand may be memory of the host
//   may_refuse_set        whether the runtime may refuse to set its node to another payload of the same signature
//   is_seen_whole         whether verify knows all that it reads and writes
//   argument_memory       device memory that its node has for arguments, in bytes
//   kernel                the handle of the kernel that it launches, or null
// Where a kind has nothing to do, its class has an empty function, mostly by a base below. So nothing is forgotten.
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

/// Where a node is added: to `graph`, behind `after`. *node gets the new node.
struct NewNode {
  hipGraph_t graph;
  const std::vector<hipGraphNode_t>& after;
  hipGraphNode_t* node;
};

/// A node that is compared with its operation. `inside`: the nodes that NodesInside (node_check.h) has told of a child
/// graph; null or empty: not known. *argument gets the index of the kernel's argument that differs, if one does.
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

/// For kinds of which no operand is memory.
struct WithoutOperands {
  static void for_each_address(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static void for_each_hidden_word(const Operation&, const Binding&, std::uint32_t, const auto&) noexcept {}
  static void for_each_moved(const Operation&, const Binding&, const Binding&, MovedVisit) noexcept {}
  static void note_judged(const Signature&, const Binding&, std::uint32_t, JudgedVisit) noexcept {}
  static bool has_classes() noexcept { return false; }
  static bool takes_host_memory() noexcept { return false; }
};

/// For kinds that launch no kernel.
struct WithoutKernel {
  static std::size_t argument_memory(const Operation&) noexcept { return 0; }
  static const void* kernel(const Signature&) noexcept { return nullptr; }
};

/// For kinds without a row in patch_table.h: another exec serves instead of a patched one.
struct NeverPatched {
  static NodeClass node_class(const Signature&) noexcept { return NodeClass::kOther; }
};

/// For kinds of which the runtime takes every payload of one signature.
struct TakesEveryPayload {
  static bool may_refuse_set(const Operation&, const Binding&, const Binding&) noexcept { return false; }
};

/// For kinds that are never issued into a stream: their nodes, if they make any, are added only.
struct AddedOnly {
  static hipError_t issue(const Signature&, std::uint32_t, const ArgumentLayout*, const Binding&,
                          hipStream_t) noexcept {
    return hipErrorInvalidValue;
  }
};

/// Tells what differs, for kinds whose signature has operands only.
inline const char* operand_difference(const Signature& own, const Signature& recorded) noexcept {
  return own.validity != recorded.validity ? "copy kind, element or empty size" : "memory of an operand";
}

/// For kinds that make no node.
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
