// entry.h: the way into the library: decides whether the body of an exported function runs.
//
// An exported function with a body first asks Passing<>::now() (hooks/passing.h), then entered(). entered() says no,
// and the call goes to next untouched, when
//   - the library is switched off, or a process in which it had started, or was starting, has forked this one
//     (Mode::kPassThrough);
//   - the library cannot start yet: before the C library has started there is no environment, so no policy;
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
  kPassThrough,  ///< switched off, or forked by a process that had started: everything is forwarded
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
/// The return address of the entry that the thread is in: it tells whose call that is.
extern constinit thread_local const void* t_caller __attribute__((tls_model("initial-exec")));
/// A call of the thread's has failed, or was forwarded unseen while a capture was open: an error may be pending.
extern constinit thread_local bool t_error_possible __attribute__((tls_model("initial-exec")));

/// Counts rounds: one begins when a capture opens while none is open. Calls forwarded before a round may have failed
/// unseen.
inline constinit std::atomic<std::uint32_t> g_attention_rounds{0};
/// The last round that the thread began itself, or in which its pending error was asked for.
extern constinit thread_local std::uint32_t t_attention_round __attribute__((tls_model("initial-exec")));
/// Whether an error of the thread's may be pending. Ask only while a capture is open.
inline bool error_possible_in_capture() noexcept {
  return t_error_possible || t_attention_round != g_attention_rounds.load(std::memory_order_relaxed);
}
inline void error_asked_for() noexcept { t_attention_round = g_attention_rounds.load(std::memory_order_relaxed); }

/// Starts the library at the first HIP call of the process: finds next, loads the policy, decides the mode. Idempotent,
/// any thread.
void start() noexcept;

/// Makes an active library stop making anything new, and logs why. Handles and addresses given out before are still
/// recognised.
void pass_through(const char* reason) noexcept;

/// False before the start, where everything is forwarded, and once the library only recognises what it gave out before.
inline bool active() noexcept { return g_mode.load(std::memory_order_relaxed) == Mode::kActive; }

/// Sets whether forwarded entries ask the engine first (gp_forward_slow() in process/lifecycle.cpp) although the
/// process has started. They do while a capture is open.
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

/// Counts the call, and starts the library if that is still to be done. Returns whether the body is to run. Inlined
/// into every entry: a function call would make each of them save its arguments first.
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

/// Marks the thread as inside the library where it is in no entry (the start, lookups, exit handlers, threads of the
/// library's own): HIP calls that it causes are forwarded.
class InsideScope {
 public:
  InsideScope() noexcept : before_(t_inside) { t_inside = true; }
  ~InsideScope() { t_inside = before_; }

 private:
  bool before_;
};

/// For a call of next that may call the program back (the destructors of user objects): HIP calls made there are the
/// program's again. Hold no lock.
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
