// place_table.h: a table with one entry for each place of the program's code that begins captures.
//
// The first kPlaces places have entries of their own; each later one shares one of these. Threads: the caller locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace graphpool {

template <typename Entry>
class PlaceTable {
 public:
  static constexpr std::size_t kPlaces = 64;

  /// `place`: the return address of the call that begins a capture.
  Entry& entry(const void* place) noexcept {
    const std::size_t home = (reinterpret_cast<std::uintptr_t>(place) * 0x9e3779b97f4a7c15u >> 40) % kPlaces;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      Slot& slot = slots_[(home + i) % kPlaces];
      if (slot.place == nullptr) slot.place = place;
      if (slot.place == place) return slot.entry;
    }
    return slots_[home].entry;
  }

 private:
  struct Slot {
    const void* place = nullptr;  ///< the place that has this slot; null: free
    Entry entry;
  };
  std::array<Slot, kPlaces> slots_{};
};

}  // namespace graphpool
