// permit_table.h: takes and gives back permits in the table of running compilations, which all processes of a scope
// (compile.scope) share.
//
// A process asks with try_take(), which waits for nothing but the table's lock (shared_permits.h). Who is admitted:
// admission.h. What sizes are expected: size_learning.h. Tokens of make's jobserver: permit_tokens.h. Who stands still:
// holder_watch.h. The permits and their states: permit_slots.h.
//
// Riding (rule 35): a child process of a holder, or of a rider, uses the permit of its parent, one child at a time,
// while the permit's generation lasts.
//
// Threads: any, of any process; a permit is given back by the thread that took it. Units: bytes, ns.
// Not here: waiting (permit_wait.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/compile/admission.h"
#include "shim/compile/machine.h"
#include "shim/compile/permit.h"
#include "shim/compile/shared_permits.h"

namespace graphpool {

/// One permit that is held, for the report.
struct PermitHolder {
  pid_t process;  ///< as its own namespace numbers it
  char size_class[kClassNameBytes];
  HolderState state;
};

class PermitTable {
 public:
  constexpr PermitTable() = default;
  PermitTable(SharedPermits& memory, const Machine& machine) noexcept : memory_(&memory), machine_(&machine) {}
  /// A second table object over the same permits. Other threads may be using `other` meanwhile.
  PermitTable(const PermitTable& other) noexcept : memory_(other.memory_), machine_(other.machine_) {}
  PermitTable& operator=(const PermitTable& other) noexcept {
    memory_ = other.memory_;
    machine_ = other.machine_;
    return *this;
  }

  /// False: there is no table, and nothing but lasts() may be called.
  [[nodiscard]] bool usable() const noexcept { return memory_ != nullptr; }

  /// Gives a permit if the request is admitted. memory: null while it has not been read (see AdmissionDecision).
  Admission try_take(const PermitRequest& request, const PermitLimits& limits, const MemoryFacts* memory,
                     Permit& permit) noexcept;
  /// Gives a permit over the limit. Not held: there is none left, or the table cannot be used.
  Permit take_anyway(const PermitRequest& request) noexcept;
  /// Rides on the permit of `parent`, or on the permit that `parent` rides on, if no other child of `parent` does. On
  /// the permit of a call or a pool thread the caller begins to ride only while that thread sleeps in the kernel, not
  /// in sleep(): the thread may be waiting for the caller. generation: 0 takes any. Not held: none may be ridden on
  /// now, or the table cannot be used.
  Permit ride(const ProcessName& parent, std::uint32_t generation) noexcept;
  /// The permit of a call of this process whose thread sleeps. That thread may be waiting for the work of the calling
  /// thread, so the calling thread may ride on the permit. Not held: there is none.
  Permit permit_to_serve() noexcept;
  /// Stops counting the permit of a pool thread that waits for work. What it is still expected to grow by counts for
  /// kShortSleep more.
  void sleep(const Permit& permit) noexcept;
  /// Counts the permit of a pool thread that has work again. Returns false where the thread slept for longer than
  /// kShortSleep, the limit is reached, the permit is lost or the table cannot be used: then the caller gives the
  /// permit back and asks for another one. anyway: the thread cannot wait, so its sleep and the limit do not matter.
  bool wake_up(const Permit& permit, const PermitLimits& limits, bool anyway) noexcept;
  /// Gives the permit back, or ends the ride on it. now: this process's memory, to learn from; zeros: nothing is
  /// learnt. A byte of the jobserver that was not written back is kept for the next who asks.
  void give_back(const Permit& permit, const ProcessMemory& now) noexcept;
  /// Whether a permit is still held in the generation it was taken in. Takes no lock, so the answer may be out
  /// of date when it returns.
  [[nodiscard]] bool lasts(const Permit& permit) const noexcept NOT_CHECKED {
    return memory_ != nullptr && memory_->slots.lasts(permit);
  }

  /// Notes that the permit's byte has been written back.
  void byte_written(Permit& permit) noexcept;
  /// Takes a byte of this server that was read and that nobody holds. Empty: there is none.
  std::optional<std::uint8_t> take_owed_byte(const TokenServer& server) noexcept;
  /// Keeps a byte that could not be written back, for the next who asks.
  void owe_byte(const TokenServer& server, std::uint8_t byte) noexcept;

  /// See holder_watch.h.
  void look_at_holders(std::uint64_t idle_ns) noexcept;

  /// How many permits count. Those of the dead are taken back first. 0 also where the lock cannot be had.
  std::uint32_t in_flight() noexcept;
  /// What these will still grow by: holders that run, those that lend and are no pool threads, and pool threads that
  /// have slept for kShortSleep at most.
  std::uint64_t outstanding_bytes() noexcept;
  /// Copies the classes; returns how many.
  std::uint32_t classes(SizeClass* to, std::uint32_t most) noexcept;
  /// Copies who holds permits now, lent ones and those of sleeping threads too; returns how many.
  std::uint32_t holders(PermitHolder* to, std::uint32_t most) noexcept;
  /// What all processes of the scope did.
  [[nodiscard]] ScopeFigures& figures() const noexcept { return memory_->figures; }
  /// When a permit was last given, given back, lent or put to sleep.
  [[nodiscard]] std::uint64_t changed_ns() const noexcept {
    return __atomic_load_n(&memory_->changed_ns, __ATOMIC_RELAXED);
  }

  /// Changes when a permit comes back or goes to sleep, or wake_waiters() is called; machine.wait() waits for that.
  [[nodiscard]] const std::uint32_t* turn() const noexcept { return &memory_->turn; }
  /// Wakes all who wait for a permit; they ask again.
  void wake_waiters() const noexcept;

 private:
  bool lock() noexcept TRY_ACQUIRE(true, memory_->lock) { return memory_ != nullptr && memory_->lock_table(); }
  const ProcessName& self() noexcept REQUIRES(memory_->lock);
  Permit grant(const PermitRequest& request, TokenKind token) noexcept REQUIRES(memory_->lock);

  SharedPermits* memory_ = nullptr;
  const Machine* machine_ = nullptr;
  ProcessName self_ GUARDED_BY(memory_->lock);
};

}  // namespace graphpool
