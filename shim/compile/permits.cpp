#include "shim/compile/permits.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "shim/base/fork_lock.h"
#include "shim/base/lock_rank.h"
#include "shim/base/log.h"
#include "shim/base/trace.h"
#include "shim/compile/compiler_process.h"
#include "shim/compile/control_group.h"
#include "shim/compile/jobserver.h"
#include "shim/compile/pool_threads.h"
#include "shim/compile/shared_memory.h"
#include "shim/hip/entry.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

/// How many CompileScopes the thread is in.
constinit thread_local int t_depth __attribute__((tls_model("initial-exec"))) = 0;
/// The permit that the thread holds or rides on.
constinit thread_local Permit t_permit __attribute__((tls_model("initial-exec")));

constinit std::atomic<CompilePermits*> g_permits{nullptr};
constinit std::atomic<bool> g_off{false};
/// Held by the thread that opens the permits.
constinit ForkLock g_start_lock;
/// Held through a compilation where the runtime would let no other thread compile.
constinit ForkLock g_alone GUARDS_NO_DATA;

/// This is a forked child: whoever forked it may be waiting for it, inside a compilation.
constinit bool g_forked = false;

/// Locks that other threads of the parent held are nobody's in the child; private permits are gone.
void after_fork_in_child() noexcept {
  g_start_lock.make_anew();
  g_alone.make_anew();
  g_permits.store(nullptr, std::memory_order_relaxed);
  g_forked = true;
  forget_pool_threads();
}

/// What the scope had done when note_scope_counts() was called.
struct ScopeBefore {
  Scope scope;
  std::uint64_t since_ns;
  ScopeCounts counts;
};
constinit ScopeBefore g_before{};
constinit std::atomic<bool> g_before_claimed{false}, g_before_noted{false};

CompilePermits* make_permits_of_process() REQUIRES(g_start_lock) {
  const Policy* const policy = policy_of_process();
  if (policy == nullptr || !policy->compile.enabled) return nullptr;
  if (policy->compile.scope == Scope::kProcess && policy_may_say("GRAPHPOOL_COMPILE_TOOLS", "tools"))
    log_warn("policy: compile.tools has no effect in the scope of a process: only its calls count");
  Scope scope = policy->compile.scope;
  note_scope_counts(*policy);
  SharedPermits* memory = open_permits(scope);
  if (memory == nullptr && scope != Scope::kProcess) {
    log_warn("compile: permits cannot be shared with other processes: they count in this one only");
    memory = open_permits(scope = Scope::kProcess);
  }
  if (memory == nullptr) return nullptr;
  auto* const permits = new CompilePermits;
  permits->table = PermitTable(*memory, machine());
  permits->settings = permit_settings(*policy);
  permits->scope = scope;
  if (const char* const text = std::getenv(kPermitVariable)) permits->parent = parse_permit(text);
  permits_opened(*policy);
  return permits;
}

/// Whether the permit that the thread has or rides on is still held. Forgets the permit if not.
bool thread_rides(const CompilePermits& permits) noexcept {
  if (!t_permit.held()) return false;
  if (t_permit.process == getpid() && permits.table.lasts(t_permit)) return true;
  t_permit = {};
  return false;
}

ProcessMemory own_memory() noexcept { return process_memory(machine(), machine().process()); }

/// Copies counters that other threads may be raising.
PermitCounters counted(const PermitCounters& counters) noexcept {
  PermitCounters copy;
  for (std::uint64_t PermitCounters::*const counter :
       {&PermitCounters::bytes_read, &PermitCounters::taken, &PermitCounters::ridden, &PermitCounters::waited,
        &PermitCounters::waited_ns, &PermitCounters::went_on, &PermitCounters::without, &PermitCounters::most_in_flight,
        &PermitCounters::least_headroom_bytes})
    copy.*counter = __atomic_load_n(&(counters.*counter), __ATOMIC_RELAXED);
  return copy;
}

}  // namespace

std::size_t class_name(const Compilation& compilation, char* text, std::size_t bytes) noexcept {
  std::uint64_t floor = 1;
  while (floor * 8 <= compilation.input_bytes) floor *= 8;
  const int length = std::snprintf(text, bytes, "%.*s %.*s %lluK", static_cast<int>(compilation.tool.size()),
                                   compilation.tool.data(), static_cast<int>(compilation.kind.size()),
                                   compilation.kind.data(), static_cast<unsigned long long>(floor / 1024));
  return length < 0 ? 0 : std::min(static_cast<std::size_t>(length), bytes - 1);
}

PermitSettings permit_settings(const Policy& policy) noexcept {
  PermitSettings settings;
  settings.max = policy.compile.max;
  if (settings.max.is_auto()) settings.quota = processor_quota(machine());
  settings.reserve = policy.compile.reserve;
  settings.idle_ns = static_cast<std::uint64_t>(policy.compile.wait.count());
  if (policy.compile.jobserver == Jobserver::kOff) return settings;
  static constinit JobTokens tokens;
  if (tokens.open(machine())) settings.tokens = &tokens;
  settings.pool_size = tokens.jobs();
  return settings;
}

