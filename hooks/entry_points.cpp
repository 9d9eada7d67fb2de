// entry_points.cpp: the exported functions of rows with a body. (Rows without one: forward.S.)
//
// The functions get their exported names by assembler labels, so that no declaration or overload of the installed HIP
// header can get in the way.
#include <new>
#include <type_traits>

#include "hooks/hot_bodies.h"
#include "hooks/passing.h"
#include "shim/memory/pool.h"
#include "shim/private_handles.h"

namespace graphpool {
namespace {

/// What an entry answers when the library itself ran out of host memory after it may already have called next.
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

/// Runs a body. Every failure it returns is looked at: some mean that no later call will work.
template <typename Result, typename Body>
Result run(Body&& body) {
  if constexpr (std::is_same_v<Result, hipError_t>) {
    const hipError_t result = body();
    if (result != hipSuccess) [[unlikely]] {
      t_error_possible = true;
      pool().note_error(result);
    }
    return result;
  } else {
    return body();
  }
}

/// Whether a handle that the call's argument points to is one that the program is told where it succeeds.
constexpr bool tells_handles(EntryId call) noexcept {
  return call != EntryId::hipStreamGetCaptureInfo_v2 && call != EntryId::hipStreamGetCaptureInfo_v2_spt;
}

/// Runs a body, and refuses a call that names an object of the library's own.
template <typename Result, EntryId kCall, typename Body, typename... Arguments>
Result run_checked(Body&& body, const Arguments&... arguments) {
  if constexpr (std::is_same_v<Result, hipError_t>) {
    const PrivateKind kind = names_private(arguments...);
    if (kind != PrivateKind::kNone) [[unlikely]]
      return run<Result>([&] { return refuse_private(kind, kCall); });
    const hipError_t result = run<Result>(body);
    if constexpr (tells_handles(kCall))
      if (result == hipSuccess) told_to_program(arguments...);
    return result;
  } else {
    return run<Result>(body);
  }
}

}  // namespace

#define HIP_HOOK(result, name, params, args, node, declared, effect)                              \
  extern "C" __attribute__((visibility("default"))) result gp_entry_##name params __asm__(#name); \
  result gp_entry_##name params {                                                                 \
    if (hooks::Passing<EntryId::name>::now args) {                                                \
      count_call(EntryId::name);                                                                  \
      return g_next.name args;                                                                    \
    }                                                                                             \
    const void* const caller = __builtin_return_address(0);                                       \
    if (!entered(EntryId::name, caller)) return g_next.name args;                                 \
    Entry entry(caller);                                                                          \
    try {                                                                                         \
      return run_checked<result, EntryId::name> GP_WITH_ENTRY(                                    \
          [&] { return hooks::on_##name GP_WITH_ENTRY(entry, GP_UNPACK args); }, GP_UNPACK args); \
    } catch (const std::bad_alloc&) {                                                             \
      return no_host_memory<result>();                                                            \
    }                                                                                             \
  }
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#define HIP_FORWARD(name, node, effect)
#include "hooks/hip_hooks.def"

}  // namespace graphpool
