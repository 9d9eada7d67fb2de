#include "shim/process/engine.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "shim/base/event_log.h"
#include "shim/base/log.h"
#include "shim/base/owner_lock.h"
#include "shim/compile/permits.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/coverage.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"
#include "shim/memory/buffer_rules.h"
#include "shim/memory/device_memory.h"
#include "shim/report/report.h"
#include "shim/report/trace_file.h"
#include "shim/report/version.h"
#include "shim/streams/kept_streams.h"
#include "shim/verify/memory_look.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

void configure_graphs(const Policy& policy) {
  GraphSettings& settings = graphs().settings;
  settings.compare = policy.graph.compare;
  settings.reuse = policy.graph.reuse;
  settings.weigh = policy.graph.weigh;
  settings.strategy = policy.graph.strategy;
  settings.most_recordings = policy.graph.recordings;
  settings.most_recording_bytes = policy.graph.recording_memory.bytes;
  settings.most_variants = policy.graph.variants;
  settings.most_variant_bytes = policy.graph.variant_memory.bytes;
  settings.exec_memory = policy.graph.exec_memory.bytes;
  settings.verify = policy.graph.verify;
  settings.check = policy.graph.check;
  settings.looks_at_launches =
      settings.check || settings.verify.mode != Verify::Mode::kOff || settings.exec_memory != 0;
  settings.track_operands = !policy.report.file.empty() || !policy.report.trace.empty() || log_enabled(LogLevel::kInfo);
  settings.patch_budget = policy.graph.patch_budget;
  settings.ring_timeout = policy.graph.ring_timeout;
  g_uses_tracked.store(
      std::any_of(policy.buffers.begin(), policy.buffers.end(),
                  [](const BufferRule& rule) { return copies_out_whole(rule) && rule.stage != Stage::kNever; }),
      std::memory_order_relaxed);
  memory_room().set_reclaim([](int device) {
    const bool streams = kept_streams().give_back(device);
    return graphs().store.reclaim(device) || streams;
  });
}

/// Tells `verify`, graph.check, graphs and execs that memory is about to go back to the runtime. If there is no host
/// memory for that, those that name the memory stay as they are.
void tell_graphs(const void* address, std::size_t bytes) noexcept {
  // A comparison looks at memory through a few waits, each of a second at most.
  static_cast<void>(MemoryLook::wait_for_others(address, bytes, std::chrono::seconds(4)));
  if (policy().graph.check) stale_addresses().memory_leaves(address);
  try {
    graphs().before_memory_is_freed(address, bytes, "memory was freed");
  } catch (const std::bad_alloc&) {
  }
}

void configure_pool(const Policy& policy) {
  PoolSettings settings;
  settings.enabled = policy.pool.enabled && !policy.graph.check;  // what is kept would hide that it was freed
  if (policy.pool.limit.is_percent) {
    settings.limit_percent = policy.pool.limit.percent;
  } else {
    settings.limit_bytes = policy.pool.limit.bytes;
    settings.limit_percent = 0;
  }
  settings.large_bytes = policy.pool.large.bytes;
  settings.idle = policy.pool.idle;
  settings.deferred_free = policy.pool.free == FreeMode::kDeferred;
  settings.chunk_bytes = policy.pool.chunk.bytes;
  settings.preallocate_bytes = policy.pool.preallocate.bytes;
  settings.serve_captures = policy.graph.malloc_in_capture;
  if (settings.enabled && !runtime_owns_memory()) {
    settings.enabled = false;
    log_warn("hipMalloc is another library's, not the HIP runtime's: memory is left to it");
  }
  settings.leaving = tell_graphs;
  prepare_buffer_rules(policy);
  device_memory().configure(settings, decide_by_policy);
}

}  // namespace

void permits_opened(const Policy& policy) noexcept {
  open_trace(policy.report.trace);
  write_reports(policy.report.file, {});  // no thread in a process that only compiles
}

void open_what_policy_needs() noexcept {
  // While the process has one thread the kernel registers it at once. Later that takes it some milliseconds.
  static_cast<void>(kernel_has_barrier());
  open_call_sites(policy());
}

bool start_engine() noexcept {
  try {
    configure_pool(policy());
    configure_graphs(policy());
  } catch (const std::bad_alloc&) {
    return false;
  }
  check_coverage();
  note_scope_counts(policy());
  if (policy().report.file.empty()) log_info("version %s is active; no report is written", kVersion);
  open_event_log();
  open_trace(policy().report.trace);
  write_reports(policy().report.file, policy().report.every);
  return true;
}

}  // namespace graphpool
