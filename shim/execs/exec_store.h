// exec_store.h: the variants that recordings keep: who has which, what they hold, and which of them go.
//
// A variant is free when its holder is gone and its last launch is known to be complete (rule 20; nothing relies on
// probe destroyed_exec_completes); until then another is made, whose graph need not stay (probe exec_outlives_graph).
//
// Bounded: so many variants a recording, so many bytes of device memory a device; the least recently used free ones go
// first. They go only in calls of the program that make, free, update or wait for something themselves (evict(),
// evict_if_due(), reclaim()), and never while they may still run. variant_limits.h counts what they hold. Where execs
// of the program have a limit of memory, too, an ExecRoom sees to it.
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
#include "shim/execs/recordings_lock.h"
#include "shim/execs/variant.h"
#include "shim/execs/variant_limits.h"

namespace graphpool {

/// Variants on their way out. The caller destroys them after unlocking.
using RetiredVariants = std::vector<std::unique_ptr<Variant>>;

/// How long a new variant is kept.
enum class Keep : std::uint8_t { kForLater, kThisUse };

class ExecStore {
 public:
  explicit ExecStore(const GraphSettings& settings) noexcept : limits(settings), settings_(settings) {}
  /// Once, before there are variants.
  void set_room(ExecRoom& room) noexcept { room_ = &room; }

  /// Takes a variant that was just instantiated into the recording. `owner`: the program exec that it serves, or null.
  Variant* adopt(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner,
                 Keep keep = Keep::kForLater) EXCLUDES(g_recordings_lock);
  /// Takes one in that was instantiated before.
  Variant* take_in(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner)
      REQUIRES(g_recordings_lock);
  /// Takes a variant out of its recording. Null: the recording does not keep it.
  std::unique_ptr<Variant> remove(Recording& recording, Variant* variant) noexcept REQUIRES(g_recordings_lock);

  /// It serves this exec from now on; null: nobody.
  void give(Variant& variant, const ProgramExec* owner) noexcept REQUIRES(g_recordings_lock);
  /// The exec does not use it any more: it is free, unless a launch of it is under way, at whose end it is. Under the
  /// lock of its exec, too.
  void disown(Variant& variant) noexcept REQUIRES(g_recordings_lock);
  /// A free variant that has this binding serves `owner` from now on. Null: there is none.
  Variant* take_free(Recording& recording, const Binding& binding, int device, const ProgramExec& owner)
      REQUIRES(g_recordings_lock);
  /// Looks for that binding with another payload of one operation.
  Variant* take_free(Recording& recording, const Binding& binding, const Operation& changed, const Binding& payload,
                     int device, const ProgramExec& owner) REQUIRES(g_recordings_lock);
  /// The time, as uses count it: each has its own.
  std::uint64_t tick() noexcept REQUIRES(g_recordings_lock) { return ++clock_; }
  /// It has been chosen for a binding.
  void note_used(Variant& variant) noexcept REQUIRES(g_recordings_lock) { note_used(variant, tick()); }
  void note_used(Variant& variant, std::uint64_t time) noexcept REQUIRES(g_recordings_lock) {
    variant.last_used_ = time;
  }

  /// Of a recording: what is not to be kept goes, and, where there is too much, the least recently used.
  void evict(Recording& recording, RetiredVariants* retired) REQUIRES(g_recordings_lock);
  /// The program makes, updates or waits for something itself: variants past the limits go (rule 15). Cost: a load
  /// where there are none.
  void evict_if_due() EXCLUDES(g_recordings_lock) {
    if (limits.are_due()) [[unlikely]]
      evict_due();
  }
  /// Evicts from all recordings that have a variant.
  void evict_due() EXCLUDES(g_recordings_lock);
  /// Before execs of so many bytes are made. No lock is held that others are taken before (ExecRoom).
  void make_room(int device, std::size_t bytes) noexcept EXCLUDES(g_recordings_lock);
  /// Takes the free variant out that was used least recently, of a device or of all (-1). Null: none is free, or it was
  /// used later than `before`.
  std::unique_ptr<Variant> take_oldest_free(int device, std::uint64_t before) noexcept REQUIRES(g_recordings_lock);
  /// Memory has run out: every free variant of the device (all: -1) goes. Returns whether there was one.
  bool reclaim(int device) noexcept EXCLUDES(g_recordings_lock);
  /// The device is being reset. Forgets without a call of the runtime what that made there.
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
