// operation.h: splits a captured call into what decides a graph's shape and validity (signature) and what may differ
// from one capture to the next (payload).
//
// Invariants: signatures and payloads have no uninitialised bytes, so both are compared as memory. The payloads of a
// capture lie one behind the other in one buffer, the binding; equal sequences of signatures give equal offsets, so two
// bindings of one recording compare by one memcmp and an operation's payload has the same place in both.
// Units: bytes; `width` of a fill counts elements.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "shim/base/byte_buffer.h"
#include "shim/base/function_ref.h"

namespace graphpool {

class ArgumentLayout;

/// The rows of operation_kinds.def.
enum class OperationKind : std::uint8_t {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) k##name,
#include "shim/recording/operation_kinds.def"
};

/// True for kinds that make a node.
constexpr bool makes_node(OperationKind kind) noexcept {
  constexpr bool kMakesNode[] = {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) makes_node,
#include "shim/recording/operation_kinds.def"
  };
  return kMakesNode[static_cast<std::size_t>(kind)];
}

/// Whether a node of this kind may hold on to allocations, not only to their addresses (memory/freed_memory.h).
constexpr bool may_hold_memory(OperationKind kind) noexcept {
  constexpr bool kMayHoldMemory[] = {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) may_hold_memory,
#include "shim/recording/operation_kinds.def"
  };
  return kMayHoldMemory[static_cast<std::size_t>(kind)];
}

/// Says how a launch named its kernel. An operation without a kernel, or whose node names it, has kNone.
enum class KernelForm : std::uint8_t { kNone, kStub, kFunction };

struct Signature {
  OperationKind kind = OperationKind::kBegin;
  KernelForm form = KernelForm::kNone;
  std::int16_t device = 0;   ///< packed: current device at the call, and the stream's (rule 14)
  std::uint16_t stream = 0;  ///< index of the stream in this capture, by first appearance
  std::uint16_t thread = 0;  ///< index of the issuing thread among those that feed this capture, by first appearance
  std::uint32_t payload_bytes = 0;
  std::uint32_t validity = 0;    ///< kind-specific bits (signature_bits.h, rule 28)
  std::uint64_t object = 0;      ///< kernel: stub or function; host: function; begin, creation: epoch of settings;
                                 ///< driver-style copy: its context; child: the number of its recording; record,
                                 ///< wait: index of the event in this capture, or kExternalEvent; other copies and
                                 ///< fills, if memory of them is not known: sizes, here and in `generation`
  std::uint64_t generation = 0;  ///< of the object; or a size (`object`)
  std::uint64_t dst_class = 0;   ///< copy, fill: what kind of memory the operand is, or its address where unknown;
                                 ///< kernel: block and shared memory (signature_bits.h), here and in src_class
  std::uint64_t src_class = 0;

  /// Compares word by word, without a call or a copy: it is asked of every captured operation, but for launches that
  /// LaunchFields compares.
  bool operator==(const Signature& other) const noexcept {
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < 6; ++i) difference |= word(i) ^ other.word(i);
    return difference == 0;
  }

  /// The i-th 8 bytes.
  std::uint64_t word(std::size_t i) const noexcept {
    std::uint64_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(this) + i * sizeof value, sizeof value);
    return value;
  }
};
/// The first 8 bytes of a signature.
constexpr std::uint64_t first_word(OperationKind kind, KernelForm form, std::int16_t device, std::uint16_t stream,
                                   std::uint16_t thread) noexcept {
  return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(form) << 8 |
         std::uint64_t{static_cast<std::uint16_t>(device)} << 16 | std::uint64_t{stream} << 32 |
         std::uint64_t{thread} << 48;
}
static_assert(offsetof(Signature, form) == 1 && offsetof(Signature, device) == 2 && offsetof(Signature, stream) == 4 &&
              offsetof(Signature, thread) == 6 && offsetof(Signature, payload_bytes) == 8);
static_assert(sizeof(Signature) == 48, "Signature must have no padding: it is compared as memory");
inline constexpr std::uint64_t kExternalEvent = ~std::uint64_t{0};
/// Stands for the stream of a node added by handle to the graph of an open capture: it has none.
inline constexpr std::uint16_t kNoStream = 0xffff;
/// The signature that every recording ends with.
inline constexpr Signature kEndSignature{.kind = OperationKind::kEnd};

struct KernelPayload {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  std::uint32_t argument_bytes;  ///< the packed arguments follow, padded with zeros to a multiple of 8
};
struct CopyPayload {
  std::uint64_t dst, src, width, height, dst_pitch, src_pitch;
};
struct FillPayload {
  std::uint64_t dst, value, width, height, pitch;
};
struct Copy3DPayload {
  hipMemcpy3DParms params;  ///< as the program gave them; bytes between members are zero
};
struct HostPayload {
  std::uint64_t user;
};

/// A binding: the payloads of one capture.
using Binding = ByteBuffer;

inline bool equal(const Binding& a, const Binding& b) noexcept { return a == b; }

