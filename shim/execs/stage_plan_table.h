// stage_plan_table.h: keeps the plans by which a recording is staged, one pair for each set of rules of its bindings.
//
// Bounded: Recording::kMostStagePlans pairs for each recording. Of those that no exec and no binding uses, the least
// recently used pair goes. Threads: any. Not here: what a plan says (staging/staging.h), whether it is used
// (staging_chooser.h).
#pragma once

#include <memory>

#include "shim/execs/recording.h"

namespace graphpool {

class StagePlanTable {
 public:
  using Plans = std::shared_ptr<const StagePlans>;

  /// The plans for the rules of this binding's buffers. Null: nothing may be staged, or all plans are in use.
  Plans plans_for(Recording& recording, const Binding& binding) EXCLUDES(g_recordings_lock);

  /// Notes for the report why the recording is not staged. `reason`: a literal; null: it is staged.
  static void note_not_staged(Recording& recording, const char* reason) noexcept EXCLUDES(g_recordings_lock);

 private:
  Plans find(const Recording& recording, const std::vector<std::uint32_t>& rules) REQUIRES(g_recordings_lock);
  static bool make_room(Recording& recording) REQUIRES(g_recordings_lock);

  std::uint64_t clock_ GUARDED_BY(g_recordings_lock) = 0;  ///< orders uses of plans
};

}  // namespace graphpool
