#include "shim/compile/pool_threads.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string_view>

#include "shim/compile/compiler_process.h"
#include "shim/compile/permits.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/entry.h"
#include "shim/hip/process_policy.h"

namespace graphpool {
namespace {

constinit thread_local Permit t_own __attribute__((tls_model("initial-exec")));
constinit thread_local char t_class[kClassNameBytes] __attribute__((tls_model("initial-exec"))) = {};
/// When the thread last took a permit of its own, or went on without one.
constinit thread_local std::uint64_t t_since_ns __attribute__((tls_model("initial-exec"))) = 0;

/// Threads whose end somebody waits for. A thread without room here waits for its permit like others.
struct Join {
  std::atomic<bool> used;
  std::atomic<pthread_t> thread;
};
constinit Join g_joins[64] = {};
/// Whether there has been a pool thread: else joins are not looked at.
constinit std::atomic<bool> g_pools{false};
/// Threads that have work and wait for a permit.
constinit std::atomic<int> g_waiting{0};

bool is_joined() noexcept {
  return std::any_of(std::begin(g_joins), std::end(g_joins), [](const Join& join) {
    return join.used.load(std::memory_order_acquire) && join.thread.load(std::memory_order_acquire) == pthread_self();
  });
}

/// Whether a policy may name threads of its own; asked once.
bool policy_may_name_threads() noexcept {
  static constinit std::atomic<int> known{-1};
  int may = known.load(std::memory_order_relaxed);
  if (may < 0) known.store(may = policy_may_say("GRAPHPOOL_COMPILE_THREADS", "threads"), std::memory_order_relaxed);
  return may != 0;
}

const std::vector<Glob>* thread_globs() noexcept {
  const Policy* const policy = policy_of_process();
  return policy != nullptr && policy->compile.enabled ? &policy->compile.threads : nullptr;
}

bool is_wanted(std::string_view name) noexcept {
  if (!policy_may_name_threads()) return matches_default("compile.threads", name);
  const std::vector<Glob>* const globs = thread_globs();
  return globs != nullptr &&
         std::any_of(globs->begin(), globs->end(), [name](const Glob& glob) { return glob.matches(name); });
}

/// Whether `start` is in a library that a glob names; the default names none.
bool is_wanted_module(const void* start) noexcept {
  if (!policy_may_name_threads()) return false;
  const std::vector<Glob>* const globs = thread_globs();
  const auto names_library = [](const Glob& glob) { return glob.pattern().find(".so") != std::string::npos; };
  if (globs == nullptr || std::none_of(globs->begin(), globs->end(), names_library)) return false;
  bool wanted = false;
  for_each_image([&](const ElfImage& image) {
    if (!image.contains(start)) return false;
    wanted = std::any_of(globs->begin(), globs->end(),
                         [&](const Glob& glob) { return names_library(glob) && glob.matches(image.basename()); });
    return true;
  });
  return wanted;
}

void give_back(void*) noexcept {
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr || !t_own.held()) return;
  const GuestScope guest;
  const InsideScope inside;
  ride_in_thread({});
  end_permit(permits->table, permits->settings, t_own, process_memory(machine(), machine().process()));
}

/// Has the permit given back at the thread's end, however it ends.
bool give_back_at_end() noexcept {
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static bool made = false;
  pthread_once(&once, [] { made = pthread_key_create(&key, give_back) == 0; });
  return made && pthread_setspecific(key, &t_own) == 0;
}

/// "llvm-worker-12" and "llvm-worker-3" are one kind.
std::string_view kind_of(std::string_view name) noexcept {
  return name.substr(0, name.find_last_not_of("0123456789-/_ ") + 1);
}

bool holds_own() noexcept { return t_own.held() && t_own.process == getpid(); }

PermitRequest own_request() noexcept {
  PermitRequest request;
  request.size_class = t_class;
  request.kind = HolderKind::kPoolThread;
  request.before = process_memory(machine(), machine().process());
  return request;
}

/// Lets a thread that has work stop waiting when its end is waited for, or as soon as it may be serving a call.
GoesOn may_go_on(PermitTable& table) noexcept {
  if (const Permit served = table.permit_to_serve(); served.held()) {
    ride_in_thread(served);
    return GoesOn::kRiding;
  }
  return is_joined() ? GoesOn::kOverTheLimit : GoesOn::kNo;
}

/// Waits for a permit of the thread's own. goes_on: see PermitRequest.
void take(GoesOn (*goes_on)(PermitTable&)) noexcept {
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return;
  const InsideScope inside;
  if (!give_back_at_end()) return;
  PermitRequest request = own_request();
  request.goes_on = goes_on;
  static_cast<void>(
      wait_for_permit(permits->table, machine(), permits->settings, request, {}, permits->counters, t_own));
  t_since_ns = machine().now_ns();
  if (t_own.held()) ride_in_thread(t_own);
}

void join_pool(std::string_view kind) noexcept {
  if (holds_own() || thread_compiles() || machine().thread() == machine().process()) return;
  static_cast<void>(class_name({"thread", kind}, t_class, sizeof t_class));
  t_pool_thread = true;
  g_pools.store(true, std::memory_order_relaxed);
  take(nullptr);
}

}  // namespace

