#include "shim/capture/momentary_streams.h"

#include <atomic>

#include "shim/costs/step_costs.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

/// Whether the runtime has made a stream although an open capture forbids unsafe calls. Then kept ones are given, too.
constinit std::atomic<bool> g_captures_allow_streams{false};

/// Whether a fresh stream that the call names stays fresh.
constexpr bool leaves_fresh(EntryId call) noexcept {
  return call == EntryId::hipStreamDestroy || call == EntryId::hipStreamGetCaptureInfo_v2 ||
         call == EntryId::hipStreamWaitEvent;
}

bool captures_forbid_streams() noexcept {
  return !g_captures_allow_streams.load(std::memory_order_relaxed) && captures_refuse_memory_calls();
}

}  // namespace

bool reuse_stream(const StreamKind& kind, hipStream_t* stream) noexcept {
  if (stream == nullptr || kind.flags != hipStreamNonBlocking || !kept_streams().any() || !active() ||
      nobody_follows() || captures_forbid_streams())
    return false;
  const TimedCall timed;
  const hipStream_t kept = kept_streams().take(kind);
  if (kept == nullptr) return false;
  work_counts().created(kept, kind.device);
  t_error_possible = false;  // the question for the device has replaced the error, where success does so
  *stream = kept;
  return true;
}

void note_stream_made() noexcept {
  if (!nobody_follows() && captures_forbid_streams()) g_captures_allow_streams.store(true, std::memory_order_relaxed);
}

bool keep_stream(hipStream_t stream) noexcept {
  StreamKind kind;
  if (active() && fresh_streams().take(stream, &kind) && kept_streams().keep(stream, kind)) {
    stream_work().forget_unused(stream);
    succeeded_unseen();
    return true;
  }
  fresh_streams().remove(stream);
  return false;
}

[[gnu::cold]] bool stream_named_now(EntryId call, hipStream_t stream) noexcept {
  if (fresh_streams().has(stream)) {
    if (leaves_fresh(call)) return true;
    make_joins();
    fresh_streams().remove(stream);
    return true;
  }
  // Between the caller's question and this one another thread's call may have made the stream the program's.
  return kept_streams().end(stream) || !g_private_handles.has(stream);
}

[[gnu::cold]] void any_stream_named() noexcept {
  make_joins();
  if (fresh_streams().any()) fresh_streams().remove_all();
  if (kept_streams().any()) static_cast<void>(kept_streams().give_back(-1));
}

}  // namespace graphpool
