// hook_table.h: makes an id for each entry, and the typed table of next functions, from the rows of
// shim/hip/hip_hooks.def.
//
// Why: every list of HIP functions the library needs is generated from the same rows, so no two lists can disagree.
// Threads: next.h says who fills the table, and when.
#pragma once

#include <hip/hip_ext.h>
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <cstddef>
#include <cstdint>

#include "shim/hip/hip_abi.h"

namespace graphpool {

/// The id of an exported entry: its row's position in shim/hip/hip_hooks.def.
enum class EntryId : std::uint16_t {
#define HIP_HOOK(result, name, params, args, node, declared, effect) name,
#define HIP_NEXT(result, name, params, args, node, declared, effect) name,
#define HIP_FORWARD(name, node, effect) name,
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
  kCount
};

inline constexpr std::size_t kEntryCount = static_cast<std::size_t>(EntryId::kCount);

/// The functions a call is forwarded to: the runtime's own, or those of another preloaded library behind us.
/// Never null: for a missing function one stands in that returns hipErrorNotSupported (typed rows of hipRTC:
/// INTERNAL_ERROR, typed rows with other results: 0). has() tells it.
struct Next {
#define HIP_HOOK(result, name, params, args, node, declared, effect) result(*name) params;
#define HIP_NEXT(result, name, params, args, node, declared, effect) result(*name) params;
#define HIP_FORWARD(name, node, effect) void (*name)();
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
};
static_assert(sizeof(Next) == kEntryCount * sizeof(void*), "Next must be an array of pointers in the order of EntryId");

}  // namespace graphpool
