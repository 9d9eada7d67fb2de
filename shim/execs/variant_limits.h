// variant_limits.h: counts the memory that variants hold on each device, and says whether they are too many.
//
// The memory of an exec is an estimate (exec_size.h), which grows with patches and updates. Threads: any. Units: bytes.
// Not here: which variants go (exec_store.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "shim/execs/graph_settings.h"
#include "shim/execs/recording.h"
#include "shim/execs/variant.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class VariantLimits {
 public:
  explicit VariantLimits(const GraphSettings& settings) noexcept : settings_(settings) {}

  /// Notes that a recording has taken the variant in.
  void note_adopted(const Recording& recording, Variant& variant) REQUIRES(g_recordings_lock);
  /// Notes that it holds nothing any more. Pre-condition: it was adopted.
  void note_removed(Variant& variant) noexcept REQUIRES(g_recordings_lock);
  /// Notes that it has no owner from now on.
  void note_free(const Variant& variant) noexcept REQUIRES(g_recordings_lock);
  /// Notes that it has an owner from now on, or that it goes.
  void note_not_free(const Variant& variant) noexcept REQUIRES(g_recordings_lock) { --held_[variant.device].free; }

  /// Notes that it holds so much more device memory.
  void grow(Variant& variant, std::size_t bytes) REQUIRES(g_recordings_lock);
  /// Counts anew what a ring holds: that changes with its execs.
  void count_ring(const Recording& recording, Variant& variant) REQUIRES(g_recordings_lock);

  /// All devices on which variants were, in rising order.
  std::vector<int> devices() const REQUIRES(g_recordings_lock);
  /// The memory that the variants of a device are estimated to hold.
  struct Held {
    std::size_t bytes = 0, peak_bytes = 0;
    std::size_t free = 0;  ///< variants without an owner
  };
  Held held(int device) const noexcept REQUIRES(g_recordings_lock);
  /// Calls visit(device, held). A visit may change what a device holds, but not which devices there are.
  template <typename Visit>
  void for_each_device(Visit&& visit) const REQUIRES(g_recordings_lock) {
    for (const auto& [device, held] : held_) visit(device, held);
  }

  /// Whether it is not to be kept, or its recording or its device has more than may be kept.
  bool are_exceeded_by(const Variant& variant) const noexcept REQUIRES(g_recordings_lock);
  /// Whether some variant may have to go: from make_due() until looked_at(). Cost: a load.
  bool are_due() const noexcept { return due_.load(std::memory_order_relaxed); }
  void make_due() noexcept { due_.store(true, std::memory_order_relaxed); }
  void looked_at() noexcept { due_.store(false, std::memory_order_relaxed); }

 private:
  void hold(Variant& variant, std::size_t bytes) REQUIRES(g_recordings_lock);

  const GraphSettings& settings_;
  std::atomic<bool> due_{false};
  std::unordered_map<int, Held> held_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
