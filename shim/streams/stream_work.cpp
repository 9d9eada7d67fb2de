#include "shim/streams/stream_work.h"

#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {

constinit StreamWorkOfProcess g_stream_work;

void StreamWork::before_destroy(hipStream_t stream) noexcept {
  if (!is_stream_handle(stream)) return;
  {
    const LockGuard guard(g_streams_lock);
    if (!counts.is_known(stream)) return;
    if (!counts.is_busy(stream)) return counts.destroyed(stream, false);
  }
  const PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Fences::Making making(fences);
  if (!counts.is_known(stream)) return;
  const bool fenced = counts.is_busy(stream) && fences.stays_fenced(counts.device_of_stream(stream), stream);
  counts.destroyed(stream, fenced);
}

hipError_t StreamWork::destroy_exec(hipGraphExec_t exec) noexcept {
  return destroy_exec(exec, has_defect(Defect::kExecsEndLate) ? calling_device() : -1);
}

hipError_t StreamWork::destroy_exec(hipGraphExec_t exec, int device) noexcept {
  const hipError_t result = next().hipGraphExecDestroy(no_longer_private(exec));
  if (result == hipSuccess && valid_device(device) && has_defect(Defect::kExecsEndLate)) counts.note_exec_ends(device);
  return result;
}

void StreamWork::device_reset(int device) noexcept {
  if (!valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  fences.device_reset(device);
  counts.device_reset(device);
}

}  // namespace graphpool
