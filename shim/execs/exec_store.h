// exec_store.h: keeps the variants of recordings: knows who has which, and decides which of them go.
//
// A variant is free when it has no owner. It serves another exec, or is evicted, only when its last launch is known to
// be complete, too (rule 20; nothing relies on probe destroyed_exec_completes). Until then another variant is made, and
// its graph need not stay (probe exec_outlives_graph). If its recording is dropped, or a module of it unloaded, a free
// variant goes although it may run.
//
// Bounded: so many variants for each recording, so many bytes for each device. The least recently used free variants go
// first. They go in calls of the program that make, free, update or wait for something themselves (evict(),
// evict_if_due(), reclaim()), and when captures are left alone from now on (Graphs::drop_free_execs_of).
// variant_limits.h counts what they hold. If execs of the program have a limit of memory, too, an ExecRoom keeps it.
//
// Threads: any. Not here: how a variant is made (exec_builder.h), which one serves a binding (exec_supply.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/execs/exec_room.h"
#include "shim/execs/graph_settings.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/recording.h"
#include "shim/execs/variant.h"
#include "shim/execs/variant_limits.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

/// Variants that go. The caller destroys them after unlocking.
using RetiredVariants = std::vector<std::unique_ptr<Variant>>;

/// How long a new variant is kept.
enum class Keep : std::uint8_t { kForLater, kThisUse };

class ExecStore {
 public:
  explicit ExecStore(const GraphSettings& settings) noexcept : limits(settings), settings_(settings) {}
  /// Sets what makes room. Call it once, before there are variants.
  void set_room(ExecRoom& room) noexcept { room_ = &room; }

  /// Puts a variant that was just instantiated into the recording. `owner`: the program exec that it serves, or null.
  Variant* adopt(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner,
                 Keep keep = Keep::kForLater) EXCLUDES(g_recordings_lock);
  /// Does the same with one that was instantiated before. Throws std::bad_alloc; then the caller still has it.
  Variant* take_in(Recording& recording, std::unique_ptr<Variant>&& variant, const ProgramExec* owner)
      REQUIRES(g_recordings_lock);
  /// Takes a variant out of its recording. Null: the recording does not keep it.
  std::unique_ptr<Variant> remove(Recording& recording, Variant* variant) noexcept REQUIRES(g_recordings_lock);

  /// Gives the variant to this exec, which it serves from now on; null: frees it.
  void give(Variant& variant, const ProgramExec* owner) noexcept REQUIRES(g_recordings_lock);
  /// Frees a variant that its exec does not use any more. While a launch of it is under way it does nothing: call it
  /// again at the launch's end. The caller holds the lock of the exec, too.
  void disown(Variant& variant) noexcept REQUIRES(g_recordings_lock);
  /// Gives `owner` a free variant that has this binding, is good and does not run. Null: there is none.
  Variant* take_free(Recording& recording, const Binding& binding, int device, const ProgramExec& owner)
      REQUIRES(g_recordings_lock);
  /// Does the same for that binding with this payload of the operation `changed`.
  Variant* take_free(Recording& recording, const Binding& binding, const Operation& changed, const Binding& payload,
                     int device, const ProgramExec& owner) REQUIRES(g_recordings_lock);
  /// Counts the uses of variants. Each use has a number of its own.
  std::uint64_t tick() noexcept REQUIRES(g_recordings_lock) { return ++clock_; }
  /// Notes that the variant has been chosen for a binding.
  void note_used(Variant& variant) noexcept REQUIRES(g_recordings_lock) { note_used(variant, tick()); }
  void note_used(Variant& variant, std::uint64_t time) noexcept REQUIRES(g_recordings_lock) {
    variant.last_used_ = time;
  }

  /// Takes out free variants of the recording that are not to be kept, then the least recently used ones beyond its
  /// limit, and those of all recordings beyond the limit of a device.
  void evict(Recording& recording, RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// Destroys variants beyond the limits (rule 15). For calls of the program that make, update or wait for something
  /// themselves. Cost: a load, if none is due.
  void evict_if_due() EXCLUDES(g_recordings_lock) {
    if (limits.are_due()) [[unlikely]]
      evict_due();
  }
  /// Evicts from all recordings that have a variant, and lets the ExecRoom trim.
  void evict_due() EXCLUDES(g_recordings_lock);
  /// Lets the ExecRoom make room before execs of so many bytes are made. The caller holds no lock.
  void make_room(int device, std::size_t bytes) noexcept EXCLUDES(g_recordings_lock);
  /// Takes out the least recently used free variant of the device (all: -1). Null: none can go, or its use came after
  /// `before`.
  std::unique_ptr<Variant> take_oldest_free(int device, std::uint64_t before) noexcept REQUIRES(g_recordings_lock);
  /// Destroys every free variant of the device (all: -1) that does not run, and lets the ExecRoom do what it can,
  /// because memory has run out. Returns whether anything went.
  bool reclaim(int device) noexcept EXCLUDES(g_recordings_lock);
  /// Forgets what the runtime made on a device that is being reset, without a call to it.
  void device_reset(int device) noexcept REQUIRES(g_recordings_lock);

  /// Visits the variants that the exec may have: the free ones of its recording, and its own. The visitor must not
  /// change who has them.
  template <typename Visit>
  static void for_each_reachable(const ProgramExec& exec, Visit&& visit) REQUIRES(g_recordings_lock) {
    const Recording& recording = *exec.recording_in_call();
    for (std::size_t i = 0; i < recording.free_variants; ++i) visit(*recording.variants[i]);
    if (exec.variant_in_call() != nullptr && exec.variant_in_call()->recording_ == &recording &&
        exec.variant_in_call()->owner_ == &exec)
      visit(*exec.variant_in_call());
  }

  VariantLimits limits;

 private:
  template <typename HasBinding>
  Variant* take_free_if(Recording& recording, int device, const ProgramExec& owner, HasBinding&& has_binding)
      REQUIRES(g_recordings_lock);
  static void swap_places(Recording& recording, std::size_t a, std::size_t b) noexcept REQUIRES(g_recordings_lock);

  static constexpr std::size_t kNear = 128;  ///< bytes on each side of a payload: about one operation's

  const GraphSettings& settings_;
  ExecRoom* room_ = nullptr;
  std::uint64_t clock_ GUARDED_BY(g_recordings_lock) = 0;     ///< orders uses of variants
  std::vector<Variant*> kept_ GUARDED_BY(g_recordings_lock);  ///< of all recordings
};

}  // namespace graphpool
