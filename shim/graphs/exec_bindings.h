// exec_bindings.h: a program exec gets another binding, another variant, or goes.
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

  /// The exec has this binding from now on, served so.
  void switch_to(ProgramExec& exec, const Served& served, const Binding& binding)
      EXCLUDES(exec.lock, g_recordings_lock);
  /// verify: the exec is served by this variant, which nobody keeps yet, instead of that one. One of the program's own
  /// graph serves no other exec, for what is made of the recording may differ from that. Nothing where another variant
  /// serves it by now, because another launch was first.
  void replace_variant(ProgramExec& exec, const Variant& instead_of, std::unique_ptr<Variant> made)
      EXCLUDES(exec.lock, g_recordings_lock);
  /// The exec has got a binding as a whole, and is staged or given back, or not.
  void note_bound(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);
  /// check: the exec has got all its addresses now. Where they cannot be kept, what was freed tells alone.
  static void note_allocations(ProgramExec& exec) noexcept EXCLUDES(exec.lock);
  /// What the exec would be without staging, if that was made, and nobody looks after it any more.
  std::unique_ptr<Variant> take_unstaged(ProgramExec& exec) noexcept { return unstaged_.take(&exec.unstaged); }

  /// Whether the exec must be launched as the variant it is: launches of that may still run on a stream that is being
  /// captured, so that nothing else can be told to come behind them. Launches of one exec the runtime orders itself.
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

  /// The exec goes; its variant is free. With `retired`, so does what is too much: not in a launch (rule 15).
  void release(std::unique_ptr<ProgramExec> exec, RetiredVariants* retired) EXCLUDES(g_recordings_lock);

 private:
  /// The exec was given another variant while this one was in use.
  void disown(Variant& used) noexcept EXCLUDES(g_recordings_lock);

  ExecStore& store_;
  Recordings& recordings_;
  UnstagedExecs& unstaged_;
  ExecLimit& limit_;
  const GraphSettings& settings_;
};

}  // namespace graphpool
