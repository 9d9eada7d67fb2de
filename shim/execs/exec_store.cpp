#include "shim/execs/exec_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/base/seeded_defect.h"

namespace graphpool {
namespace {

void take_older(Variant& variant, Variant** oldest) REQUIRES(g_recordings_lock) {
  if ((*oldest == nullptr || variant.last_used() < (*oldest)->last_used()) && variant.idle()) *oldest = &variant;
}

/// Lets the next push_back() need no memory.
template <typename Entry>
void make_place(std::vector<Entry>& entries) {
  if (entries.size() == entries.capacity()) entries.reserve(2 * entries.size() + 1);
}

/// The least recently used free variant of the recording that does not run, or null.
Variant* oldest_free(const Recording& recording) REQUIRES(g_recordings_lock) {
  Variant* oldest = nullptr;
  for (std::size_t i = 0; i < recording.free_variants; ++i) take_older(*recording.variants[i], &oldest);
  return oldest;
}

/// The least recently used free one of these, on the device (-1: any), that does not run; or null.
Variant* oldest_free(const std::vector<Variant*>& variants, int device) REQUIRES(g_recordings_lock) {
  Variant* oldest = nullptr;
  for (Variant* const variant : variants)
    if (variant->holder() == Holder::kNobody && (device < 0 || variant->device == device))
      take_older(*variant, &oldest);
  return oldest;
}

}  // namespace

void ExecStore::swap_places(Recording& recording, std::size_t a, std::size_t b) noexcept {
  std::swap(recording.variants[a], recording.variants[b]);
  recording.variants[a]->place_ = a;
  recording.variants[b]->place_ = b;
}

void ExecStore::give(Variant& variant, const ProgramExec* owner) noexcept {
  const ProgramExec* const before = std::exchange(variant.owner_, owner);
  if (variant.recording_ == nullptr || (before == nullptr) == (owner == nullptr)) return;
  Recording& recording = *variant.recording_;
  if (owner != nullptr) {
    swap_places(recording, variant.place_, --recording.free_variants);
    limits.note_not_free(variant);
  } else {
    swap_places(recording, variant.place_, recording.free_variants++);
    limits.note_free(variant);
  }
}

void ExecStore::disown(Variant& variant) noexcept {
  if (variant.under_way.load(std::memory_order_acquire) == 0) give(variant, nullptr);
}

std::unique_ptr<Variant> ExecStore::remove(Recording& recording, Variant* variant) noexcept {
  if (variant == nullptr || variant->recording_ != &recording) return nullptr;
  if (variant->owner_ == nullptr) {
    swap_places(recording, variant->place_, --recording.free_variants);
    limits.note_not_free(*variant);
  }
  swap_places(recording, variant->place_, recording.variants.size() - 1);
  std::unique_ptr<Variant> removed = std::move(recording.variants.back());
  recording.variants.pop_back();
  kept_.back()->kept_place_ = removed->kept_place_;
  std::swap(kept_[removed->kept_place_], kept_.back());
  kept_.pop_back();
  removed->owner_ = nullptr;
  removed->recording_ = nullptr;
  limits.note_removed(*removed);
  return removed;
}

Variant* ExecStore::adopt(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner, Keep keep) {
  const LockGuard guard(g_recordings_lock);
  if (keep == Keep::kThisUse) variant->keep_no_longer();
  ++recording.statistics.instantiates;
  return take_in(recording, std::move(variant), owner);
}

Variant* ExecStore::take_in(Recording& recording, std::unique_ptr<Variant>&& variant, const ProgramExec* owner) {
  make_place(kept_);
  make_place(recording.variants);
  limits.note_adopted(recording, *variant);
  variant->owner_ = owner;
  variant->recording_ = &recording;
  variant->made_for = recording.number;
  note_used(*variant);
  Variant* const adopted = variant.get();
  adopted->place_ = recording.variants.size();
  adopted->kept_place_ = kept_.size();
  kept_.push_back(adopted);
  recording.variants.push_back(std::move(variant));
  if (limits.are_exceeded_by(*adopted)) limits.make_due();
  if (owner == nullptr) {
    swap_places(recording, adopted->place_, recording.free_variants++);
    limits.note_free(*adopted);
  }
  return adopted;
}

void ExecStore::evict(Recording& recording, RetiredVariants* retired) {
  const auto evict_one = [&](Variant* variant) {
    assume_held(g_recordings_lock);
    make_place(*retired);  // it may throw: no variant is destroyed under the lock
    ++variant->recording_->statistics.evicted;
    retired->push_back(remove(*variant->recording_, variant));
  };
  for (std::size_t i = 0; i < recording.free_variants;) {
    Variant* const variant = recording.variants[i].get();
    if (variant->kept_ || !variant->idle()) {
      ++i;
      continue;
    }
    make_place(*retired);
    retired->push_back(remove(recording, variant));
  }
  while (recording.variants.size() > settings_.most_variants) {
    Variant* const oldest = oldest_free(recording);
    if (oldest == nullptr) break;
    evict_one(oldest);
  }
  limits.for_each_device([&](int device, const VariantLimits::Held& held) {
    assume_held(g_recordings_lock);
    while (held.bytes > settings_.most_variant_bytes && held.free != 0) {
      Variant* const oldest = oldest_free(kept_, device);
      if (oldest == nullptr) break;
      evict_one(oldest);
    }
  });
}

std::unique_ptr<Variant> ExecStore::take_oldest_free(int device, std::uint64_t before) noexcept {
  Variant* const oldest = oldest_free(kept_, device);
  if (oldest == nullptr || oldest->last_used_ > before) return nullptr;
  ++oldest->recording_->statistics.evicted;
  return remove(*oldest->recording_, oldest);
}

void ExecStore::make_room(int device, std::size_t bytes) noexcept {
  if (room_ != nullptr && room_->make_room(device, bytes) == ExecRoom::Left::kRunning) limits.make_due();
}

void ExecStore::evict_due() {
  {
    RetiredVariants retired;
    const LockGuard guard(g_recordings_lock);
    limits.looked_at();
    std::vector<Recording*> having;
    for (const Variant* const variant : kept_)
      if (having.empty() || having.back() != variant->recording_) having.push_back(variant->recording_);
    std::sort(having.begin(), having.end());
    having.erase(std::unique(having.begin(), having.end()), having.end());
    for (Recording* const recording : having) evict(*recording, &retired);
    // Variants that still run are tried again.
    const bool left = std::any_of(kept_.begin(), kept_.end(), [&](const Variant* variant) {
      assume_held(g_recordings_lock);
      return variant->owner_ == nullptr && limits.are_exceeded_by(*variant);
    });
    if (left) limits.make_due();
  }
  if (room_ != nullptr && room_->trim() == ExecRoom::Left::kRunning) limits.make_due();
}

bool ExecStore::reclaim(int device) noexcept {
  bool any = false;
  // One at a time, because a list of them would need host memory.
  for (bool more = true; more; any = any || more) {
    std::unique_ptr<Variant> oldest;  // destroyed when the lock is not held any more
    const LockGuard guard(g_recordings_lock);
    oldest = take_oldest_free(device, ~std::uint64_t{0});
    more = oldest != nullptr;
  }
  const bool made_room = room_ != nullptr && room_->reclaim(device);
  return made_room || any;
}

void ExecStore::device_reset(int device) noexcept {
  for (std::size_t i = 0; i < kept_.size();) {
    Variant* const variant = kept_[i];
    if (variant->device != device) {
      ++i;
      continue;
    }
    if (variant->owner_ != nullptr) {
      // It goes with its holder.
      variant->use_up(variant->ring == nullptr ? Health::kUnsure : Health::kBroken);
      if (variant->ring != nullptr) {
        variant->ring->forget();
        limits.count_ring(*variant->recording_, *variant);
      }
      ++i;
      continue;
    }
    variant->exec = nullptr;
    variant->graph = nullptr;
    if (variant->ring != nullptr) variant->ring->forget();
    static_cast<void>(remove(*variant->recording_, variant));
  }
}

Variant* ExecStore::take_free(Recording& recording, const Binding& binding, int device, const ProgramExec& owner) {
  return take_free_if(recording, device, owner, [&](const Binding& baked) { return equal(baked, binding); });
}

Variant* ExecStore::take_free(Recording& recording, const Binding& binding, const Operation& changed,
                              const Binding& payload, int device, const ProgramExec& owner) {
  const std::size_t begin = changed.payload_offset, end = begin + payload.size();
  return take_free_if(recording, device, owner, [&](const Binding& baked) {
    const auto same = [&](std::size_t from, std::size_t to) {
      return from == to || std::memcmp(baked.data() + from, binding.data() + from, to - from) == 0;
    };
    if (baked.size() != binding.size()) return false;
    // Nodes are set one after the other, so the bytes next to this payload differ most often: they come first.
    const std::size_t first = begin - std::min(begin, kNear), last = std::min(end + kNear, binding.size());
    return same(first, begin) && same(end, last) &&
           (payload.empty() || std::memcmp(baked.data() + begin, payload.data(), payload.size()) == 0) &&
           same(last, binding.size()) && same(0, first);
  });
}

template <typename HasBinding>
Variant* ExecStore::take_free_if(Recording& recording, int device, const ProgramExec& owner, HasBinding&& has_binding) {
  for (std::size_t i = 0; i < recording.free_variants; ++i) {
    Variant& variant = *recording.variants[i];
    if (outlived_memory(recording, variant)) {
      variant.keep_no_longer();
      continue;
    }
    // It was made of another graph of the program's, so the nodes that the program names are not its nodes.
    if (variant.graph == nullptr && variant.source != owner.source) continue;
    if (variant.device != device || variant.ring != nullptr || variant.health() != Health::kGood ||
        (!has_binding(variant.baked) && !seeded_defect(Seeded::kBindingIgnored)))
      continue;
    if (!variant.idle()) continue;
    give(variant, &owner);
    note_used(variant);
    return &variant;
  }
  return nullptr;
}

}  // namespace graphpool
