#include "shim/compile/pool_threads.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string_view>

#include "shim/compile/compiler_process.h"
#include "shim/compile/permits.h"
#include "shim/elf_image.h"
#include "shim/engine.h"
#include "shim/entry.h"

namespace graphpool {
namespace {

constinit thread_local Permit t_own __attribute__((tls_model("initial-exec")));

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

/// By globs that name a library; the default names none.
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

/// At the thread's end, however it ends.
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

void take(std::string_view kind) noexcept {
  if ((t_own.held() && t_own.process == getpid()) || thread_compiles() || machine().thread() == machine().process())
    return;
  CompilePermits* const permits = compile_permits();
  if (permits == nullptr) return;
  const InsideScope inside;
  char name[kClassNameBytes];
  PermitRequest request;
  request.size_class = {name, class_name({"thread", kind}, name, sizeof name)};
  request.in_process = request.pool_thread = true;
  request.before = process_memory(machine(), machine().process());
  if (!give_back_at_end()) return;
  static_cast<void>(
      wait_for_permit(permits->table, machine(), permits->settings, request, {}, permits->counters, t_own));
  if (t_own.held()) ride_in_thread(t_own);
}

}  // namespace

NewThread* new_thread(void* (*start)(void*), void* argument) noexcept {
  // A pool thread's own permit is its own: those it starts may be of the pool.
  const Permit permit = t_own.held() && t_own.process == getpid() ? Permit{} : permit_of_thread();
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
  if (thread.counts) take("module");
}

void thread_is_named(const char* name) noexcept {
  if (t_inside || name == nullptr) return;
  const GuestScope guest;
  const std::string_view text(name);
  if (is_wanted(text)) take(kind_of(text));
}

}  // namespace graphpool
