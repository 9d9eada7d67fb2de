#include "shim/settings.h"

#include <atomic>
#include <cstddef>
#include <mutex>

#include "shim/kernel/functions.h"
#include "shim/restore.h"
#include "shim/short_lock.h"

namespace graphpool {

struct SettingCall::Remembered {
  const void* object;
  std::uint64_t generation, attribute, value;
  const void* family;
  int device;
  EntryId function;
  bool used;
};

/// Bounded: a value without a place near its own makes all forgotten.
struct SettingTable {
  static constexpr std::size_t kPlaces = 1024, kProbes = 16;

  ShortLock<LockRank::kReport> lock;
  SettingCall::Remembered places[kPlaces];

  void clear() noexcept {
    for (auto& each : places) each.used = false;
  }
  void clear_family(const void* family) noexcept {
    for (auto& each : places)
      if (each.family == family) each.used = false;
  }
};

namespace {

constinit std::atomic<std::uint64_t> g_epoch{1};
constinit SettingTable g_table{};
constinit std::atomic<bool> g_several_handles{false};
constinit std::atomic<std::uint64_t> g_last_serial{0};
constinit std::atomic<int> g_under_way{0};

}  // namespace

std::uint64_t settings_epoch() noexcept { return g_epoch.load(std::memory_order_acquire); }
void next_settings_epoch() noexcept { g_epoch.fetch_add(1, std::memory_order_acq_rel); }

void settings_changed() noexcept {
  forget_settings();
  next_settings_epoch();
}

void forget_settings() noexcept {
  const std::scoped_lock guard(g_table.lock);
  g_table.clear();
}

void functions_have_several_handles() noexcept {
  if (!g_several_handles.exchange(true)) forget_settings();
}

SettingCall::SettingCall(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value) noexcept
    : function_(function), object_(object), attribute_(attribute), value_(value), device_(calling_device()) {
  if (object != nullptr) {
    const KernelInfo info = functions().find(object);
    generation_ = info.generation;
    family_ = info.layout;
  }
  overlaps_ = g_under_way.fetch_add(1, std::memory_order_acq_rel) != 0;
  serial_ = g_last_serial.fetch_add(1, std::memory_order_acq_rel) + 1;
}

SettingCall::~SettingCall() { g_under_way.fetch_sub(1, std::memory_order_acq_rel); }

SettingCall::Remembered* SettingCall::place() const noexcept {
  if (object_ != nullptr && generation_ == 0) return nullptr;  // nobody tells when it goes
  std::uint64_t hash = reinterpret_cast<std::uint64_t>(object_) * 0x9e3779b97f4a7c15;
  hash = (hash ^ attribute_ ^ static_cast<std::uint64_t>(function_) << 8 ^ static_cast<std::uint64_t>(device_) << 24) *
         0x9e3779b97f4a7c15;
  Remembered* free = nullptr;
  for (std::size_t i = 0; i < SettingTable::kProbes; ++i) {
    Remembered& each = g_table.places[((hash >> 32) + i) % SettingTable::kPlaces];
    if (!each.used) {
      if (free == nullptr) free = &each;
    } else if (each.object == object_ && each.function == function_ && each.attribute == attribute_ &&
               each.device == device_ && each.generation == generation_) {
      return &each;
    }
  }
  return free;
}

bool SettingCall::differs() const noexcept {
  const std::scoped_lock guard(g_table.lock);
  const Remembered* const known = place();
  return known == nullptr || !known->used || known->value != value_;
}

void SettingCall::set() noexcept {
  {
    const std::scoped_lock guard(g_table.lock);
    Remembered* to = place();
    if (to != nullptr && to->used && to->value == value_) return;
    if (to == nullptr) {
      g_table.clear();
      to = place();
    }
    if (object_ != nullptr && g_several_handles.load(std::memory_order_acquire)) g_table.clear_family(family_);
    // Of calls beside each other nobody knows which one the runtime made last.
    const bool alone = !overlaps_ && g_last_serial.load(std::memory_order_acquire) == serial_;
    if (to != nullptr) *to = {object_, generation_, attribute_, value_, family_, device_, function_, alone};
  }
  next_settings_epoch();
}

}  // namespace graphpool