constinit thread_local bool t_pool_thread = false;
constinit thread_local std::uint32_t t_names_seen = 0;
constinit std::uint32_t g_names_by_others = 1;  // each thread looks once

NewThread* new_thread(void* (*start)(void*), void* argument) noexcept {
  // A pool thread's own permit is its own: those it starts may be of the pool.
  const Permit permit = holds_own() ? Permit{} : permit_of_thread();
  bool counts = false;
  if (!permit.held() && !t_inside) {
    const GuestScope guest;
    const InsideScope inside;
    counts = is_wanted_module(reinterpret_cast<const void*>(start));
  }
  if (!permit.held() && !counts) return nullptr;
  return new (std::nothrow) NewThread{start, argument, permit.index, permit.generation, counts};
}

void thread_begins(const NewThread& thread) noexcept {
  if (thread.permit < kMostPermits) {
    Permit permit;
    permit.index = thread.permit;
    permit.generation = thread.generation;
    permit.process = getpid();
    ride_in_thread(permit);
  }
  const GuestScope guest;
  if (thread.counts) join_pool("module");
}

void thread_is_named(std::string_view name) noexcept {
  if (t_inside) return;
  const GuestScope guest;
  if (is_wanted(name)) join_pool(kind_of(name));
}

void another_thread_is_named(std::string_view name) noexcept {
  if (t_inside) return;
  const GuestScope guest;
  if (is_wanted(name)) __atomic_add_fetch(&g_names_by_others, 1, __ATOMIC_RELAXED);
}

bool has_pool_name() noexcept {
  const GuestScope guest;
  t_names_seen = __atomic_load_n(&g_names_by_others, __ATOMIC_RELAXED);
  char name[16 + 1] = "";
  if (t_inside || syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0) != 0 || !is_wanted(name)) return false;
  if (thread_compiles() || machine().thread() == machine().process()) return false;
  static_cast<void>(class_name({"thread", kind_of(name)}, t_class, sizeof t_class));
  g_pools.store(true, std::memory_order_relaxed);
  return t_pool_thread = true;
}

void pool_thread_sleeps() noexcept {
  if (inside_compilation() || !holds_own()) return;
  const GuestScope guest;
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return;
  const InsideScope inside;
  if (machine().now_ns() - t_since_ns < kShortSleep) return permits->table.sleep(t_own);
  // Its work took long enough for its size to be learnt.
  give_back(nullptr);
}

bool pool_thread_wakes(bool anyway) noexcept {
  if (inside_compilation()) return true;
  const GuestScope guest;
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return true;
  const InsideScope inside;
  if (!holds_own()) {
    if (thread_compiles()) return true;
    if (!anyway) return false;
    if (give_back_at_end() && permits->table.usable()) t_own = permits->table.take_anyway(own_request());
    if (holds_own()) {
      t_since_ns = machine().now_ns();
      ride_in_thread(t_own);
    }
    return true;
  }
  return permits->table.wake_up(t_own, permit_limits(permits->settings, machine(), 0), anyway) || anyway;
}

void pool_thread_waits() noexcept {
  const GuestScope guest;
  const InsideScope inside;
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return;
  if (holds_own()) give_back(nullptr);
  g_waiting.fetch_add(1, std::memory_order_relaxed);
  take(may_go_on);
  g_waiting.fetch_sub(1, std::memory_order_relaxed);
}

void forget_pool_threads() noexcept {
  t_pool_thread = false;
  g_waiting.store(0, std::memory_order_relaxed);
  for (Join& join : g_joins) join.used.store(false, std::memory_order_relaxed);
}

JoinScope::JoinScope(pthread_t thread) noexcept {
  if (!g_pools.load(std::memory_order_relaxed)) return;
  for (Join& join : g_joins) {
    bool used = false;
    if (!join.used.compare_exchange_strong(used, true, std::memory_order_acq_rel)) continue;
    join.thread.store(thread, std::memory_order_release);
    place_ = static_cast<int>(&join - g_joins);
    break;
  }
  if (g_waiting.load(std::memory_order_relaxed) == 0) return;
  const GuestScope guest;  // whoever waits looks again
  if (const CompilePermits* const permits = compile_permits_in_use()) permits->table.wake_waiters();
}

JoinScope::~JoinScope() {
  if (place_ < 0) return;
  g_joins[place_].thread.store(pthread_t{}, std::memory_order_relaxed);
  g_joins[place_].used.store(false, std::memory_order_release);
}

}  // namespace graphpool
