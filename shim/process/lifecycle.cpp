// lifecycle.cpp: starts the library at the first HIP call, follows forks, makes the library pass through, and has the
// slow way of forwarded entries, gp_forward_slow().
//
// The first HIP call may come before this library's own constructors, and the last one after the exit handlers. So all
// state is constant-initialised or made on first use, and none of it is ever destroyed.
#include <pthread.h>
#include <unistd.h>

#include "shim/base/fork_lock.h"
#include "shim/base/guest_scope.h"
#include "shim/base/lock_rank.h"
#include "shim/base/log.h"
#include "shim/capture/momentary_streams.h"
#include "shim/hip/coverage.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/process_policy.h"
#include "shim/process/engine.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

constinit std::atomic<Mode> g_mode{Mode::kStarting};
constinit thread_local bool t_inside __attribute__((tls_model("initial-exec"))) = false;

constinit thread_local const void* t_caller __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool t_error_possible __attribute__((tls_model("initial-exec"))) = false;
constinit thread_local std::uint32_t t_attention_round __attribute__((tls_model("initial-exec"))) = 0;

extern "C" {
std::uint64_t gp_calls[kEntryCount] __attribute__((visibility("hidden"))) = {};
/// Whether a forwarded entry must take the slow way. Read by hooks/forward.S.
__attribute__((visibility("hidden"))) std::uint8_t gp_attention = 1;
}

namespace {

/// Held by the thread that finds out how the process is to run.
constinit ForkLock g_start_lock;

/// The effect of a forwarded entry on open captures, from its row.
enum class ForwardEffect : std::uint8_t { Plain, Quiet, Stream };
constexpr ForwardEffect kEffects[kEntryCount] = {
#define HIP_HOOK(result, name, params, args, node, declared, effect) ForwardEffect::Plain,
#define HIP_NEXT(result, name, params, args, node, declared, effect) ForwardEffect::effect,
#define HIP_FORWARD(name, node, effect) ForwardEffect::effect,
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
};

/// The mode comes last: a thread that finds the library active may open a capture, which sets the attention.
void set_mode(Mode mode) noexcept {
  set_attention(false);
  g_mode.store(mode, std::memory_order_release);
}

/// A child of a process that had initialised HIP cannot use HIP (nor could it without us): everything is forwarded.
void after_fork_in_child() noexcept { set_mode(Mode::kPassThrough); }

/// How many threads are in start().
constinit std::atomic<int> g_starting{0};

/// Ends the start of the process. `usable`: there is a policy to start the engine by.
void start_as(bool usable) noexcept REQUIRES(g_start_lock) {
  const bool active = usable && start_engine();
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  set_mode(active ? Mode::kActive : Mode::kPassThrough);
}

/// In a child that was forked while another thread of the parent was in start(): gives up what that thread had begun.
void after_fork_while_starting() noexcept {
  if (g_starting.exchange(0, std::memory_order_relaxed) == 0) return;
  g_start_lock.make_anew();
  set_mode(Mode::kPassThrough);
}

}  // namespace

void set_attention(bool wanted) noexcept { __atomic_store_n(&gp_attention, wanted ? 1 : 0, __ATOMIC_RELEASE); }

// Nothing under the lock may wait for HIP, or call a dl* function that waits for constructors (dl_iterate_phdr does
// not): another thread may be in a constructor that the loader runs under a lock of its own, and that constructor's
// first HIP call waits here.
void start() noexcept {
  const GuestScope guest;
  InsideScope inside;
  const LogLater log_without_lock;
  resolve_next();
  // Before the C library has started (.preinit_array) there is no environment, so no policy: such calls are forwarded.
  if (environ != nullptr) {
    static constinit pthread_once_t watching_forks = PTHREAD_ONCE_INIT;
    pthread_once(&watching_forks, [] { pthread_atfork(nullptr, nullptr, after_fork_while_starting); });
    g_starting.fetch_add(1, std::memory_order_relaxed);
    const auto starting = [] { return g_mode.load(std::memory_order_acquire) == Mode::kStarting; };
    bool usable = false;
    {
      const LockGuard guard(g_start_lock);
      usable = starting() && policy_of_process() != nullptr;
    }
    if (usable) open_what_policy_needs();
    {
      const LockGuard guard(g_start_lock);
      if (starting()) start_as(usable);
    }
    g_starting.fetch_sub(1, std::memory_order_relaxed);
  }
  keep_runtime_loaded();
}

void pass_through(const char* reason) noexcept {
  Mode expected = Mode::kActive;
  if (g_mode.compare_exchange_strong(expected, Mode::kDraining))
    log_warn("%s: every call is passed through from now on", reason);
}

/// The slow way of a forwarded entry (hooks/forward.S): returns the address to jump to.
extern "C" __attribute__((visibility("hidden"))) void* gp_forward_slow(std::size_t index) noexcept {
  if (g_mode.load(std::memory_order_acquire) == Mode::kStarting && !t_inside) start();
  // Calls from inside an entry count too: a library may change the device in a call of its own.
  if (kEffects[index] == ForwardEffect::Plain || static_cast<EntryId>(index) == EntryId::hipSetDevice)
    g_device_changes.fetch_add(1, std::memory_order_acq_rel);
  if (!t_inside && captures_open()) {
    t_error_possible = true;
    if (kEffects[index] == ForwardEffect::Stream) any_stream_named();
    if (kEffects[index] == ForwardEffect::Plain) make_joins();
    if (kEffects[index] == ForwardEffect::Stream) note_unknown_operation(static_cast<EntryId>(index));
    if (kEffects[index] == ForwardEffect::Plain) note_capture_doubt();
  }
  return reinterpret_cast<void* const*>(&g_next)[index];
}

}  // namespace graphpool
