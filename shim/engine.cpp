#include "shim/engine.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "policy/load.h"
#include "shim/buffer_rules.h"
#include "shim/compile/permits.h"
#include "shim/coverage.h"
#include "shim/elf_image.h"
#include "shim/graph/graphs.h"
#include "shim/graph/stale_addresses.h"
#include "shim/log.h"
#include "shim/memory/memory_look.h"
#include "shim/memory/pool.h"
#include "shim/next.h"
#include "shim/report/about.h"
#include "shim/report/report.h"

namespace graphpool {
namespace {

/// Set once, before any body runs; never destroyed.
const Policy* g_policy = nullptr;

void configure_graphs(const Policy& policy) {
  GraphSettings& settings = graphs().settings();
  settings.virtual_capture = policy.graph.virtual_capture;
  settings.reuse = policy.graph.reuse;
  settings.weigh = policy.graph.weigh;
  settings.strategy = policy.graph.strategy;
  settings.most_templates = policy.graph.recordings;
  settings.most_recording_bytes = policy.graph.recording_memory.bytes;
  settings.most_variants = policy.graph.variants;
  settings.most_variant_bytes = policy.graph.variant_memory.bytes;
  settings.verify = policy.graph.verify;
  settings.check = policy.graph.check;
  settings.looks_at_launches = settings.check || settings.verify.mode != Verify::Mode::kOff;
  settings.track_operands = !policy.report.file.empty();
  settings.patch_budget = policy.graph.patch_budget;
  settings.ring_timeout = policy.graph.ring_timeout;
  g_uses_tracked.store(
      std::any_of(policy.buffers.begin(), policy.buffers.end(),
                  [](const BufferRule& rule) { return copies_out_whole(rule) && rule.stage != Stage::kNever; }),
      std::memory_order_relaxed);
  pool().set_reclaim([](int device) { return graphs().reclaim(device); });
}

/// Without memory to do it in, a virtual graph that names it stays as it is.
void tell_graphs(const void* address, std::size_t bytes) noexcept {
  // Launches that are compared wait a second at most, a few times.
  static_cast<void>(MemoryLook::wait_for_others(address, bytes, std::chrono::seconds(4)));
  if (g_policy->graph.check) stale_addresses().memory_leaves(address);
  try {
    graphs().memory_leaves(address, bytes, "memory was freed");
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
  pool().configure(settings, decide_by_policy);
}

/// Under the lock of policy_of_process().
bool load_policy_once() noexcept {
  static constinit bool loaded_before = false;
  if (std::exchange(loaded_before, true)) return g_policy != nullptr;
  if (getauxval(AT_SECURE) != 0) return false;  // files would be read and written for who called, with more rights
  if (another_copy_behind_us()) {
    log_warn("this library is preloaded twice, from two files: the first passes every call through");
    return false;
  }
  Loaded loaded = load(read_policy_file, environ);
  if (loaded.policy.has_value()) open_log(loaded.policy->log.level, loaded.policy->log.file);
  for (const std::string& warning : loaded.warnings) log_warn("%s", warning.c_str());
  if (!loaded.policy.has_value()) {
    for (const std::string& error : loaded.errors) log_error("%s", error.c_str());
    log_error("the policy cannot be used: every call of this process is passed through");
    return false;
  }
  if (!loaded.policy->enabled) return false;
  note_policy_given(std::move(loaded.given));
  g_policy = new (std::nothrow) Policy(std::move(*loaded.policy));
  return g_policy != nullptr;
}

}  // namespace

const Policy& policy() noexcept { return *g_policy; }

bool another_copy_behind_us() noexcept {
  bool behind_us = false;
  return for_each_image([&behind_us](const ElfImage& image) {
    if (image.contains(reinterpret_cast<const void*>(&another_copy_behind_us))) return behind_us = true, false;
    // No other library has functions of HIP, of a compiler and of the C library.
    return behind_us && image.find_export("hipGraphLaunch") != nullptr && image.find_export("prctl") != nullptr &&
           image.find_export("amd_comgr_do_action") != nullptr;
  });
}

const Policy* policy_of_process() noexcept {
  // A child forked while another thread of its parent reads it has none.
  static constinit pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static constinit pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
  pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, [] { lock = PTHREAD_MUTEX_INITIALIZER; }); });
  const LogLater log_without_lock;
  pthread_mutex_lock(&lock);
  const bool usable = load_policy_once();
  pthread_mutex_unlock(&lock);
  return usable ? g_policy : nullptr;
}

bool load_policy() noexcept { return policy_of_process() != nullptr; }

void open_what_policy_needs() noexcept { open_call_sites(*g_policy); }

bool start_engine() noexcept {
  try {
    configure_pool(*g_policy);
    configure_graphs(*g_policy);
  } catch (const std::bad_alloc&) {
    return false;
  }
  check_coverage();
  note_scope_counts(*g_policy);
  write_reports(g_policy->report.file, g_policy->report.every);
  return true;
}

}  // namespace graphpool
