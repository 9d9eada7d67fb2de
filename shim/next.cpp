#include "shim/next.h"

#include <type_traits>

namespace graphpool {
namespace {

/// What a function that the runtime lacks answers: HIP's own "not supported", typed by the function's result.
template <typename Result, typename... Args>
struct Missing;

template <typename Result, typename... Args>
struct Missing<Result (*)(Args...)> {
  static Result call(Args...) noexcept {
    if constexpr (std::is_same_v<Result, hipError_t>) {
      return hipErrorNotSupported;
    } else if constexpr (std::is_same_v<Result, hiprtcResult>) {
      return HIPRTC_ERROR_INTERNAL_ERROR;
    } else if constexpr (!std::is_void_v<Result>) {
      return Result{};
    }
  }
};

hipError_t missing_forward() noexcept { return hipErrorNotSupported; }

}  // namespace

#define HIP_HOOK(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_NEXT(result, name, params, args, node, declared, effect) &Missing<result(*) params>::call,
#define HIP_FORWARD(name, node, effect) reinterpret_cast<void (*)()>(&missing_forward),
Next g_next = {
#include "hooks/hip_hooks.def"
};
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD

}  // namespace graphpool
