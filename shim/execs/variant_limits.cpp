#include "shim/execs/variant_limits.h"

#include <algorithm>
#include <utility>

namespace graphpool {

void VariantLimits::hold(Variant& variant, std::size_t bytes) {
  Held& held = held_[variant.device];
  held.bytes = held.bytes - variant.device_bytes_ + bytes;
  held.peak_bytes = std::max(held.peak_bytes, held.bytes);
  variant.device_bytes_ = bytes;
  if (are_exceeded_by(variant)) make_due();
}

void VariantLimits::grow(Variant& variant, std::size_t bytes) { hold(variant, variant.device_bytes_ + bytes); }

void VariantLimits::count_ring(const Recording& recording, Variant& variant) {
  hold(variant, variant.ring->execs() * recording.exec_bytes + variant.ring->slot_bytes());
}

void VariantLimits::note_adopted(const Recording& recording, Variant& variant) {
  if (variant.ring == nullptr)
    hold(variant, recording.exec_bytes);
  else
    count_ring(recording, variant);
}

void VariantLimits::note_removed(Variant& variant) noexcept {
  held_[variant.device].bytes -= std::exchange(variant.device_bytes_, 0);
}

void VariantLimits::note_free(const Variant& variant) noexcept {
  ++held_[variant.device].free;
  if (are_exceeded_by(variant)) make_due();
}

bool VariantLimits::are_exceeded_by(const Variant& variant) const noexcept {
  const Held held = this->held(variant.device);
  return !variant.kept() ||
         (variant.recording() != nullptr && variant.recording()->variants.size() > settings_.most_variants) ||
         held.bytes > settings_.most_variant_bytes ||
         (settings_.exec_memory != 0 && held.bytes > settings_.exec_memory);
}

std::vector<int> VariantLimits::devices() const {
  std::vector<int> devices;
  for (const auto& [device, held] : held_) devices.push_back(device);
  std::sort(devices.begin(), devices.end());
  return devices;
}

VariantLimits::Held VariantLimits::held(int device) const noexcept {
  const auto found = held_.find(device);
  return found == held_.end() ? Held{} : found->second;
}

}  // namespace graphpool
