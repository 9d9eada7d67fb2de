// variant.h: an exec of the runtime, or a ring of them, with the binding that it has baked in.
//
// Holder: whoever makes a variant has it alone. Its recording keeps it from ExecStore::adopt() on: it is free there, or
// serves one program exec. A variant that its program exec has taken out again is the program's own.
// Health: how far the variant may be trusted. It only gets worse.
//
// Threads: what has no lock named belongs to the holder; a free variant's belongs to whoever has g_recordings_lock. A
// holder changes `baked` under that lock, because others compare a variant's binding once it is free. The holder reads
// it without the lock, by baked_by_holder().
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shim/recording/operation.h"
#include "shim/recording/recordings_lock.h"
#include "shim/staging/slot_ring.h"
#include "shim/staging/staging.h"
#include "shim/streams/launch_marks.h"

namespace graphpool {

class ProgramExec;
class Recording;

/// In rising order of trouble.
enum class Health : std::uint8_t {
  kGood,
  kUnsure,      ///< for example updated in a way the runtime is not known to do correctly: it serves its holder only
  kBroken,      ///< half updated, or made of a recording that is wrong: it serves no further binding
  kDistrusted,  ///< verify: it does something else than its binding says, and is replaced
};

enum class Holder : std::uint8_t {
  kApart,    ///< no recording has it among its variants: it is being made, is a program exec's own, or is kept aside
  kNobody,   ///< it is free: its recording keeps it
  kServing,  ///< its recording keeps it for a program exec that lives
};

class Variant {
 public:
  // What each launch reads comes first.
  hipGraphExec_t exec = nullptr;            ///< null: staged
  std::atomic<std::uint32_t> under_way{0};  ///< launches that `launches` does not have yet; set under the exec's lock
  bool launched = false;                    ///< false: the next launch is the first, which costs more
  LaunchMarks launches;
  std::shared_ptr<const StagePlan> plan;  ///< staged: by this plan of the recording
  std::unique_ptr<SlotRing> ring;         ///< staged: has the execs; `baked` is canonical (StagePlan::canonical)
  hipGraph_t graph = nullptr;             ///< of our own, when the exec was made from one; else null
  std::vector<hipGraphNode_t> nodes;      ///< of that graph, one an operation
  std::uint64_t source = 0;  ///< if `graph` is null: id of the program's graph it was made from, which names its nodes
  Binding baked GUARDED_BY(g_recordings_lock);
  int device = 0;                  ///< the current device when it was instantiated (rule 14)
  std::size_t patched_bytes = 0;   ///< argument memory that updates have taken (exec_size.h)
  std::uint64_t memory_freed = 0;  ///< memory_freed() before its graph was made, or all of it was updated last
  std::uint64_t made_for = 0;      ///< number of the recording it was made for, which its nodes belong to
  std::uint32_t patches GUARDED_BY(g_recordings_lock) = 0;
  /// verify: addresses in the bindings that it had before (add_addresses).
  std::vector<std::uint64_t> reached GUARDED_BY(g_recordings_lock);

  Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;
  /// For the holder, without the lock: only the holder changes it. Clang cannot check this.
  const Binding& baked_by_holder() const noexcept NOT_CHECKED { return baked; }
  /// Gives a variant that is being made its binding. No other thread knows it.
  void bake(Binding binding) noexcept NOT_CHECKED { baked = std::move(binding); }

  ~Variant();  ///< destroys exec and graph: never under a lock

  /// Whether all its launches are known to be complete (rule 20).
  bool idle() noexcept { return under_way.load(std::memory_order_acquire) == 0 && launches.complete(); }

  Health health() const noexcept { return health_.load(std::memory_order_relaxed); }
  bool is_broken() const noexcept { return health() >= Health::kBroken; }
  /// Does nothing if it is as bad already.
  void worsen(Health health) noexcept REQUIRES(g_recordings_lock) {
    if (health > this->health()) health_.store(health, std::memory_order_relaxed);
  }
  /// False: it goes when it is free, because it was made for one use, is worn out, or is of no use any more.
  bool kept() const noexcept REQUIRES(g_recordings_lock) { return kept_; }
  void keep_no_longer() noexcept REQUIRES(g_recordings_lock) { kept_ = false; }
  /// worsen() and keep_no_longer().
  void use_up(Health health) noexcept REQUIRES(g_recordings_lock) {
    worsen(health);
    keep_no_longer();
  }

  Holder holder() const noexcept REQUIRES(g_recordings_lock) {
    return recording_ == nullptr ? Holder::kApart : owner_ == nullptr ? Holder::kNobody : Holder::kServing;
  }
  /// The live program exec that uses it; null: none.
  const ProgramExec* owner() const noexcept REQUIRES(g_recordings_lock) { return owner_; }
  /// When it was last chosen for a binding, by ExecStore::tick().
  std::uint64_t last_used() const noexcept REQUIRES(g_recordings_lock) { return last_used_; }
  /// Device memory that it is estimated to hold, in bytes.
  std::size_t device_bytes() const noexcept REQUIRES(g_recordings_lock) { return device_bytes_; }
  /// The recording that keeps it; null: none.
  const Recording* recording() const noexcept REQUIRES(g_recordings_lock) { return recording_; }

 private:
  friend class ExecStore;
  friend class VariantLimits;

  std::atomic<Health> health_{Health::kGood};
  bool kept_ GUARDED_BY(g_recordings_lock) = true;
  const ProgramExec* owner_ GUARDED_BY(g_recordings_lock) = nullptr;
  Recording* recording_ GUARDED_BY(g_recordings_lock) = nullptr;
  std::size_t place_ GUARDED_BY(g_recordings_lock) = 0;       ///< among its recording's variants
  std::size_t kept_place_ GUARDED_BY(g_recordings_lock) = 0;  ///< among those of all recordings
  std::size_t device_bytes_ GUARDED_BY(g_recordings_lock) = 0;
  std::uint64_t last_used_ GUARDED_BY(g_recordings_lock) = 0;
};

/// Whether memory was freed since the node was made, and the operation's node may hold on to it
/// (memory/freed_memory.h). `freed_before`: memory_freed() when the node was made.
bool outlived_memory(const Operation& operation, std::uint64_t freed_before) noexcept;
/// Whether this is so for some node of the recording.
bool outlived_memory(const Recording& recording, std::uint64_t freed_before) noexcept;
/// Whether the variant has outlived memory: it goes on serving what it serves, and no other binding.
inline bool outlived_memory(const Recording& recording, const Variant& variant) noexcept {
  return outlived_memory(recording, variant.memory_freed);
}

}  // namespace graphpool
