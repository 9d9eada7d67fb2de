#include "shim/staging/rings.h"

#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/staging/slot_ring.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

struct Rings {
  RankedMutex<LockRank::kRings> lock;
  ForkWatcher forks GUARDED_BY(lock);
  std::vector<SlotRing*> all GUARDED_BY(lock);

  void count() noexcept REQUIRES(lock) {
    g_rings.store(all.size(), std::memory_order_release);
    forks.watch(!all.empty());
  }
};

Rings& rings() noexcept {
  static Rings* const instance = new Rings;
  return *instance;
}

}  // namespace

void add_ring(SlotRing* ring) {
  Rings& known = rings();
  const LockGuard guard(known.lock);
  known.all.push_back(ring);
  known.count();
}

void remove_ring(SlotRing* ring) noexcept {
  Rings& known = rings();
  const LockGuard guard(known.lock);
  std::erase(known.all, ring);
  known.count();
}

void all_rings_before_capture(StreamKey stream) noexcept {
  Rings& known = rings();
  const LockGuard guard(known.lock);
  for (SlotRing* const ring : known.all) ring->before_capture(stream);
}

void rings_before_destroy(StreamKey first, StreamKey count) noexcept {
  if (g_rings.load(std::memory_order_acquire) == 0) return;
  Rings& known = rings();
  const LockGuard guard(known.lock);
  for (SlotRing* const ring : known.all) ring->before_destroy(first, count);
}

}  // namespace graphpool
