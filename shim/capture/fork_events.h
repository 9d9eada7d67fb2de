// fork_events.h: keeps an event of the library's own for each stream; streams of a shell come behind each other by
// these.
//
// Why: before HIP 7 an event that is recorded in a capture on a stream without a node keeps the nodes it stood for last
// (Defect::kEventsKeepNodes). No stream of a shell has a node: a stream that waited there for the program's event would
// come behind nodes of captures that are over, and hand them on to each event recorded on it. Their number would grow
// with each fork and join; on 5.7 it doubles. An event that is only recorded in shells never stands for a node.
// Invariant: each is recorded on its own stream alone, because the runtime notes it with the stream until a capture of
// that stream ends. Threads: any. Lock: kStreams, with no call of the runtime below it. Memory: one event for each
// stream on which a shell recorded an event, until the stream is destroyed.
#pragma once

#include <hip/hip_runtime_api.h>

#include <unordered_map>

#include "shim/base/short_lock.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

class ForkEvents {
 public:
  /// Records the stream's event, and makes it first if there is none. The stream is one of a shell. Returns false,
  /// without a trace, if the runtime refuses.
  bool record(StreamKey key, hipStream_t stream, int device);
  /// The stream's event; null: it has none.
  hipEvent_t find(StreamKey key) noexcept;

  /// Destroys the events of the streams with these keys, `count` from `first` on, which are about to go.
  void streams_destroyed(StreamKey first, StreamKey count) noexcept;
  /// Destroys all events: a device is about to be reset. Pre-condition: no capture is a shell.
  void device_reset() noexcept;

 private:
  ShortLock<LockRank::kStreams> lock_;
  std::unordered_map<StreamKey, hipEvent_t> events_ GUARDED_BY(lock_);
};

/// The process's, never destroyed.
ForkEvents& fork_events();

}  // namespace graphpool
