// entry.h: the way into the library: what stands between an exported function and its body.
//
// Every exported function with a body asks entered() first. It says no, and the call goes to next untouched, when
//   - the library is switched off, the process is a forked child, or its state is in doubt (Mode::kPassThrough);
//   - the thread is already inside a body (the runtime calls itself through the PLT; so do other libraries);
//   - the caller is the HIP runtime itself.
// Otherwise the generated entry makes an Entry, which marks the thread as inside until the body has returned, and hands
// it to the body as its first argument: a body cannot be called without it.
//
// Cost: a thread-local byte, a global byte, a compare of the return address and a counter: see the benchmark
// `passthrough`.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/hip/hook_table.h"

namespace graphpool {

enum class Mode : std::uint8_t {
  kStarting,     ///< no HIP call yet
  kActive,       ///< bodies run
  kDraining,     ///< our state is in doubt: bodies run only to recognise what was given out before
  kPassThrough,  ///< never active, or a forked child: everything is forwarded
};

extern constinit std::atomic<Mode> g_mode;

/// Calls by entry since the start. Not atomic increments: counts may be a little low when threads collide.
extern "C" std::uint64_t gp_calls[kEntryCount];

/// The text of the HIP runtime: calls from inside it are not the program's. Nothing (0 bytes) until it is known.
extern constinit std::atomic<std::uintptr_t> g_runtime_begin;
extern constinit std::atomic<std::uintptr_t> g_runtime_bytes;
inline bool in_runtime(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - g_runtime_begin.load(std::memory_order_relaxed) <
         g_runtime_bytes.load(std::memory_order_relaxed);
}

extern constinit thread_local bool t_inside __attribute__((tls_model("initial-exec")));
/// The return address of the entry the thread is in: whose call it is.
extern constinit thread_local const void* t_caller __attribute__((tls_model("initial-exec")));
/// A call of the thread's has failed, or was forwarded unseen while a capture was open: an error may be pending.
extern constinit thread_local bool t_error_possible __attribute__((tls_model("initial-exec")));

/// How often a capture was opened where none was. Before one, a forwarded call fails unseen.
inline constinit std::atomic<std::uint32_t> g_attention_rounds{0};
/// The last of these rounds in which the thread's pending error was asked for, or that the thread began itself.
extern constinit thread_local std::uint32_t t_attention_round __attribute__((tls_model("initial-exec")));
/// While a capture is open: whether an error of the thread's may be pending.
inline bool error_possible_in_capture() noexcept {
  return t_error_possible || t_attention_round != g_attention_rounds.load(std::memory_order_relaxed);
}
inline void error_asked_for() noexcept { t_attention_round = g_attention_rounds.load(std::memory_order_relaxed); }

/// First HIP call of the process: finds next, loads the policy, decides the mode. Idempotent, any thread.
void start() noexcept;

/// Stops making anything new; one line says why. Handles and addresses given out before are still recognised.
void pass_through(const char* reason) noexcept;

/// False once the library only recognises what it gave out before.
inline bool active() noexcept { return g_mode.load(std::memory_order_relaxed) == Mode::kActive; }

/// Whether forwarded entries take the slow way (hooks/forward.S) although the process has started: while a capture is
/// open.
void set_attention(bool wanted) noexcept;

class Entry {
 public:
  explicit Entry(const void* caller) noexcept {
    t_inside = true;
    t_caller = caller;
  }
  ~Entry() { t_inside = false; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
};

[[gnu::always_inline]] inline void count_call(EntryId id) noexcept {
  std::uint64_t& calls = gp_calls[static_cast<std::size_t>(id)];
  __atomic_store_n(&calls, __atomic_load_n(&calls, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/// True when the body is to run. In every entry: a call here would make each of them save its arguments first.
[[gnu::always_inline]] inline bool entered(EntryId id, const void* caller) noexcept {
  count_call(id);
  if (t_inside) return false;
  Mode mode = g_mode.load(std::memory_order_acquire);
  if (mode == Mode::kStarting) [[unlikely]] {
    start();
    mode = g_mode.load(std::memory_order_acquire);
  }
  return (mode == Mode::kActive || mode == Mode::kDraining) && !in_runtime(caller);
}

/// The thread is inside the library outside of an entry (exit handlers, fork handlers): calls it causes are forwarded.
class InsideScope {
 public:
  InsideScope() noexcept : before_(t_inside) { t_inside = true; }
  ~InsideScope() { t_inside = before_; }

 private:
  bool before_;
};

/// For a call of next that may call the program back (the destructors of user objects): what that calls is the
/// program's again. No lock is held.
class CallbackScope {
 public:
  CallbackScope() noexcept : caller_(t_caller) { t_inside = false; }
  ~CallbackScope() {
    t_inside = true;
    t_caller = caller_;
  }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const void* const caller_;
};

}  // namespace graphpool
