// operation_functions.h: finds the functions for an operation by its kind.
//
// Threads: any. Cost: one jump. Not here: what the functions are (kind_parts.h), and which kinds there are
// (operation_kinds.def).
#pragma once

#include <utility>

#include "shim/recording/child_kind.h"
#include "shim/recording/copy_kinds.h"
#include "shim/recording/fill_kind.h"
#include "shim/recording/host_kinds.h"
#include "shim/recording/kernel_kind.h"
#include "shim/recording/kind_parts.h"

namespace graphpool {

/// Calls use(functions), where `functions` is of the class that operation_kinds.def names for the kind.
template <typename Use>
decltype(auto) with_kind(OperationKind kind, Use&& use) {
  switch (kind) {
#define OPERATION_KIND(name, text, makes_node, may_hold_memory, functions) \
  case OperationKind::k##name:                                             \
    return std::forward<Use>(use)(functions{});
#include "shim/recording/operation_kinds.def"
  }
  __builtin_unreachable();
}

/// The handle of the kernel that the operation launches, or null.
inline const void* kernel_of(const Signature& signature) noexcept {
  return with_kind(signature.kind, [&](auto kind) { return kind.kernel(signature); });
}

}  // namespace graphpool
