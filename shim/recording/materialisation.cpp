#include "shim/recording/materialisation.h"

#include "shim/kernel/functions.h"
#include "shim/recording/prefix_tree.h"

namespace graphpool {
namespace {

/// What of an operation's signature is not as recorded.
const char* difference(const Signature& own, const Signature& recorded) noexcept {
  if (own.kind != recorded.kind) return "kind";
  if (own.device != recorded.device) return "device";
  if (own.stream != recorded.stream) return "stream";
  if (own.thread != recorded.thread) return "thread";
  switch (own.kind) {
    case OperationKind::kKernel:
      if (own.object != recorded.object || own.generation != recorded.generation || own.form != recorded.form)
        return "function";
      if (own.payload_bytes != recorded.payload_bytes) return "arguments";
      if (own.validity != recorded.validity) return "way of launching";
      if (own.dst_class != recorded.dst_class || own.src_class != recorded.src_class) return "block or shared memory";
      return "grid";
    case OperationKind::kHost:
      return "function";
    case OperationKind::kChild:
      return "recording";
    case OperationKind::kRecord:
    case OperationKind::kWait:
      return "event";
    case OperationKind::kDependencies:
      return "nodes or flags";
    default:
      return own.validity != recorded.validity ? "copy kind, element or empty size" : "memory of an operand";
  }
}

/// The number of a recording that goes on from here; 0: there is none.
std::uint64_t one_below(const TreeNode& at) noexcept {
  for (const TreeNode* node = &at; node != nullptr; node = node->first_child.load(std::memory_order_acquire))
    if (const std::uint64_t number = node->number.load(std::memory_order_relaxed)) return number;
  return 0;
}

}  // namespace

const char* kind_name(OperationKind kind) noexcept {
  switch (kind) {
    case OperationKind::kBegin:
      return "begin";
    case OperationKind::kCreate:
      return "creation";
    case OperationKind::kKernel:
      return "kernel";
    case OperationKind::kCopy:
      return "copy";
    case OperationKind::kCopy2D:
      return "pitched copy";
    case OperationKind::kCopy3D:
      return "copy of a box";
    case OperationKind::kFill:
      return "fill";
    case OperationKind::kHost:
      return "host function";
    case OperationKind::kEmpty:
      return "empty node";
    case OperationKind::kChild:
      return "child graph";
    case OperationKind::kEdges:
      return "edges";
    case OperationKind::kRecord:
      return "event record";
    case OperationKind::kWait:
      return "stream wait";
    case OperationKind::kDependencies:
      return "change of dependencies";
    case OperationKind::kLeave:
      return "end of a stream";
    case OperationKind::kEnd:
      return "end";
  }
  return "operation";
}

Materialisation describe_materialisation(const char* why, const TreeNode& at, std::size_t operation,
                                         const Signature* own) noexcept {
  Materialisation told;
  told.why = why;
  told.graph = one_below(at);
  told.operation = static_cast<std::uint32_t>(operation);
  if (own == nullptr) return told;
  told.kind = kind_name(own->kind);
  if (own->kind == OperationKind::kKernel)
    told.kernel = functions().find(reinterpret_cast<const void*>(own->object)).name;
  const TreeNode* const recorded = at.first_child.load(std::memory_order_acquire);
  if (recorded != nullptr) told.differs = difference(*own, recorded->operation.signature);
  return told;
}

}  // namespace graphpool
