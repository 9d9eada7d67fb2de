// bodies.h: the declarations of all bodies, made from the rows of kind HIP_HOOK: R on_<name>(Entry&, parameters...).
// A body decides what a call becomes by asking the engine, and reaches HIP by next().<name> only.
#pragma once

#include <type_traits>

#include "shim/hip/entry.h"
#include "shim/hip/next.h"

namespace graphpool::hooks {

#define GP_UNPACK(...) __VA_ARGS__
#define GP_WITH_ENTRY(first, ...) (first __VA_OPT__(, ) __VA_ARGS__)
#define HIP_HOOK(result, name, params, args, node, declared, effect) \
  result on_##name GP_WITH_ENTRY(Entry& entry, GP_UNPACK params);
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD

/// Makes the library pass through, and returns the answer of an entry whose body ran out of host memory. The body may
/// have called next already.
template <typename Result>
Result no_host_memory() noexcept {
  pass_through("out of host memory");
  if constexpr (std::is_same_v<Result, hipError_t>) {
    return hipErrorOutOfMemory;
  } else if constexpr (std::is_same_v<Result, hiprtcResult>) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result{};
  }
}

}  // namespace graphpool::hooks
