#include "shim/recording/materialisation.h"

#include "shim/kernel/functions.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/prefix_tree.h"

namespace graphpool {
namespace {

/// Returns what of an operation's signature differs from the recorded one.
const char* difference(const Signature& own, const Signature& recorded) noexcept {
  if (own.kind != recorded.kind) return "kind";
  if (own.device != recorded.device) return "device";
  if (own.stream != recorded.stream) return "stream";
  if (own.thread != recorded.thread) return "thread";
  return with_kind(own.kind, [&](auto kind) { return kind.signature_difference(own, recorded); });
}

/// The number of the recording that the first children from here lead to; 0: it was dropped.
std::uint64_t one_below(const TreeNode& top) noexcept {
  for (const TreeNode* node = &top; node != nullptr; node = node->first_child.load(std::memory_order_acquire))
    if (const std::uint64_t number = node->number.load(std::memory_order_relaxed)) return number;
  return 0;
}

}  // namespace

const char* kind_name(OperationKind kind) noexcept {
  static constexpr const char* kTexts[] = {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) text,
#include "shim/recording/operation_kinds.def"
  };
  return kTexts[static_cast<std::size_t>(kind)];
}

Materialisation describe_materialisation(const char* reason, const TreeNode& last, std::size_t operation,
                                         const Signature* own) noexcept {
  Materialisation materialisation;
  materialisation.reason = reason;
  materialisation.graph = one_below(last);
  materialisation.operation = static_cast<std::uint32_t>(operation);
  if (own == nullptr) return materialisation;
  materialisation.kind = kind_name(own->kind);
  if (const void* const kernel = kernel_of(*own)) materialisation.kernel = functions().find(kernel).name;
  const TreeNode* const recorded = last.first_child.load(std::memory_order_acquire);
  if (recorded != nullptr) materialisation.differs = difference(*own, recorded->operation.signature);
  return materialisation;
}

}  // namespace graphpool
