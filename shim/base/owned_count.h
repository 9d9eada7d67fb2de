// owned_count.h: a count that nearly always the same thread raises, by a plain store.
//
// How: the first thread that adds owns a part of the count, which only that thread writes. Others add to a shared part.
// Another thread's add() need not be seen at once. A wait relies on a count only where the program itself has ordered
// the counted call before the wait, and that order makes the store visible. A report may see it late. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphpool {

/// Its address tells threads apart. A later thread may have the address of one that has ended, and then takes over what
/// was that thread's: nothing of the two can overlap.
extern constinit thread_local char t_thread_token __attribute__((tls_model("initial-exec")));

class OwnedCount {
 public:
  void add() noexcept {
    if (owned_by_caller()) [[likely]]
      owned_.store(owned_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    else
      add_shared();
  }
  std::uint64_t load() const noexcept {
    return shared_.load(std::memory_order_acquire) + owned_.load(std::memory_order_acquire);
  }
  /// Whether no other thread adds by a plain store. If so, an add() of another thread is a barrier.
  bool only_caller_adds_plainly() const noexcept {
    const void* const owner = owner_.load();
    return owner == nullptr || owner == &t_thread_token;
  }

 private:
  bool owned_by_caller() const noexcept { return owner_.load(std::memory_order_relaxed) == &t_thread_token; }
  void add_shared() noexcept {
    const void* nobody = nullptr;
    if (owner_.load(std::memory_order_relaxed) == nullptr) owner_.compare_exchange_strong(nobody, &t_thread_token);
    shared_.fetch_add(1);
  }

  std::atomic<const void*> owner_{nullptr};
  std::atomic<std::uint64_t> owned_{0};
  std::atomic<std::uint64_t> shared_{0};
};

}  // namespace graphpool
