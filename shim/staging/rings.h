// rings.h: knows all slot rings, and tells them of streams whose events they may not ask for any more.
//
// Threads: any. Lock: kRings, held while every ring is told (its launches have locks of rank kRing).
#pragma once

#include <atomic>
#include <cstddef>

#include "shim/streams/stream_key.h"

namespace graphpool {

class SlotRing;

/// How many rings there are.
inline constinit std::atomic<std::size_t> g_rings{0};

/// Tells the ring of streams from now on. Throws std::bad_alloc.
void add_ring(SlotRing* ring);
/// Tells it no more. No thread is telling it when this returns. Does nothing if the ring was not added.
void remove_ring(SlotRing* ring) noexcept;

void all_rings_before_capture(StreamKey stream) noexcept;
/// Tells all rings that a stream is about to take part in a capture.
inline void rings_before_capture(StreamKey stream) noexcept {
  if (g_rings.load(std::memory_order_acquire) != 0) [[unlikely]]
    all_rings_before_capture(stream);
}
/// Tells all rings that `count` streams, from this key on, are about to be destroyed, or to end with their thread.
void rings_before_destroy(StreamKey first, StreamKey count) noexcept;

}  // namespace graphpool
