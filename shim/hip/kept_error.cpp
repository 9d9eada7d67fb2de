#include "shim/hip/kept_error.h"

#include "shim/hip/quirks.h"

namespace graphpool {
namespace {

/// The outermost of the thread's scopes: calls of ours in it may have taken away what an inner one would find.
constinit thread_local const KeptError* t_outermost = nullptr;

/// calls_so_far() when keep() set t_owed_error.
constinit thread_local std::uint64_t t_owed_since = 0;

/// Counts the calls of all threads, but for those that ask for the last error. The call that the thread is in counts.
std::uint64_t calls_so_far() noexcept {
  const auto calls = [](EntryId id) {
    return __atomic_load_n(&gp_calls[static_cast<std::size_t>(id)], __ATOMIC_RELAXED);
  };
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kEntryCount; ++i) sum += calls(static_cast<EntryId>(i));
  return sum - calls(EntryId::hipGetLastError) - calls(EntryId::hipPeekAtLastError);
}

/// A call that fails with an error and does nothing else.
struct FailingCall {
  hipError_t error;
  void (*call)();
};
constexpr FailingCall kFailingCalls[] = {
    {hipErrorInvalidValue, [] { static_cast<void>(next().hipGetDevice(nullptr)); }},
    {hipErrorInvalidDevice,
     [] {
       int attribute = 0;
       static_cast<void>(next().hipDeviceGetAttribute(&attribute, hipDeviceAttributeWarpSize, -1));
     }},
    {hipErrorInvalidHandle, [] { static_cast<void>(next().hipEventQuery(nullptr)); }},
    // The null stream never captures.
    {hipErrorIllegalState,
     [] {
       hipGraph_t graph = nullptr;
       static_cast<void>(next().hipStreamEndCapture(nullptr, &graph));
     }},
    {hipErrorStreamCaptureUnsupported,
     [] { static_cast<void>(next().hipStreamBeginCapture(nullptr, hipStreamCaptureModeRelaxed)); }},
};

/// Makes this the runtime's last error again. Returns whether that worked: false, too, where no call is known to fail
/// so.
bool raise(hipError_t error) noexcept {
  for (const FailingCall& failing : kFailingCalls) {
    if (failing.error != error) continue;
    failing.call();
    return next().hipPeekAtLastError() == error;
  }
  return false;
}

}  // namespace

KeptError::KeptError(int since) noexcept : outermost_(t_outermost == nullptr) {
  if (outermost_) t_outermost = this;
  const int version = runtime_version();
  if (version < since || version >= kKeepsErrors) return;
  if (!outermost_) {
    pending_ = t_outermost->pending_;
    return;
  }
  pending_ = next().hipPeekAtLastError();
  const bool owed = pending_ == hipSuccess && t_owed_error != hipSuccess;
  if (owed && calls_so_far() == t_owed_since + 1) pending_ = t_owed_error;  // this call has been counted already
}

KeptError::~KeptError() {
  if (outermost_) t_outermost = nullptr;
}

void KeptError::keep() const noexcept {
  if (pending_ != hipSuccess) t_error_possible = true;
  if (pending_ == hipSuccess || next().hipPeekAtLastError() != hipSuccess || raise(pending_)) return;
  t_owed_error = pending_;
  t_owed_since = calls_so_far();
}

hipError_t with_error_kept(hipStream_t stream, FunctionRef<hipError_t()> call) {
  error_asked_for();
  if (stream == nullptr || runtime_version() >= kKeepsErrors) return call();
  const KeptError last_error(0);
  if (!last_error.pending()) return call();
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  const bool answered = PrivateCalls::answered([&] { return next().hipStreamIsCapturing(stream, &status); });
  const hipError_t result = call();
  if (answered && status != hipStreamCaptureStatusNone) last_error.keep();
  return result;
}

void forget_kept_error() noexcept {
  if (t_owed_error == hipSuccess || runtime_version() >= kKeepsErrors) return;
  if (calls_so_far() != t_owed_since) t_owed_error = hipSuccess;
}

}  // namespace graphpool