CompilePermits* compile_permits() noexcept {
  CompilePermits* permits = g_permits.load(std::memory_order_acquire);
  if (permits != nullptr || g_off.load(std::memory_order_acquire)) return permits;
  // Before the lock: a child forked by another thread meanwhile must not find it locked.
  static constinit pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
  pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, after_fork_in_child); });
  const LogLater log_without_lock;
  const LockGuard guard(g_start_lock);
  permits = g_permits.load(std::memory_order_acquire);
  if (permits == nullptr && !g_off.load(std::memory_order_acquire)) {
    try {
      permits = make_permits_of_process();
    } catch (const std::bad_alloc&) {
    }
    if (permits == nullptr) {
      g_off.store(true, std::memory_order_release);
    } else {
      g_permits.store(permits, std::memory_order_release);
    }
  }
  return permits;
}

bool compilation_would_count() noexcept {
  if (t_depth != 0) return false;
  const GuestScope guest;
  return compile_permits() != nullptr;
}

const CompilePermits* compile_permits_in_use() noexcept { return g_permits.load(std::memory_order_acquire); }

void note_scope_counts(const Policy& policy) noexcept {
  const Scope scope = policy.compile.scope;
  if (!policy.compile.enabled || policy.report.file.empty() || scope == Scope::kProcess) return;
  if (g_before_claimed.exchange(true, std::memory_order_relaxed)) return;
  SharedPermits* const memory = find_permits(scope);
  if (memory != nullptr) g_before.counts = memory->figures.counts();
  close_permits(memory);
  g_before.scope = scope;
  g_before.since_ns = machine().now_ns();
  g_before_noted.store(true, std::memory_order_release);
}

bool read_compile_report(CompileReport& report) noexcept {
  const CompilePermits* const permits = compile_permits_in_use();
  const bool noted = g_before_noted.load(std::memory_order_acquire);
  SharedPermits* const found = permits == nullptr && noted ? find_permits(g_before.scope) : nullptr;
  if (permits == nullptr && found == nullptr) return false;
  PermitTable table = permits != nullptr ? permits->table : PermitTable(*found, machine());
  if (permits != nullptr) report.process = counted(permits->counters);
  report.scope = permits != nullptr ? permits->scope : g_before.scope;
  const ScopeBefore before = noted && report.scope != Scope::kProcess ? g_before : ScopeBefore{};
  const ScopeFigures& figures = table.figures();
  report.counts = figures.counts();
  for (std::uint64_t ScopeCounts::*const counter : kScopeCounters) {
    // Less than before: somebody has removed the table, and this is another one.
    std::uint64_t& count = report.counts.*counter;
    if (count >= before.counts.*counter) count -= before.counts.*counter;
  }
  report.peak_in_flight = figures.peak_in_flight(before.since_ns);
  report.most_held_bytes = figures.most_held_bytes(before.since_ns);
  report.least_headroom_bytes = figures.least_headroom_bytes(before.since_ns);
  report.class_count = table.classes(report.classes, kMostClasses);
  report.holder_count = table.holders(report.holders, kMostPermits);
  close_permits(found);
  return permits != nullptr || report.peak_in_flight != 0 || report.counts.ridden + report.counts.without != 0;
}

Permit permit_of_thread() noexcept { return t_permit.process == getpid() ? t_permit : Permit{}; }

void ride_in_thread(const Permit& permit) noexcept { t_permit = permit; }

bool inside_compilation() noexcept { return t_depth != 0; }

bool thread_compiles() noexcept {
  if (t_depth != 0 || compiler_process_holds()) return true;
  const CompilePermits* const permits = compile_permits_in_use();
  return permits != nullptr && thread_rides(*permits);
}

CompileScope::CompileScope(const Compilation& compilation) noexcept {
  if (compilation.tool.empty()) return;
  counted_ = true;
  if (t_depth++ != 0) return;
  outermost_ = true;
  const GuestScope guest;
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return;
  const InsideScope inside;
  traced_since_ = trace_begins();
  if (compiler_process_holds()) return;
  if (thread_rides(*permits)) {
    __atomic_add_fetch(&permits->counters.ridden, 1, __ATOMIC_RELAXED);
    permits->table.figures().add(&ScopeCounts::ridden);
    return;
  }
  if (compilation.one_at_a_time) {
    g_alone.lock();
    alone_ = true;
  }
  char name[kClassNameBytes];
  PermitRequest request;
  request.size_class = {name, class_name(compilation, name, sizeof name)};
  request.input_bytes = compilation.input_bytes;
  request.kind = HolderKind::kCall;
  request.before = own_memory();
  ParentPermit parent = permits->parent;
  if (g_forked) parent = {}, parent.holder = process_name(machine(), getppid());
  static_cast<void>(
      wait_for_permit(permits->table, machine(), permits->settings, request, parent, permits->counters, permit_));
  if (!permit_.held()) return;
  t_permit = permit_;
  holds_ = true;
}

CompileScope::~CompileScope() {
  if (counted_) --t_depth;
  if (!outermost_) return;
  const GuestScope guest;
  if (traced_since_ != 0) [[unlikely]]
    trace({TraceKind::kCompile, 0, traced_since_, trace_ticks(), holds_ ? "held" : "of another, or none"});
  if (holds_) t_permit = {};
  if (permit_.held())
    if (CompilePermits* const permits = compile_permits())
      end_permit(permits->table, permits->settings, permit_, own_memory());
  if (alone_) g_alone.unlock();
}

}  // namespace graphpool