/// One operation of a recording. The payload of a child graph is its binding.
struct Operation {
  Signature signature;
  std::uint32_t payload_offset = 0;
  union {
    const ArgumentLayout* layout = nullptr;  ///< kernels
    const std::vector<Operation>* child;     ///< child graphs: the operations of its recording
  };
  /// The indices of the operations that this one depends on: in the runtime's order if it was captured, in the
  /// program's if it was added by node. Of edges: pairs, from and to. Of a change of dependencies: those that the call
  /// names, in its order.
  std::vector<std::uint32_t> after;
};

using OperationTest = FunctionRef<bool(const Operation& operation)>;

/// Calls visit(operation, place of its payload) for the operation, or, if it is a child graph, for each operation
/// inside. `base`: where the payloads begin that operation.payload_offset counts from.
template <typename Visit>
void for_each_inner(const Operation& operation, std::uint32_t base, const Visit& visit) {
  const std::uint32_t offset = base + operation.payload_offset;
  if (operation.signature.kind != OperationKind::kChild) return visit(operation, offset);
  for (const Operation& inner : *operation.child) for_each_inner(inner, offset, visit);
}

/// Whether the test is true of the operation, or, if it is a child graph, of an operation inside.
inline bool holds(const Operation& operation, OperationTest test) {
  if (operation.signature.kind != OperationKind::kChild) return test(operation);
  return std::any_of(operation.child->begin(), operation.child->end(),
                     [&](const Operation& each) { return holds(each, test); });
}

/// What a real capture has given: its operations, beginning and end included, and their nodes (null: it makes none).
struct RecordedCapture {
  std::vector<Operation> operations;
  Binding binding;
  std::vector<hipGraphNode_t> nodes;
  std::uint64_t memory_freed;  ///< memory_freed() when the capture began
};

/// Whether a binding may move to other memory to take a payload. Where it may not and would have to, it takes none.
enum class MayMove : bool { kNo, kYes };

/// Adds room for a payload of this many bytes at the end, and returns its place. If the payload does not fill the last
/// word, sets that word to 0. Returns null if the binding would have to move, and may not.
template <MayMove kMayMove = MayMove::kYes>
[[gnu::always_inline]] inline std::byte* add_payload(Binding& binding, std::size_t bytes) {
  constexpr std::size_t kWord = 8;
  const std::size_t begin = binding.size(), end = begin + (bytes + kWord - 1) / kWord * kWord;
  std::byte* base;
  if constexpr (kMayMove == MayMove::kYes)
    base = binding.grow(end);
  else if ((base = binding.grow_in_place(end)) == nullptr)
    return nullptr;
  if (bytes % kWord != 0) std::memset(base + end - kWord, 0, kWord);
  return base + begin;
}

/// Adds a kernel's payload without its arguments, and returns the place for these, or null as add_payload() does.
template <MayMove kMayMove = MayMove::kYes>
[[gnu::always_inline]] inline std::byte* add_kernel_payload(Binding& binding, const KernelPayload& shape) {
  std::byte* const payload = add_payload<kMayMove>(binding, sizeof shape + shape.argument_bytes);
  if constexpr (kMayMove == MayMove::kNo)
    if (payload == nullptr) return nullptr;
  // Member by member: a launch has them in registers.
  new (payload) KernelPayload(shape);
  return payload + sizeof shape;
}

template <typename Payload>
Payload& payload_at(Binding& binding, std::uint32_t offset) {
  return *reinterpret_cast<Payload*>(binding.data() + offset);
}
template <typename Payload>
const Payload& payload_at(const Binding& binding, std::uint32_t offset) noexcept {
  return *reinterpret_cast<const Payload*>(binding.data() + offset);
}

/// The payload of one operation as a binding of its own.
inline Binding payload_of(const Operation& operation, const Binding& binding) {
  const std::byte* const from = binding.begin() + operation.payload_offset;
  return Binding(from, from + operation.signature.payload_bytes);
}

/// Whether two kernels' payloads have one grid.
inline bool same_grid(const std::byte* a, const std::byte* b) noexcept {
  return std::memcmp(reinterpret_cast<const KernelPayload*>(a)->grid, reinterpret_cast<const KernelPayload*>(b)->grid,
                     sizeof(KernelPayload::grid)) == 0;
}

/// Whether an operation has the same payload in both bindings of one recording.
inline bool same_payload(const Operation& operation, const Binding& a, const Binding& b) noexcept {
  const std::uint32_t offset = operation.payload_offset, bytes = operation.signature.payload_bytes;
  return bytes == 0 || std::memcmp(a.begin() + offset, b.begin() + offset, bytes) == 0;
}

/// Puts an operation's payload, which begins at `from`, into a binding. May throw std::bad_alloc if the binding shares
/// its bytes with another (base/byte_buffer.h).
inline void put_payload(const Operation& operation, const std::byte* from, Binding& into) {
  const std::size_t bytes = operation.signature.payload_bytes;
  if (bytes != 0) std::memcpy(into.data() + operation.payload_offset, from, bytes);
}

/// Whether a payload may name an address of this range: every pointer of an operation lies at a multiple of 8.
inline bool names_memory(const Binding& binding, const void* address, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uint64_t>(address);
  for (std::uint32_t offset = 0; offset + sizeof(std::uint64_t) <= binding.size(); offset += sizeof(std::uint64_t))
    if (payload_at<std::uint64_t>(binding, offset) - first < bytes) return true;
  return false;
}

}  // namespace graphpool
