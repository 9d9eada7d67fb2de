// program_exec.h: the exec a program holds: a handle, the program's binding, and the variant that serves it.
//
// Invariants: a variant has at most one live program exec as its owner; a tainted exec has no recording and owns its
// variant. Threads: any; `lock` guards what it names, the rest changes only in calls that change the exec, which HIP
// does not allow to run beside others on it. Lock: kExecs, taken before kRecordings.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shim/base/short_lock.h"
#include "shim/base/sole_lock.h"
#include "shim/execs/exec_sets.h"
#include "shim/execs/recording.h"
#include "shim/execs/user_objects.h"
#include "shim/streams/outstanding_uses.h"

namespace graphpool {

struct UnstagedExec;

/// What updates by graphs of other recordings have made of an exec. Each was the program's own call once, on the exec
/// that is its own; what succeeded from one recording to another does so again, so variants of it can serve from then
/// on.
class Updates {
 public:
  /// Whether the runtime has taken a graph of `to` where the exec was one of `from`.
  bool known(const Recording& from, const Recording& to) const noexcept {
    return std::find(steps_.begin(), steps_.end(), std::pair{&from, &to}) != steps_.end();
  }
  /// No such step is known.
  bool none() const noexcept { return steps_.empty(); }
  /// It has. Both are held.
  void note(HeldRecording from, HeldRecording to) {
    if (steps_.size() >= kMost || known(*from, *to)) return;
    steps_.reserve(kMost);
    held_.reserve(2 * kMost);
    steps_.emplace_back(&*from, &*to);
    held_.push_back(std::move(from));
    held_.push_back(std::move(to));
  }

 private:
  static constexpr std::size_t kMost = 16;
  std::vector<std::pair<const Recording*, const Recording*>> steps_;
  std::vector<HeldRecording> held_;
};

class ProgramExec {
 public:
  // What each launch reads comes first: it lies in two cache lines.
  Recording* recording = nullptr;       ///< null while the program's own exec serves
  Variant* variant = nullptr;           ///< null for a graph without operations
  std::unique_ptr<Variant> own;         ///< a tainted variant; not up to date while there is a recording
  std::unique_ptr<ExecSets> sets;       ///< null: the program has set nothing since it was given a binding as a whole
  std::unique_ptr<LaunchMarks> before;  ///< launches by the variant used before, still to be waited for
  std::atomic<std::uint64_t> shared_seen{0};  ///< SharedMemory::version() when a launch last asked what is shared
  /// Of the fields up to `written`. The variant is changed under this and the recordings' lock, and read under either.
  SoleLock<LockRank::kExecs, ShortLock<LockRank::kExecs>> lock{OneOfMany{}};
  bool destroyed = false;       ///< by the program meanwhile: it goes with the last launch under way
  bool on_shadows = false;      ///< verify: the ring works on copies, so it must serve this launch
  bool set_by_program = false;  ///< it does what the program's own calls made of it since it was given a binding
  Way way = Way::kSame;         ///< how the binding is served
  std::uint32_t launching = 0;  ///< launches handed to the runtime that have not returned
  Binding binding;              ///< the program's
  std::vector<std::uint64_t>
      allocations;  ///< check: what its addresses lay in when it was bound (verify/stale_addresses.h)
  std::shared_ptr<const OutstandingUses::Bases> written;  ///< wholly_staged() of the binding; null: not asked yet

  HeldRecording last_update;  ///< what the last update made of `own`; none: not known
  Updates updates;
  /// Reached by more than updates that succeeded.
  bool touched() const noexcept { return touched_; }
  /// It is left to the runtime from now on, for this reason, a literal, which the report has.
  void touch(const char* why) noexcept;
  /// Execs made because updates brought other child graphs. After so many the program's own updates are cheaper.
  static constexpr std::uint32_t kMostForChildren = 8;
  std::uint32_t made_for_children = 0;
  std::unique_ptr<Variant> real_path;      ///< verify: of the program's own graph, for the next launch
  Objects objects;                         ///< user objects of the graph that it was instantiated from
  std::shared_ptr<UnstagedExec> unstaged;  ///< null: it was not staged when the binding last changed
  int device = 0;
  unsigned long long flags = 0;  ///< as the program instantiated it
  std::uint64_t source = 0;      ///< id of the graph it was made from: the program names its nodes by that graph's

 private:
  bool touched_ = false;
};

}  // namespace graphpool
