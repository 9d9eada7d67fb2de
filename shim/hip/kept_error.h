// kept_error.h: what the program has pending where its own call leaves the last error as it was, before HIP 7.
//
// Why: there a call that succeeds replaces the last error, ours too (probe last_error_goes_by_version). A few calls
// leave it, whatever they answer: natively the program still finds what it had pending. Calls of ours in their bodies
// would have taken it away. A call that fails in the same way brings it back; where there is none, the program is owed
// it (t_owed_error) until it makes another call.
// Threads: each scope lives on one thread's stack. Whether another call was made is told by the calls of all threads:
// one of another thread's ends what is owed, too. Not here: what a failure of ours replaces (restore.h).
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "shim/base/function_ref.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/hook_table.h"
#include "shim/hip/restore.h"

namespace graphpool {

/// The first version in which hipDeviceSynchronize and hipMallocAsync leave the last error where a capture forbids
/// them, and hipFreeAsync where the memory is hipMalloc's. (5.7.1 does not, 6.4.3 does; that those between them do is a
/// guess.)
inline constexpr int kLeavesErrors = hip_version(6, 0);

/// For a call of the program's that may leave the last error: what was pending before it. Made at the beginning of the
/// body. Scopes nest: an inner one has what the outermost found.
class KeptError {
 public:
  KeptError() noexcept : KeptError(kLeavesErrors) {}
  /// `since`: the first version in which the call leaves it.
  explicit KeptError(int since) noexcept;
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;
  ~KeptError();

  bool pending() const noexcept { return pending_ != hipSuccess; }
  /// The call has left it. Comes after the last call of ours in the body.
  void keep() const noexcept;

 private:
  const bool outermost_;
  hipError_t pending_ = hipSuccess;  ///< hipSuccess: there is nothing to keep
};

/// The calls that leave the last error, whatever they answer, where a stream captures them before HIP 7 (probe
/// captured_calls_leave_errors), or where its capture was invalidated.
inline constexpr std::array kLeaveErrorWhenCaptured = {
    EntryId::hipModuleLaunchKernel, EntryId::hipExtModuleLaunchKernel, EntryId::hipExtLaunchKernel,
    EntryId::hipMemcpyDtoDAsync,    EntryId::hipMemcpyDtoHAsync,       EntryId::hipMemcpyHtoDAsync,
    EntryId::hipMemcpyWithStream,   EntryId::hipMemcpy2DAsync,         EntryId::hipMemcpyParam2DAsync,
    EntryId::hipMemsetD8Async,      EntryId::hipMemsetD16Async,        EntryId::hipMemsetD32Async,
    EntryId::hipMallocAsync,        EntryId::hipMallocFromPoolAsync,   EntryId::hipFreeAsync,
};
constexpr bool leaves_error_when_captured(EntryId call) noexcept {
  return std::find(kLeaveErrorWhenCaptured.begin(), kLeaveErrorWhenCaptured.end(), call) !=
         kLeaveErrorWhenCaptured.end();
}

/// Makes such a call. The thread may have an error pending.
hipError_t with_error_kept(hipStream_t stream, FunctionRef<hipError_t()> call);

/// The stream among the arguments of a call.
template <typename First, typename... Rest>
constexpr hipStream_t stream_among(const First& first, const Rest&... rest) noexcept {
  if constexpr (std::is_same_v<First, hipStream_t>)
    return first;
  else
    return stream_among(rest...);
}

/// Before last_error_of_program(): nothing is owed any more once the program has made another call. Not from HIP 7 on.
void forget_kept_error() noexcept;

}  // namespace graphpool
