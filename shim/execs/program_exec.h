// program_exec.h: the exec that a program holds: a handle, the program's binding, and the variant that serves it.
//
// States (ExecState): a recording's variants serve it; or it is the program's own exec, which an update may bring back
// to a recording; or it is left to the runtime for good.
// Invariants: a variant has at most one live program exec as its owner; an exec of the program's own has no recording
// and owns its variant.
// Threads: any. Several threads may launch one exec at once. A call that changes or destroys an exec may run beside a
// launch of it only once that launch has begun to run: a program sees that on the device, before the launch returns.
// Members without a named lock belong to the calls that change the exec. Such a call changes `recording`, `variant`,
// `way` and `binding` under `lock`; so does a launch that has not begun to run (ring_exit.h, noted_sets.h,
// exec_repair.h, exec_limit.h). While no call uses the exec, a call that makes room may take `variant` (exec_limit.h).
// A launch reads these four under `lock`. After it has begun to run they may be those of a later change. A call that
// changes the exec is the only one that changes the four, and reads them without the lock, by recording_in_call() and
// its neighbours. `variant` changes under g_recordings_lock, too: a thread that holds either lock may read it.
// Lock: kExecs, taken before kRecordings.
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
#include "shim/execs/exec_uses.h"
#include "shim/execs/recording.h"
#include "shim/execs/user_objects.h"
#include "shim/streams/outstanding_uses.h"

namespace graphpool {

struct UnstagedExec;

/// Remembers which updates by graphs of other recordings the runtime has taken. Each was once the program's own call,
/// on the program's own exec. An update that succeeded from one recording to another succeeds again, so variants of the
/// other one can serve from then on.
class Updates {
 public:
  /// Whether the runtime has taken a graph of `to` where the exec was one of `from`.
  bool known(const Recording& from, const Recording& to) const noexcept {
    return std::find(steps_.begin(), steps_.end(), std::pair{&from, &to}) != steps_.end();
  }
  /// Whether no such step is known.
  bool none() const noexcept { return steps_.empty(); }
  /// Notes that it has. Holds both.
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

/// Counts launches that have not returned. If the program destroys the exec meanwhile, it goes with the last of them.
class LaunchesUnderWay {
 public:
  void begin() noexcept { ++count_; }
  /// Returns whether the exec goes with it.
  [[nodiscard]] bool end() noexcept { return --count_ == 0 && destroyed_; }
  /// The program destroys the exec. Returns whether it goes now.
  [[nodiscard]] bool destroy() noexcept {
    destroyed_ = true;
    return count_ == 0;
  }

 private:
  bool destroyed_ = false;
  std::uint32_t count_ = 0;
};

enum class ExecState : std::uint8_t {
  kServed,  ///< variants of its recording serve it
  kOwn,     ///< the program's own exec serves it; updates of it are followed
  kLeft,    ///< the program's own exec serves it, and not only updates that succeeded have led to that
};

/// verify: the memory that the ring of an exec works on.
enum class WorksOn : std::uint8_t { kProgramMemory, kCopies };

class ProgramExec {
 public:
  // What each launch reads comes first: it lies in two cache lines.
  Recording* recording GUARDED_BY(lock) = nullptr;  ///< null while the program's own exec serves
  Variant* variant GUARDED_BY(lock) = nullptr;      ///< null for a graph without nodes, and where it was given back
  std::unique_ptr<Variant> own;    ///< the program's own exec; not up to date while there is a recording
  std::unique_ptr<ExecSets> sets;  ///< null: nothing was set since it was given a whole binding, or sets are not kept
  /// Launches by the variant used before, still to be waited for.
  std::unique_ptr<LaunchMarks> before GUARDED_BY(lock);
  std::atomic<std::uint64_t> shared_seen{0};  ///< SharedMemory::version() when a launch last asked what is shared
  mutable SoleLock<LockRank::kExecs, ShortLock<LockRank::kExecs>> lock{OneOfMany{}};
  LaunchesUnderWay launches GUARDED_BY(lock);
  WorksOn works_on GUARDED_BY(lock) = WorksOn::kProgramMemory;  ///< kCopies: the ring must serve this launch
  bool becoming_own GUARDED_BY(lock) = false;  ///< a launch makes it the program's own; no other one changes it then
  Way way GUARDED_BY(lock) =
      Way::kSame;  ///< how the binding is served; kUpdate: by what the program's own calls made of the variant
  Binding binding GUARDED_BY(lock);  ///< the program's
  /// check: what its addresses lay in when it was bound (verify/stale_addresses.h).
  std::vector<std::uint64_t> allocations GUARDED_BY(lock);
  /// wholly_staged() of the binding; null: not asked yet.
  std::shared_ptr<const OutstandingUses::Bases> written GUARDED_BY(lock);

