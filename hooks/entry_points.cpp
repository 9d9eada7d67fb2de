// entry_points.cpp: the exported functions of rows with a body. (Rows without one: forward.S.)
//
// The functions get their exported names by assembler labels, so that no declaration or overload of the installed HIP
// header can get in the way.
#include <new>
#include <type_traits>

#include "hooks/call_time.h"
#include "hooks/hot_bodies.h"
#include "hooks/passing.h"
#include "shim/base/hot.h"
#include "shim/capture/momentary_streams.h"
#include "shim/hip/kept_error.h"
#include "shim/hip/private_handles.h"
#include "shim/memory/device_memory.h"

namespace graphpool {
namespace {

/// Notes a failure that the program is told of. Some failures mean that no later call will work.
[[gnu::cold]] void note_error(hipError_t error) {
  t_error_possible = true;
  device_memory().note_error(error);
}

template <typename Result, typename Body>
Result run(Body&& body) {
  if constexpr (std::is_same_v<Result, hipError_t>) {
    const hipError_t result = body();
    if (result != hipSuccess) [[unlikely]]
      note_error(result);
    return result;
  } else {
    return body();
  }
}

/// What an entry answers that has made the call without its body.
template <typename Result>
constexpr Result answered_at_once() noexcept {
  return Result();  // hipSuccess
}

/// Forwards a call of a step that is timed (costs/step_costs.h). A function of its own, so that an entry needs no stack
/// frame for the calls that are not timed.
template <typename Result, typename... Arguments>
[[gnu::cold, gnu::noinline]] Result forward_timed(Result (*next_call)(Arguments...),
                                                  std::type_identity_t<Arguments>... arguments) {
  const TimedCall timed;
  return next_call(arguments...);
}

/// Runs a body in a function of its own (see kOnlyForwarded).
template <typename Body>
[[gnu::noinline]] auto apart(const Body& body) {
  return body();
}

/// Makes a call that passes (passing.h), and notes a failure of Passing<kCall>::call().
template <EntryId kCall, typename Result, typename... Arguments>
[[gnu::always_inline]] inline Result pass([[maybe_unused]] const void* caller, Result (*next_call)(Arguments...),
                                          std::type_identity_t<Arguments>... arguments) {
  if constexpr (hooks::MakesCall<kCall>) {
    const hipError_t result = hooks::Passing<kCall>::call(caller, arguments...);
    if (result != hipSuccess) [[unlikely]]
      note_error(result);
    return result;
  } else {
    if (t_step.timed) [[unlikely]]
      return forward_timed(next_call, arguments...);
    return next_call(arguments...);
  }
}

/// Whether handles that the call's arguments point to are the program's once it has succeeded. These two calls may tell
/// handles of the library's own, which stand for the graph and the nodes of a withheld capture.
constexpr bool tells_handles(EntryId call) noexcept {
  return call != EntryId::hipStreamGetCaptureInfo_v2 && call != EntryId::hipStreamGetCaptureInfo_v2_spt;
}

/// The kind of the library's own object that an argument names. A stream that counts as the library's own may be the
/// program's (streams/fresh_streams.h, streams/kept_streams.h): then returns kNone, and the stream is neither fresh
/// nor kept from now on, unless the call leaves it fresh.
template <EntryId kCall, typename Argument>
PrivateKind kind_named(const Argument& argument) noexcept {
  const PrivateKind kind = private_kind(argument);
  if constexpr (names_stream<Argument>)
    if (kind == PrivateKind::kStream && stream_named_now(kCall, named_stream(argument))) return PrivateKind::kNone;
  return kind;
}

template <EntryId kCall, typename... Arguments>
[[gnu::cold, gnu::noinline]] PrivateKind names_own([[maybe_unused]] Arguments... arguments) noexcept {
  PrivateKind kind = PrivateKind::kNone;
  static_cast<void>((... || ((kind = kind_named<kCall>(arguments)) != PrivateKind::kNone)));
  return kind;
}

/// Makes joins that were put off, unless the call leaves them (leaves_joins()), and runs the body. If the call returns
/// hipError_t, also refuses it where it names an object of the library's own, keeps a pending error that it leaves, and
/// makes the handles that it told the program's.
/// The body has copies of the arguments, and no address of one is taken here: so they stay in registers.
template <typename Result, EntryId kCall, typename Body, typename... Arguments>
[[gnu::always_inline]] inline Result run_checked(Body body, Arguments... arguments) {
  if constexpr (!leaves_joins(kCall)) make_joins();
  if constexpr (std::is_same_v<Result, hipError_t>) {
    if (names_private(arguments...) != PrivateKind::kNone) [[unlikely]]
      if (const PrivateKind kind = names_own<kCall>(arguments...); kind != PrivateKind::kNone)
        return run<Result>([&] { return refuse_private(kind, kCall); });
    const hipError_t result = run<Result>([&] {
      if constexpr (leaves_error_when_captured(kCall))
        if (captures_open() && error_possible_in_capture()) [[unlikely]] {
          Body same = body;
          return with_error_kept(stream_among(arguments...), same);
        }
      return body();
    });
    if constexpr (tells_handles(kCall))
      if (result == hipSuccess) give_to_program(arguments...);
    // Last, because a fresh stream counts as the library's own.
    if constexpr (kCall == EntryId::hipStreamCreateWithFlags || kCall == EntryId::hipStreamCreateWithPriority)
      if (result == hipSuccess) note_new_stream(arguments...);
    return result;
  } else {
    return run<Result>(body);
  }
}

}  // namespace

#define GP_COMMA(...) __VA_OPT__(, ) __VA_ARGS__
#define HIP_HOOK(result, name, params, args, node, declared, effect)                                  \
  extern "C" [[gnu::visibility("default")]] HOT result gp_entry_##name params __asm__(#name);         \
  result gp_entry_##name params {                                                                     \
    GP_TIME_CALL(name, args)                                                                          \
    const void* const caller = __builtin_return_address(0);                                           \
    if (hooks::Passing<EntryId::name>::now GP_WITH_ENTRY(caller, GP_UNPACK args)) {                   \
      count_call(EntryId::name);                                                                      \
      return pass<EntryId::name>(caller, g_next.name GP_COMMA(GP_UNPACK args));                       \
    }                                                                                                 \
    if (hooks::AtOnce<EntryId::name>::made GP_WITH_ENTRY(caller, GP_UNPACK args)) {                   \
      count_call(EntryId::name);                                                                      \
      return answered_at_once<result>();                                                              \
    }                                                                                                 \
    const auto by_body = [=]() -> result {                                                            \
      if (!entered(EntryId::name, caller)) return g_next.name args;                                   \
      Entry entry(caller);                                                                            \
      Entry* const inside = &entry;                                                                   \
      try {                                                                                           \
        return run_checked<result, EntryId::name> GP_WITH_ENTRY(                                      \
            [=] { return hooks::on_##name GP_WITH_ENTRY(*inside, GP_UNPACK args); }, GP_UNPACK args); \
      } catch (const std::bad_alloc&) {                                                               \
        return hooks::no_host_memory<result>();                                                       \
      }                                                                                               \
    };                                                                                                \
    if constexpr (hooks::kOnlyForwarded<EntryId::name>)                                               \
      return apart(by_body);                                                                          \
    else                                                                                              \
      return by_body();                                                                               \
  }
#ifdef GP_TIME_CALLS  // around the entry that forward.S makes
#define HIP_NEXT(result, name, params, args, node, declared, effect)                              \
  extern "C" __attribute__((visibility("hidden"))) result gp_untimed_##name params;               \
  extern "C" __attribute__((visibility("default"))) result gp_entry_##name params __asm__(#name); \
  result gp_entry_##name params {                                                                 \
    GP_TIME_CALL(name, args)                                                                      \
    return gp_untimed_##name args;                                                                \
  }
#else
#define HIP_NEXT(result, name, params, args, node, declared, effect)
#endif
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"

}  // namespace graphpool
