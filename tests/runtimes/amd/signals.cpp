#include "signals.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "checked.h"
#include "queues.h"

namespace hsa_cpu {
namespace {

const timespec kTick{0, std::chrono::nanoseconds(kLookAgain).count()};

void sleep_while(const void* word, std::uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &kTick, nullptr, 0);
}
void wake_all(const void* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

std::atomic<std::int64_t>& value_of(amd_signal_t* signal) {
  return *reinterpret_cast<std::atomic<std::int64_t>*>(const_cast<std::int64_t*>(&signal->value));
}
// In words of the signal that HSA leaves to the runtime.
std::atomic<std::uint32_t>& waiters_of(amd_signal_t* signal) {
  return reinterpret_cast<std::atomic<std::uint32_t>&>(signal->reserved3[0]);
}
std::atomic<std::uint32_t>& handlers_of(amd_signal_t* signal) {
  return reinterpret_cast<std::atomic<std::uint32_t>&>(signal->reserved3[1]);
}

std::atomic<std::uint32_t> change_count{0};
std::atomic<std::uint32_t> change_waiters{0};

/// Memory of signals that were destroyed.
class SignalMemory {
 public:
  amd_signal_t* take() {
    const std::scoped_lock guard(mutex_);
    if (free_.empty()) {
      constexpr std::size_t kAtOnce = 256;
      auto* const block = static_cast<amd_signal_t*>(std::aligned_alloc(64, kAtOnce * sizeof(amd_signal_t)));
      if (block == nullptr) return nullptr;
      ledger_add(block, kAtOnce * sizeof *block, MemoryIs::Runtime, -1, kAllAgents, kAllAgents);
      for (std::size_t i = 0; i < kAtOnce; ++i) free_.push_back(block + i);
    }
    amd_signal_t* const signal = free_.back();
    free_.pop_back();
    return signal;
  }
  void give(amd_signal_t* signal) {
    const std::scoped_lock guard(mutex_);
    free_.push_back(signal);
  }

 private:
  std::mutex mutex_;
  std::vector<amd_signal_t*> free_;
};
SignalMemory& signal_memory() {
  static auto* const memory = new SignalMemory;
  return *memory;
}

class Handlers;
Handlers& handlers();

/// Functions to be called when a signal meets a condition. One thread calls all of them, as ROCR's does.
class Handlers {
 public:
  struct Handler {
    amd_signal_t* signal;
    hsa_signal_condition_t condition;
    std::int64_t compare;
    hsa_amd_signal_handler function;
    void* argument;
  };

  void add(const Handler& handler) {
    const std::scoped_lock guard(mutex_);
    start();
    handlers_of(handler.signal).fetch_add(1);
    waiting_.emplace(handler.signal, handler);
    look(handler.signal);
  }
  void changed(amd_signal_t* signal) {
    const std::scoped_lock guard(mutex_);
    look(signal);
  }
  void forget(amd_signal_t* signal) {
    const std::scoped_lock guard(mutex_);
    waiting_.erase(signal);
  }
  void call(void (*function)(void*), void* argument) {
    const std::scoped_lock guard(mutex_);
    start();
    calls_.emplace_back(function, argument);
    more_.notify_one();
  }
  /// Waits, not for long, until all that are due have been called. AMD's runtimes destroy what handlers use when the
  /// process exits, and a handler that comes later ends the process.
  void settle() {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() == server_) return;  // a handler exits
    settled_.wait_for(lock, std::chrono::seconds(1), [this] { return due_.empty() && calls_.empty() && !calling_; });
  }

 private:
  void start() {
    if (started_) return;
    started_ = true;
    std::thread serving([this] { serve(); });
    server_ = serving.get_id();
    serving.detach();
    std::atexit([] { handlers().settle(); });
  }
  /// Hands on what is due at this signal. Under the mutex.
  void look(amd_signal_t* signal) {
    const auto [first, last] = waiting_.equal_range(signal);
    for (auto it = first; it != last;) {
      const std::int64_t value = value_of(signal).load();
      if (!holds(it->second.condition, value, it->second.compare)) {
        ++it;
        continue;
      }
      due_.emplace_back(it->second, value);
      handlers_of(signal).fetch_sub(1);
      it = waiting_.erase(it);
      more_.notify_one();
    }
  }
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      calling_ = false;
      settled_.notify_all();
      more_.wait(lock, [this] { return !due_.empty() || !calls_.empty(); });
      calling_ = true;
      if (!calls_.empty()) {
        const auto [function, argument] = calls_.front();
        calls_.pop_front();
        lock.unlock();
        function(argument);
        lock.lock();
        continue;
      }
      const auto [handler, value] = due_.front();
      due_.pop_front();
      lock.unlock();
      if (handler.function(value, handler.argument)) add(handler);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_, settled_;
  std::unordered_multimap<amd_signal_t*, Handler> waiting_;
  std::deque<std::pair<Handler, std::int64_t>> due_;
  std::deque<std::pair<void (*)(void*), void*>> calls_;
  std::thread::id server_;
  bool started_ = false;
  bool calling_ = false;
};
Handlers& handlers() {
  static auto* const all = new Handlers;
  return *all;
}

// Value, waiters and handlers are read and written in one order of all threads (seq_cst): who counted itself before it
// read the old value is seen here.
void wake(amd_signal_t* signal) {
  if (waiters_of(signal).load() != 0) wake_all(const_cast<std::int64_t*>(&signal->value));
  if (handlers_of(signal).load() != 0) handlers().changed(signal);
  change_count.fetch_add(1);
  if (change_waiters.load() != 0) wake_all(&change_count);
}

}  // namespace

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::int64_t load(const amd_signal_t* signal) { return value_of(const_cast<amd_signal_t*>(signal)).load(); }