  HeldRecording last_update;  ///< the recording that the last update gave to `own`; none: not known
  Updates updates;
  /// After so many execs made because updates brought other child graphs, the program's own updates are cheaper.
  static constexpr std::uint32_t kMostForChildren = 8;
  std::uint32_t made_for_children = 0;
  /// verify: an exec of the program's own graph, for the next launch, or because a comparison says that it must serve.
  std::unique_ptr<Variant> real_path GUARDED_BY(lock);
  Objects objects;  ///< user objects of the graph that it was instantiated from
  /// Null: it was not staged when the binding last changed, and is not given back.
  std::shared_ptr<UnstagedExec> unstaged;
  std::shared_ptr<ExecUses::Entry> limited;  ///< null: execs have no limit of memory
  int device = 0;
  unsigned long long flags = 0;  ///< as the program instantiated it
  std::uint64_t source = 0;      ///< id of the graph it was made from: the program names its nodes by that graph's

  // These four read without the lock. A call that changes the exec may use them, and so may the launch that makes it
  // the program's own, and a thread whose exec no other thread knows. A thread that holds g_recordings_lock may read
  // variant. Clang cannot check this.

  Recording* recording_in_call() const noexcept NOT_CHECKED { return recording; }
  Variant* variant_in_call() const noexcept NOT_CHECKED { return variant; }
  Way way_in_call() const noexcept NOT_CHECKED { return way; }
  const Binding& binding_in_call() const noexcept NOT_CHECKED { return binding; }

  // These two change an exec that is being made. No other thread knows it.

  /// Gives it this recording and binding, and nothing that serves it.
  void begin(Recording& by, const Binding& bound) NOT_CHECKED {
    recording = &by;
    binding = bound;
  }
  /// Lets this variant, which may be null, serve it in this way.
  void begin_service(Variant* serving, Way served) noexcept NOT_CHECKED {
    variant = serving;
    way = served;
  }

  // The functions below are called under the lock, or as recording_in_call() may be.

  ExecState state() const noexcept {
    return recording_in_call() != nullptr ? ExecState::kServed : touched_ ? ExecState::kLeft : ExecState::kOwn;
  }
  /// Whether its updates may be followed: if it is the program's own, only updates that succeeded have led to that.
  bool followed() const noexcept { return !touched_; }
  /// Leaves its updates to the runtime from now on. `reason`: a literal, for the report.
  void leave(const char* reason) noexcept;

  /// Whether the program's own calls have changed the variant since it was given a binding.
  bool set_by_program() const noexcept { return way_in_call() == Way::kUpdate; }
  /// Whether its exec of the runtime's has been given back; it is made again when it is needed (graphs/exec_limit.h).
  bool given_back() const noexcept {
    const Recording* const of_now = recording_in_call();
    return of_now != nullptr && variant_in_call() == nullptr && of_now->node_count != 0;
  }
  /// Whether it works on slots.
  bool staged() const noexcept { return variant_in_call() != nullptr && variant_in_call()->ring != nullptr; }

  void count_launch() noexcept REQUIRES(lock) {
    if (recording != nullptr) recording->launches.add(way);
    g_launches_by_way.add(way);
  }

  /// Gives it this binding, served in this way.
  void bind(const Binding& bound, Way served) REQUIRES(lock) {
    binding = bound;
    written = nullptr;
    way = served;
  }
  /// Makes launches of its next variant come behind those of the former one, which serves it no more.
  void come_behind(Variant& former) REQUIRES(lock);
  /// Lets the program's own exec serve from now on.
  void become_own(std::unique_ptr<Variant> exec) REQUIRES(lock, g_recordings_lock);
  /// Lets a recording serve it again, by this variant. Pre-condition: the recording counts the exec as a user already.
  void become_served(Recording& by, Variant& serving) REQUIRES(lock, g_recordings_lock);

 private:
  bool touched_ = false;
};

}  // namespace graphpool
