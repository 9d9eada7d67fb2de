// shared_permits.h: the layout of a scope's table of permits, and the lock that guards it.
//
// The lock is a robust mutex: it is held for microseconds, never across anything that waits for another process, and
// waited for one second at most. Whoever dies inside leaves every permit in a state that free_the_dead() understands.
//
// Threads: any, of any process. The memory may be anyone's of the scope.
#pragma once

#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/compile/admission.h"
#include "shim/compile/permit_slots.h"
#include "shim/compile/permit_tokens.h"
#include "shim/compile/robust_mutex.h"
#include "shim/compile/scope_figures.h"
#include "shim/compile/size_learning.h"

namespace graphpool {

/// Unlocks, at the end of the scope, what the caller has locked.
class SCOPED_CAPABILITY TableGuard {
 public:
  explicit TableGuard(RobustMutex& lock) noexcept REQUIRES(lock) : lock_(lock) {}
  ~TableGuard() RELEASE() { lock_.unlock(); }
  TableGuard(const TableGuard&) = delete;
  TableGuard& operator=(const TableGuard&) = delete;

 private:
  RobustMutex& lock_;
};

/// The number of the layout, in `ready` of a table that has been made.
inline constexpr std::uint32_t kReady = 0x67700007;

/// The whole of a scope's memory.
struct SharedPermits {
  std::uint32_t ready;  ///< kReady once made
  std::uint32_t turn;   ///< changes whenever a permit comes back, or its holder sleeps; waiters sleep on it
  RobustMutex lock;
  std::uint64_t changed_ns;  ///< when a permit last changed hands; read without the lock
  ScopeFigures figures;
  Waiters waiters GUARDED_BY(lock);
  SizeClasses sizes GUARDED_BY(lock);
  OwedTokens owed GUARDED_BY(lock);
  PermitSlots slots GUARDED_BY(lock);

  /// Returns false where this is no table of this layout, or where its lock cannot be had.
  bool lock_table() noexcept TRY_ACQUIRE(true, lock);
  /// Notes when a permit has changed hands.
  void changed(std::uint64_t now_ns) noexcept REQUIRES(lock) {
    __atomic_store_n(&changed_ns, now_ns, __ATOMIC_RELAXED);
  }
  /// Notes that a permit came back: whoever waits asks again, once machine.wake(&turn) is called.
  void next_turn() noexcept { __atomic_add_fetch(&turn, 1, __ATOMIC_RELEASE); }
  /// Takes back the permits of holders that have died.
  void free_the_dead(const Machine& machine) noexcept REQUIRES(lock);
};

/// Makes a table of zeroed memory that nobody else knows yet. `shared`: other processes will use it.
void make_permits(SharedPermits& memory, bool shared) noexcept NOT_CHECKED;

}  // namespace graphpool
