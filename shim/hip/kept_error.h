// kept_error.h: keeps the error that the program has pending where, before HIP 7, its own call leaves the last error as
// it was.
//
// Why: before HIP 7 a call that succeeds replaces the last error, also a call of ours (probe
// last_error_goes_by_version). A few calls leave it, whatever they answer: natively the program still finds its pending
// error. Calls of ours in the bodies of these take the error away. A call that fails with the same error brings it
// back. Where no such call is known, t_owed_error keeps the error for the program until the program makes another call.
// Threads: each scope lives on one thread's stack. The counts of all threads' calls tell whether another call was made:
// a call of another thread ends the keeping, too. Not here: the error that a failure of ours replaces (restore.h).
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "shim/base/function_ref.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/hook_table.h"
#include "shim/hip/restore.h"

namespace graphpool {

/// The first version in which three calls leave the last error: hipDeviceSynchronize, hipMallocAsync and hipFreeAsync
/// where a capture forbids them, and hipFreeAsync also where it frees device memory that was not allocated in stream
/// order, on a stream that captures nothing. (5.7.1 does not, 6.4.3 does; that the versions from 6.0 on do is a guess.)
inline constexpr int kLeavesErrors = hip_version(6, 0);

/// Finds what was pending before a call of the program's that may leave the last error. Make it at the beginning of the
/// body. Scopes nest: an inner one has what the outermost found.
class KeptError {
 public:
  KeptError() noexcept : KeptError(kLeavesErrors) {}
  /// `since`: the first version in which the call leaves the last error.
  explicit KeptError(int since) noexcept;
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;
  ~KeptError();

  bool pending() const noexcept { return pending_ != hipSuccess; }
  /// Brings the error back, because the call has left it. Call this after the last call of ours in the body.
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

/// Makes a call of kLeaveErrorWhenCaptured where the thread may have an error pending.
hipError_t with_error_kept(hipStream_t stream, FunctionRef<hipError_t()> call);

/// The stream among the arguments of a call.
template <typename First, typename... Rest>
constexpr hipStream_t stream_among(const First& first, const Rest&... rest) noexcept {
  if constexpr (std::is_same_v<First, hipStream_t>)
    return first;
  else
    return stream_among(rest...);
}

/// Drops what is kept in t_owed_error once the program has made another call. Call it before last_error_of_program().
/// Does nothing from HIP 7 on.
void forget_kept_error() noexcept;

}  // namespace graphpool
