#include "shim/graphs/graphs.h"

#include <memory>
#include <utility>

#include "shim/base/hot.h"
#include "shim/base/seeded_defect.h"
#include "shim/capture/capture.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/user_objects.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_state.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

HOT Graphs& graphs() noexcept {
  static Graphs* const instance = new Graphs;
  return *instance;
}

void Graphs::drop_free_execs_of(const void* place) {
  {
    const LockGuard guard(g_recordings_lock);
    recordings.keep_no_variants_of(place);
  }
  store.evict_due();
}

hipError_t Graphs::destroy_exec(hipGraphExec_t handle) {
  const TimedCall timed;
  if (!execs.gave_out(handle)) {
    unknown_ends();
    const CallbackScope callbacks;
    return stream_work().destroy_exec(handle);
  }
  std::unique_ptr<ProgramExec> exec(execs.find(handle));
  if (exec == nullptr) return refuse();
  static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
  if (seeded_defect(Seeded::kDestroyedExecServes)) {
    static_cast<void>(exec.release());
    return hipSuccess;
  }
  execs.remove(handle);
  exec_limit.remove(*exec);
  {
    const LockGuard guard(exec->lock);
    if (!exec->launches.destroy()) {
      static_cast<void>(exec.release());  // it goes with the launch
      return hipSuccess;
    }
    if ((exec->recording != nullptr || exec->objects != nullptr) && exec->variant != nullptr)
      exec->variant->launches.seal();
  }
  RetiredVariants retired;
  bindings.release(std::move(exec), &retired);
  if (recordings.tree_over_limit()) [[unlikely]] {
    deferred.end_builds("too many recordings");
    end_walks("too many recordings");
  }
  return hipSuccess;
}

void Graphs::before_memory_is_freed(const void* address, std::size_t bytes, const char* reason) {
  deferred.before_memory_is_freed(address, bytes, reason);
  unstaged.before_memory_is_freed(address, bytes);
}

void Graphs::before_module_is_unloaded(OperationTest names, OperationTest ends, const char* reason) {
  deferred.make_real_with(names, reason);
  unstaged.make_with(names);
  {
    RetiredVariants retired;  // destroyed before the functions are gone
    const LockGuard guard(g_recordings_lock);
    recordings.outdate(ends, &retired);
  }
  if (exec_limit.on()) unstaged.make_with(ends);  // what was given back meanwhile
}

void Graphs::device_reset(int device) noexcept {
  passed_events_device_reset(device);
  g_private_handles.forget_all();
  let_go_of_graphs(false);
  // What the runtime made on the device is gone with it: forget it without destroying.
  const LockGuard guard(g_recordings_lock);
  store.device_reset(device);
}

}  // namespace graphpool
