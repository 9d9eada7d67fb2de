// exec_bindings.h: gives a program exec another binding or another variant, and releases it.
//
// Launches of one exec keep their order whatever serves it (rule 3): those of the next variant come behind those of the
// former one. A variant that its exec does not use any more is free.
// Threads: any; see execs/program_exec.h.
#pragma once

#include <memory>

#include "shim/execs/exec_store.h"
#include "shim/execs/exec_supply.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/unstaged_execs.h"

namespace graphpool {

class ExecBindings {
 public:
  ExecBindings(ExecStore& store, Recordings& recordings, UnstagedExecs& unstaged, ExecLimit& limit,
               const GraphSettings& settings) noexcept
      : store_(store), recordings_(recordings), unstaged_(unstaged), limit_(limit), settings_(settings) {}

  /// Gives the exec this binding, and lets `served` serve it.
  void switch_to(ProgramExec& exec, const Served& served, const Binding& binding)
      EXCLUDES(exec.lock, g_recordings_lock);
  /// verify: lets `made`, which nobody keeps yet, serve the exec in place of `instead_of`. A variant of the program's
  /// own graph serves no other exec: what is made of the recording may differ from it. Does nothing where another
  /// variant serves by now, because another launch was first.
  void replace_variant(ProgramExec& exec, const Variant& instead_of, std::unique_ptr<Variant> made)
      EXCLUDES(exec.lock, g_recordings_lock);
  /// Call it when the exec has got a binding as a whole. Registers an exec that is staged or given back
  /// (unstaged_execs.h), and unregisters any other.
  void note_bound(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);
  /// check: notes the allocations of all addresses of the exec. Without host memory for that it notes none.
  static void note_allocations(ProgramExec& exec) noexcept EXCLUDES(exec.lock);
  /// Unregisters the exec. Returns what it would be without staging, if that was made.
  std::unique_ptr<Variant> take_unstaged(ProgramExec& exec) noexcept { return unstaged_.take(&exec.unstaged); }

  /// Whether the exec must be launched as the variant it is: its launches may still run on a stream that is being
  /// captured, and another exec cannot be told to come behind them. The runtime itself orders launches of one exec.
  static bool must_stay(ProgramExec& exec) EXCLUDES(exec.lock);

  /// A use of the variant ends, and so one of the exec (begin_use in unstaged_launch.h). Returns whether it was the
  /// last one of an exec that the program has destroyed: release_destroyed() follows then, without the lock.
  [[nodiscard]] bool end_use(ProgramExec& exec, Variant& used) REQUIRES(exec.lock) EXCLUDES(g_recordings_lock) {
    used.under_way.store(used.under_way.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    if (&used != exec.variant) [[unlikely]]
      disown(used);
    return exec.launches.end();
  }
  /// The program has destroyed the exec, and nothing uses it any more. Without host memory for the list of its launches
  /// its user objects go at once.
  void release_destroyed(ProgramExec& exec) noexcept EXCLUDES(exec.lock, g_recordings_lock);

  /// Destroys the exec, and frees its variant. `retired`: takes the variants that go, those beyond the limits, too.
  /// Null in a launch: nothing goes (rule 15).
  void release(std::unique_ptr<ProgramExec> exec, RetiredVariants* retired) EXCLUDES(g_recordings_lock);

 private:
  /// Frees a variant in whose place the exec was given another one while it was in use.
  void disown(Variant& used) noexcept EXCLUDES(g_recordings_lock);

  ExecStore& store_;
  Recordings& recordings_;
  UnstagedExecs& unstaged_;
  ExecLimit& limit_;
  const GraphSettings& settings_;
};

}  // namespace graphpool
