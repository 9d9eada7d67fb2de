#include "shim/recording/settings.h"

#include <atomic>
#include <cstddef>

#include "shim/base/short_lock.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"

namespace graphpool {

struct SettingCall::Remembered {
  std::uint64_t attribute, value;
  int device;
  EntryId function;
  bool used;
};

/// Bounded: where a value finds no place near its own, all are forgotten.
struct SettingTable {
  static constexpr std::size_t kPlaces = 1024, kProbes = 16;

  ShortLock<LockRank::kReport> lock;
  SettingCall::Remembered places[kPlaces] GUARDED_BY(lock);

  void clear() noexcept REQUIRES(lock) {
    for (auto& each : places) each.used = false;
  }
  /// The place of a value, or a free one for it; null: there is none near its own.
  SettingCall::Remembered* place_of(const SettingCall& call) noexcept REQUIRES(lock);
};

namespace {

constinit std::atomic<std::uint64_t> g_epoch{1};
constinit SettingTable g_table{};
/// Calls under way, and above them how many have begun: one word, so that no call comes between.
constinit std::atomic<std::uint64_t> g_calls{0};
constexpr int kBegunShift = 16;
constexpr std::uint64_t kUnderWayMask = (std::uint64_t{1} << kBegunShift) - 1;

}  // namespace

std::uint64_t settings_epoch() noexcept { return g_epoch.load(std::memory_order_acquire); }
void next_settings_epoch() noexcept { g_epoch.fetch_add(1, std::memory_order_acq_rel); }

void settings_changed() noexcept {
  forget_settings();
  next_settings_epoch();
  functions().forget_settings();
}

void forget_settings() noexcept {
  const LockGuard guard(g_table.lock);
  g_table.clear();
}

SettingUnderWay::SettingUnderWay() noexcept {
  const std::uint64_t before = g_calls.fetch_add(std::uint64_t{1} << kBegunShift | 1, std::memory_order_acq_rel);
  serial_ = (before >> kBegunShift) + 1;
  overlaps_ = (before & kUnderWayMask) != 0;
}

SettingUnderWay::~SettingUnderWay() { g_calls.fetch_sub(1, std::memory_order_acq_rel); }

bool SettingUnderWay::alone() const noexcept {
  return !overlaps_ && g_calls.load(std::memory_order_acquire) >> kBegunShift == serial_;
}

SettingCall::SettingCall(EntryId function, std::uint64_t attribute, std::uint64_t value) noexcept
    : function_(function), attribute_(attribute), value_(value), device_(calling_device()) {}

SettingCall::Remembered* SettingTable::place_of(const SettingCall& call) noexcept {
  std::uint64_t hash = call.attribute_ * 0x9e3779b97f4a7c15;
  hash = (hash ^ static_cast<std::uint64_t>(call.function_) << 8 ^ static_cast<std::uint64_t>(call.device_) << 24) *
         0x9e3779b97f4a7c15;
  SettingCall::Remembered* free = nullptr;
  for (std::size_t i = 0; i < kProbes; ++i) {
    SettingCall::Remembered& each = places[((hash >> 32) + i) % kPlaces];
    if (!each.used) {
      if (free == nullptr) free = &each;
    } else if (each.function == call.function_ && each.attribute == call.attribute_ && each.device == call.device_) {
      return &each;
    }
  }
  return free;
}

bool SettingCall::differs() const noexcept {
  const LockGuard guard(g_table.lock);
  const Remembered* const known = g_table.place_of(*this);
  return known == nullptr || !known->used || known->value != value_;
}

void SettingCall::set() noexcept {
  {
    const LockGuard guard(g_table.lock);
    Remembered* to = g_table.place_of(*this);
    if (to != nullptr && to->used && to->value == value_) return;
    if (to == nullptr) {
      g_table.clear();
      to = g_table.place_of(*this);
    }
    *to = {attribute_, value_, device_, function_, under_way_.alone()};
  }
  next_settings_epoch();
}

}  // namespace graphpool