void add(amd_signal_t* signal, std::int64_t difference) {
  value_of(signal).fetch_add(difference);
  wake(signal);
}

bool holds(hsa_signal_condition_t condition, std::int64_t value, std::int64_t compare) {
  switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
      return value == compare;
    case HSA_SIGNAL_CONDITION_NE:
      return value != compare;
    case HSA_SIGNAL_CONDITION_LT:
      return value < compare;
    case HSA_SIGNAL_CONDITION_GTE:
      return value >= compare;
  }
  return false;
}

std::int64_t wait(amd_signal_t* signal, hsa_signal_condition_t condition, std::int64_t compare,
                  std::uint64_t timeout_ns, std::int64_t mask) {
  constexpr int kSpins = 200;
  std::int64_t value = load(signal);
  for (int i = 0; i < kSpins && !holds(condition, value & mask, compare); ++i) value = load(signal);
  if (holds(condition, value & mask, compare) || timeout_ns == 0) return value;
  const std::uint64_t start = now_ns();
  const std::uint64_t end = timeout_ns > kForever - start ? kForever : start + timeout_ns;
  waiters_of(signal).fetch_add(1);
  for (value = load(signal); !holds(condition, value & mask, compare) && (end == kForever || now_ns() < end);
       value = load(signal)) {
    sleep_while(const_cast<std::int64_t*>(&signal->value), static_cast<std::uint32_t>(value));
  }
  waiters_of(signal).fetch_sub(1);
  return value;
}

void complete(hsa_signal_t handle, std::uint64_t start_ns) {
  if (handle.handle == 0) return;
  amd_signal_t* const signal = signal_of(handle);
  signal->start_ts = start_ns;
  signal->end_ts = now_ns();
  add(signal, -1);
}

void call_later(void (*function)(void*), void* argument) { handlers().call(function, argument); }

std::uint32_t changes() { return change_count.load(); }
void wait_for_change(std::uint32_t seen) {
  change_waiters.fetch_add(1);
  if (change_count.load() == seen) sleep_while(&change_count, seen);
  change_waiters.fetch_sub(1);
}

}  // namespace hsa_cpu

using hsa_cpu::signal_of;

HSA_CPU_API hsa_status_t hsa_signal_create(hsa_signal_value_t value, std::uint32_t, const hsa_agent_t*,
                                           hsa_signal_t* out) {
  if (out == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  amd_signal_t* const signal = hsa_cpu::signal_memory().take();
  if (signal == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  std::memset(static_cast<void*>(signal), 0, sizeof *signal);
  signal->kind = AMD_SIGNAL_KIND_USER;
  signal->value = value;
  out->handle = reinterpret_cast<std::uint64_t>(signal);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_signal_create(hsa_signal_value_t value, std::uint32_t count, const hsa_agent_t* agents,
                                               std::uint64_t, hsa_signal_t* out) {
  return hsa_signal_create(value, count, agents, out);
}

HSA_CPU_API hsa_status_t hsa_signal_destroy(hsa_signal_t handle) {
  if (handle.handle == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  amd_signal_t* const signal = signal_of(handle);
  if (hsa_cpu::handlers_of(signal).load() != 0) hsa_cpu::handlers().forget(signal);
  hsa_cpu::signal_memory().give(signal);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal, volatile hsa_signal_value_t** out) {
  *out = &signal_of(signal)->value;
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) { return hsa_cpu::load(signal_of(signal)); }

HSA_CPU_API void hsa_signal_silent_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  hsa_cpu::value_of(signal_of(signal)).store(value);
}

HSA_CPU_API void hsa_signal_store_screlease(hsa_signal_t handle, hsa_signal_value_t value) {
  amd_signal_t* const signal = signal_of(handle);
  if (signal->kind == AMD_SIGNAL_KIND_DOORBELL) return hsa_cpu::ring_doorbell(signal);
  hsa_cpu::value_of(signal).store(value);
  hsa_cpu::wake(signal);
}

HSA_CPU_API void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  hsa_signal_store_screlease(signal, value);
}

HSA_CPU_API void hsa_signal_add_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  hsa_cpu::add(signal_of(signal), value);
}

HSA_CPU_API void hsa_signal_subtract_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  hsa_cpu::add(signal_of(signal), -value);
}

HSA_CPU_API hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                                         hsa_signal_value_t compare, std::uint64_t timeout_ns,
                                                         hsa_wait_state_t) {
  return hsa_cpu::wait(signal_of(signal), condition, compare, timeout_ns);
}

HSA_CPU_API hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t condition,
                                                      hsa_signal_value_t value, hsa_amd_signal_handler handler,
                                                      void* argument) {
  hsa_cpu::handlers().add({signal_of(signal), condition, value, handler, argument});
  return HSA_STATUS_SUCCESS;
}
