// recordings_lock.h: has the one lock of all recordings, of their variants, and of the tables of tracked graphs.
//
// Why one: a capture, an exec and a graph meet in a recording, and each call touches a few words of it. Held for a few
// hundred instructions, and over no call of the runtime but to ask for events (Variant::idle()).
#pragma once

#include "shim/base/lock_rank.h"

namespace graphpool {

inline constinit RankedMutex<LockRank::kRecordings> g_recordings_lock;

}  // namespace graphpool
