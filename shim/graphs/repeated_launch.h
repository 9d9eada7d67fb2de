// repeated_launch.h: compares a launch with the same launch by a new exec on copies (launch_verifier.h).
//
// The exec's variant may still write to memory of earlier bindings, where the runtime has updated it wrongly. That
// memory is copied, too, so that it can be restored.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/graphs/launch_verifier.h"
#include "shim/staging/staging.h"
#include "shim/streams/stream_work.h"
#include "shim/verify/memory_look.h"

namespace graphpool {

class RepeatedLaunch : private ComparedLaunch {
 public:
  /// The launch is served by the exec of the program's own graph, if that was found; else by the exec's own variant.
  RepeatedLaunch(LaunchVerifier& verifier, const AskedLaunch& asked, LaunchSelected selected, FoundExec found) noexcept
      : ComparedLaunch(verifier, asked, selected, std::move(found)), submitted_(work_counts().submitted()) {}

  /// Makes the launch, once. Its result is the program's.
  hipError_t launch();

 private:
  const char* prepare();
  const char* copy_memory();
  std::vector<std::uint64_t> reached() const EXCLUDES(g_recordings_lock);
  bool has_become_own() const noexcept EXCLUDES(exec_.lock);
  bool is_alone() const noexcept { return work_counts().submitted() == submitted_ + 1; }
  void repeat();

  const std::uint64_t submitted_;  ///< work of all streams before the launch
  std::unique_ptr<Variant> anew_;  ///< the new exec
  std::unique_ptr<StagePlan> plan_;
  std::vector<char*> bases_;  ///< all memory that the graph may reach
  Shadows shadows_;
  MemoryLook look_;
};

}  // namespace graphpool
