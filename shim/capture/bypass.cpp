#include "shim/capture/bypass.h"

#include "shim/base/log.h"
#include "shim/capture/capture.h"
#include "shim/hip/coverage.h"
#include "shim/memory/device_memory.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

bool captures_bypassed() noexcept {
  return unknown_entries_in_use() || g_captures_passed_by.load(std::memory_order_relaxed) || runs_at_once();
}

void note_passed_by() noexcept {
  if (!g_captures_passed_by.exchange(true))
    log_warn("operations reached a capture past the library: captures are left to the runtime from now on");
}

[[gnu::cold, gnu::noinline]] void leave_to_runtime(StreamArgument stream) {
  work_counts().note_work(plain_handle(stream));
  if (g_runs_at_once.exchange(true)) return;
  device_memory().stop_keeping();
  log_warn("this runtime runs kernels at once that are launched into a capture: graphs and memory are left to it");
}

}  // namespace graphpool
