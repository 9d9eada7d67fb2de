// stream_state.h: knows what the program itself has waited for, stream by stream and device by device.
//
// Every launch takes a number. A wait of the program for a stream or a device completes all launches there that took
// their number before the wait. The library knows a stream from its first launch until its destruction, and longer
// while marks still name it: a later stream with the same handle is another one. If the library knows many streams, it
// forgets those that no mark names. Threads: any; one short lock (rank kStreams). Units: launches; records of events
// and uses that outstanding_uses.h notes take numbers, too. Not here: private events behind launches (launch_marks.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

class LaunchEvent;

/// The number of the newest launch so far; take it before a wait is forwarded. A launch takes its number when it has
/// been enqueued, so that an earlier wait does not count for it.
std::uint64_t launch_clock() noexcept;
std::uint64_t next_launch() noexcept;

/// Notes that the program has waited: all up to `clock` is complete on the stream, or on all streams of the device.
void stream_waited(StreamKey stream, std::uint64_t clock) noexcept;
void device_waited(int device, std::uint64_t clock) noexcept;

/// Guards what is known of streams by their keys.
inline constinit RankedMutex<LockRank::kStreams> g_waits_lock;

/// The state of one stream, while it is alive or a mark names it; a new stream with its handle has another one.
struct StreamState {
  std::atomic<std::uint64_t> waited{0};  ///< launches up to this number are complete
  std::atomic<bool> destroyed{false};    ///< its handle must not be used any more
  std::atomic<int> device{-1};           ///< -1: not asked yet
  /// Events that were recorded there; they may be gone or elsewhere by now.
  std::vector<std::weak_ptr<LaunchEvent>> events GUARDED_BY(g_waits_lock);
  std::size_t most_events GUARDED_BY(g_waits_lock) = kFewEvents;  ///< at so many, those that are gone are forgotten
  static constexpr std::size_t kFewEvents = 16;
};

std::shared_ptr<StreamState> stream_state(StreamKey key);
bool stream_lives(const StreamState& stream) noexcept;
/// Takes out the state of a stream that goes: it is no living stream's any more. Null: there is none.
std::shared_ptr<StreamState> take_stream_state(StreamKey key) noexcept;
/// The same for any stream of the device on which there was a launch.
std::shared_ptr<StreamState> take_stream_state_of(int device) noexcept;
/// The stream's device. Call it in a thread that may name the stream.
int device_of(StreamState& state, hipStream_t stream) noexcept;

/// Whether the program itself has waited for this launch.
bool launch_waited_for(const StreamState& stream, int device, std::uint64_t number) noexcept;

/// How many streams are known: those alive, and some own streams of threads that have ended.
std::size_t streams_known() noexcept;

}  // namespace graphpool
