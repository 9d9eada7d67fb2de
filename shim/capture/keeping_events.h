// keeping_events.h: knows the events that stood for operations of captures, and so natively for nodes.
//
// Why: before HIP 7 an event keeps its nodes when it is recorded in a later capture on a stream without a node
// (Defect::kEventsKeepNodes). These nodes are in no graph of that capture, so the runtime refuses what comes behind
// them there. The runtime never had the nodes of a shell. And while a shell is captured, other nodes may get the
// addresses that nodes which are gone had natively. So the library gives the runtime another node for the event to
// keep. Threads: any. Lock: kStreams, with no call of the runtime below it. Memory: of as many events as the program
// has. Not here: what is recorded in captures that are left alone.
#pragma once

#include <hip/hip_runtime_api.h>

#include <unordered_map>

#include "shim/base/short_lock.h"

namespace graphpool {

class KeepingEvents {
 public:
  /// Notes that the event has been recorded behind something, in a shell or in a real capture.
  void recorded(hipEvent_t event, bool in_shell);
  /// Call it before the event is recorded on a stream of a shell or a real capture, where neither event nor stream
  /// stands for an operation. Lets the event stand for a node of another capture in the runtime where it would
  /// natively. `device`: the stream's, and so the event's.
  void keeps_nodes(hipEvent_t event, bool in_shell, int device);
  void event_destroyed(hipEvent_t event) noexcept;

 private:
  ShortLock<LockRank::kStreams> lock_;
  std::unordered_map<hipEvent_t, bool> events_ GUARDED_BY(lock_);  ///< whether it was recorded in a shell
};

/// The process's, never destroyed.
KeepingEvents& keeping_events();

}  // namespace graphpool
