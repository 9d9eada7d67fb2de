// permit_slots.h: the permits themselves, in memory that all processes of a scope share.
//
// Why a robust mutex for each: permits must come back when their holder dies by any signal, also when a child it forked
// lives on (rule 34), and without a daemon. The holding thread keeps its permit's mutex locked. The kernel marks the
// mutex when the thread ends or its process execs, and a forked child does not own it.
//
// A held permit is in one of the states of HolderState. Only change_state() changes it:
//
//   kRuns ---- uses no processor time ---> kLent       kRuns, kLent --- waits for work ---> kSleeps (pool threads)
//   kLent ---- uses some again ----------> kRuns       kSleeps -------- has work again ---> kRuns
//
// Threads: everything here is called with the table's lock held, but for lasts(). Units: bytes, ns, clock ticks.
// The memory may be anyone's of the scope: every index and every state that is read from it may be wrong.
#pragma once

#include <sys/types.h>

#include <bit>
#include <cstdint>

#include "shim/compile/machine.h"
#include "shim/compile/permit.h"
#include "shim/compile/robust_mutex.h"

namespace graphpool {

/// The most permits that pool threads have. They keep them while they sleep, and others must find some.
inline constexpr std::uint32_t kMostPoolThreads = kMostPermits / 2;
/// A pool thread that slept for no longer goes on with its permit, if the limit allows.
inline constexpr std::uint64_t kShortSleep = 100'000'000;

enum class HolderState : std::uint32_t {
  kRuns,    ///< it counts
  kLent,    ///< it uses next to no processor time: others use its permit meanwhile
  kSleeps,  ///< a pool thread that waits for work: it does not count
};

struct SharedRider {
  ProcessName process;  ///< process number 0: the place is free
  pid_t parent;         ///< the holder or rider that it is a child of
};

/// One permit. Plain data: it is in shared memory.
struct SharedPermit {
  RobustMutex owner GUARDS_NO_DATA;  ///< locked by the holding thread for as long as it holds the permit
  std::uint32_t generation;
  std::uint32_t class_index;
  ProcessName holder;
  pid_t thread;
  HolderKind kind;
  HolderState state;
  std::uint32_t shared_process;  ///< 1: another compilation ran in the same process meanwhile
  std::uint64_t asleep_ns;       ///< since when it sleeps
  std::uint64_t input_bytes;
  std::uint64_t expected_bytes;
  std::uint64_t base_bytes;  ///< there before it began
  std::uint64_t base_peak_bytes;
  // The same of address space.
  std::uint64_t expected_virtual_bytes, base_virtual_bytes, base_peak_virtual_bytes, grown_virtual_bytes;
  std::uint64_t grown_bytes;  ///< last seen
  std::uint64_t most_grown_bytes;
  std::uint64_t used_ticks;
  std::uint64_t looked_ns;   ///< when its memory was last looked at
  std::uint64_t checked_ns;  ///< when used_ticks was read
  std::uint64_t moved_ns;    ///< when processor time was last seen to be used
  SharedToken token;
  SharedRider riders[kMostRiders];

  /// Changes the state. Returns false, and changes nothing, where `next` may not follow.
  bool change_state(HolderState next) noexcept;
  [[nodiscard]] std::uint64_t missing_bytes() const noexcept {
    return expected_bytes > grown_bytes ? expected_bytes - grown_bytes : 0;
  }
  [[nodiscard]] std::uint64_t missing_virtual_bytes() const noexcept {
    return expected_virtual_bytes > grown_virtual_bytes ? expected_virtual_bytes - grown_virtual_bytes : 0;
  }
};

/// What holders will still grow by.
struct Outstanding {
  std::uint64_t bytes = 0;
  std::uint64_t own_virtual_bytes = 0;  ///< address space of one process, by its own holders
};

/// All permits of a scope. Plain data: it is in shared memory.
class PermitSlots {
 public:
  void make(bool shared) noexcept;

  [[nodiscard]] bool held(std::uint32_t index) const noexcept { return (held_[index / 64] >> index % 64 & 1) != 0; }
  /// The slot of a permit that is still held in its generation; null: it is not.
  [[nodiscard]] SharedPermit* find(const Permit& permit) noexcept;
  /// Whether a permit is still held in its generation. Needs no lock; the permit may end at once.
  [[nodiscard]] bool lasts(const Permit& permit) const noexcept;

  /// Locks the mutex of a free permit for the calling thread, until give_back(), and raises the permit's generation.
  /// Returns its index; kMostPermits: none is free. It counts as held from hold() on: a thread that dies while it fills
  /// the slot leaves it free.
  std::uint32_t lock_free_one() noexcept NOT_CHECKED;
  void hold(std::uint32_t index) noexcept { set_held(index, true); }
  /// Frees a permit. Call it in the thread that took the permit.
  void give_back(std::uint32_t index) noexcept NOT_CHECKED;
  /// Frees the permit of a dead holder, whose mutex is free already. Any thread may call it.
  void forget_dead(std::uint32_t index) noexcept { set_held(index, false); }
  /// Whether the holder is gone: then its mutex could be had, and is unlocked again.
  [[nodiscard]] bool is_dead(std::uint32_t index) noexcept;

  SharedPermit& operator[](std::uint32_t index) noexcept { return slots_[index]; }
  const SharedPermit& operator[](std::uint32_t index) const noexcept { return slots_[index]; }

  /// Calls visit(index, slot) for each permit that is held.
  template <typename Visit>
  void for_each_held(Visit visit) {
    for_each_index([&](std::uint32_t index) { visit(index, slots_[index]); });
  }
  template <typename Visit>
  void for_each_held(Visit visit) const {
    for_each_index([&](std::uint32_t index) { visit(index, slots_[index]); });
  }

  /// How many permits count: those whose holders run.
  [[nodiscard]] std::uint32_t running() const noexcept;
  /// How many of these may use a processor that this process may use.
  [[nodiscard]] std::uint32_t running_here(const Machine& machine) const noexcept;
  [[nodiscard]] bool any_lent() const noexcept;
  [[nodiscard]] std::uint32_t pool_threads() const noexcept;
  /// How many permits of a process do not sleep.
  [[nodiscard]] std::uint64_t awake_of(const ProcessName& holder) const noexcept;
  /// Counts all holders, but pool threads that lend or have slept for longer than kShortSleep.
  [[nodiscard]] Outstanding outstanding(const ProcessName& self, std::uint64_t now_ns) const noexcept;
  /// What all holders have together, as last seen.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;

 private:
  void set_held(std::uint32_t index, bool value) noexcept;
  template <typename Visit>
  void for_each_index(Visit visit) const {
    for (std::uint32_t word = 0; word < kMostPermits / 64; ++word)
      for (std::uint64_t bits = held_[word]; bits != 0; bits &= bits - 1)
        visit(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
  }

  std::uint64_t held_[kMostPermits / 64];
  SharedPermit slots_[kMostPermits];
};

}  // namespace graphpool
