// exec_limit.h: keeps a limit for the memory of all execs, those of the program too (graph.exec_memory).
//
// Why: a server holds an exec for each size of its batches, and launches few of them often. Memory that the others hold
// is lost for everything else. How: before an exec is made, those go that were not used for longest, until there is
// room: an exec that nobody holds is destroyed, and an exec of the program's gives its own back to the runtime
// (ProgramExec::given_back()). It gets one again at its next launch, or before another call may change it; an update
// makes one for the new binding. Only execs go that are exactly what their recording and their binding say, so that
// another can be made, and whose launches are known to be complete. Execs with user objects or with kernels of a
// communication library stay; staged ones, too. A given-back exec is watched (unstaged_execs.h), for natively it
// exists. Before memory that it names is freed, or a module of it is unloaded, it is made, if that would fail later.
// What is made so does not count towards the limit until the program uses it.
//
// With a limit a launch may make an exec, which may fail for memory, and destroy others (rule 15). Without one nothing
// here costs anything.
// Bounded by an estimate (exec_size.h). Nobody waits for execs that run, and some must stay: there may be more than the
// limit, until a later call of the program makes room.
// Errors: HIP's. Threads: any. Lock: kExecLimit. No exec is destroyed while it is held. It is held over no call but
// those that ask for and record events, and those of hip/restore.h. Before a call uses an exec it takes an ExecUse,
// without a lock held.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/base/lock_rank.h"
#include "shim/execs/exec_builder.h"
#include "shim/execs/exec_room.h"
#include "shim/execs/exec_store.h"
#include "shim/execs/exec_uses.h"
#include "shim/execs/program_exec.h"
#include "shim/graphs/unstaged_execs.h"

namespace graphpool {

class ExecLimit final : public ExecRoom {
 public:
  ExecLimit(ExecStore& store, ExecBuilder& builder, UnstagedExecs& unstaged, const GraphSettings& settings) noexcept
      : store_(store), builder_(builder), unstaged_(unstaged), settings_(settings) {
    store_.set_room(*this);
  }

  bool on() const noexcept { return settings_.exec_memory != 0; }

  /// Makes the entry by which ExecUse counts uses of the exec. Throws std::bad_alloc.
  void prepare(ProgramExec& exec) const;
  /// Notes that the exec has been given a variant, or another one. Pre-condition: an ExecUse of it lives.
  void note_served(ProgramExec& exec) noexcept EXCLUDES(lock_, g_recordings_lock);
  /// Counts that an update has given a variant to an exec that was given back. Pre-condition: an ExecUse of it lives.
  void note_made_again() noexcept EXCLUDES(lock_);
  /// Takes out an exec that the program destroys.
  void remove(ProgramExec& exec) noexcept EXCLUDES(lock_, exec.lock, g_recordings_lock);

  /// Whether its exec of the runtime's has been given back and not made again. Pre-condition: an ExecUse of it lives.
  bool was_given_back(ProgramExec& exec) const noexcept EXCLUDES(exec.lock);
  /// Makes the runtime's exec again where it was given back. Fails as an instantiate does. Pre-condition: an ExecUse of
  /// it lives.
  hipError_t make_again(ProgramExec& exec) EXCLUDES(lock_, exec.lock, g_recordings_lock);

  // --- ExecRoom: without a lock held ---

  Left make_room(int device, std::size_t bytes) noexcept override EXCLUDES(lock_, g_recordings_lock);
  Left trim() noexcept override EXCLUDES(lock_, g_recordings_lock);
  bool reclaim(int device) noexcept override EXCLUDES(lock_, g_recordings_lock);

  struct Counts {
    std::uint64_t given_back = 0, made_again = 0;
  };
  Counts counts() const noexcept EXCLUDES(lock_);

 private:
  friend class ExecUse;
  enum class Found : std::uint8_t { kNone, kOnlyRunning, kGone };

  bool has_room(int device, std::size_t bytes) const noexcept EXCLUDES(g_recordings_lock);
  ExecUses::Verdict judge(ProgramExec& exec) REQUIRES(lock_) EXCLUDES(exec.lock, g_recordings_lock);
  bool can_be_made_again(const ProgramExec& exec) const REQUIRES(exec.lock) EXCLUDES(g_recordings_lock);
  Found give_back_oldest(int device, RetiredVariants* retired) REQUIRES(lock_) EXCLUDES(g_recordings_lock);
  bool give_back(ExecUses::Entry& entry, RetiredVariants* retired) REQUIRES(lock_) EXCLUDES(g_recordings_lock);
  hipError_t make(Recording& recording, const Binding& binding, int device,
                  const std::shared_ptr<UnstagedExec>& watched, std::unique_ptr<Variant>* made)
      EXCLUDES(g_recordings_lock);
  std::shared_ptr<UnstagedExec> put_in_place(ProgramExec& exec, Variant& variant, Way way)
      EXCLUDES(lock_, exec.lock, g_recordings_lock);

  ExecStore& store_;
  ExecBuilder& builder_;
  UnstagedExecs& unstaged_;
  const GraphSettings& settings_;
  mutable RankedMutex<LockRank::kExecLimit> lock_;
  ExecUses uses_ GUARDED_BY(lock_);
  Counts counts_ GUARDED_BY(lock_);
};

/// Lives while a call of the program uses the exec, and keeps its exec of the runtime's. Does nothing without a limit.
class ExecUse {
 public:
  ExecUse(ExecLimit& limit, const ProgramExec* exec) noexcept;
  ~ExecUse();
  ExecUse(const ExecUse&) = delete;
  ExecUse& operator=(const ExecUse&) = delete;

 private:
  void begin() noexcept;
  void end() noexcept;

  ExecLimit& limit_;
  std::shared_ptr<ExecUses::Entry> entry_;  ///< stays when another thread destroys the exec
};

}  // namespace graphpool
