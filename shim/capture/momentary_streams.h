// momentary_streams.h: keeps streams that the program makes and destroys inside a capture, as communication libraries
// do for each collective. They are noted when they are made (streams/fresh_streams.h), kept when they are destroyed,
// and handed out again (streams/kept_streams.h). Threads: any.
#pragma once

#include "shim/capture/capture.h"
#include "shim/capture/put_off_joins.h"
#include "shim/hip/hook_table.h"
#include "shim/hip/private_handles.h"
#include "shim/streams/kept_streams.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

inline StreamKind kind_of_stream(int device, unsigned flags) noexcept { return {device, flags}; }
inline StreamKind kind_of_stream(int device, unsigned flags, int priority) noexcept {
  return {device, flags, priority, StreamKind::Form::kWithPriority};
}

/// Call it when the program makes a stream of this kind, whose device the runtime has just been asked for. Gives the
/// program one that was kept, and returns true, where a capture is followed and the runtime would make such a stream
/// now.
bool reuse_stream(const StreamKind& kind, hipStream_t* stream) noexcept;
/// Notes that the runtime has made a stream for the program.
void note_stream_made() noexcept;
/// Notes that the program has been given the stream, for a call with these arguments.
template <typename... Priority>
void note_new_stream(hipStream_t* stream, unsigned flags, Priority... priority) noexcept {
  if (flags != hipStreamNonBlocking || !active() || nobody_follows()) return;
  const int known = work_counts().device_of_stream(*stream);
  fresh_streams().add(*stream, kind_of_stream(known < 0 ? calling_device() : known, flags, priority...));
}
/// Call it when the program destroys the stream, which takes part in no capture any more. Returns whether it is kept:
/// then the runtime is not to destroy it.
bool keep_stream(hipStream_t stream) noexcept;

/// Call it when a call names a stream that counts as the library's own. Returns true where it is the program's: a fresh
/// one, or one that was kept and is really destroyed now.
bool stream_named_now(EntryId call, hipStream_t stream) noexcept;
/// Call it before a call that may name any stream. From then on no stream is fresh, and none is kept.
void any_stream_named() noexcept;

}  // namespace graphpool
