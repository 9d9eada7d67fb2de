// slot_set.h: makes the device memory of one graph's staged buffers. The program never sees it.
//
// A set is made once, when the graph is instantiated: one chunk for each device (VMM if the runtime has it and mapping
// would not wait, else classic memory), cut into slots of whole pages. Nothing is mapped or allocated in a launch. A
// set lives until its graph is gone; then its memory is retired. Another set of the same shape takes it over once the
// device has passed what was enqueued until then. Or it is freed where the program's own call waits anyway
// (free_retired_slots). So to make and to destroy a set never waits where HIP would not (rule 16).
//
// Threads: a SlotSet belongs to its graph; retiring and taking over are under their own lock (rank kSlots), which is
// held over no HIP call but one that asks for a fence. Units: bytes. Not here: when a slot is free again (rings), what
// is copied (staging).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shim/hip/next.h"

namespace graphpool {

struct SlotMemory;

struct SlotRequest {
  std::size_t bytes = 0;
  int device = 0;

  friend bool operator==(const SlotRequest&, const SlotRequest&) = default;
};

class SlotSet {
 public:
  /// Makes slots of at least these sizes, in this order: page-aligned, from 2 MiB up aligned to that. On failure
  /// returns HIP's error, which is not left in hipGetLastError; then nothing is allocated.
  static hipError_t create(std::span<const SlotRequest> requests, std::unique_ptr<SlotSet>* set);
  ~SlotSet();
  SlotSet(const SlotSet&) = delete;
  SlotSet& operator=(const SlotSet&) = delete;

  std::size_t size() const noexcept;
  void* address(std::size_t slot) const noexcept;
  std::size_t bytes(std::size_t slot) const noexcept;
  int device(std::size_t slot) const noexcept;
  /// How much device memory the set holds, on all devices together.
  std::size_t total_bytes() const noexcept;
  /// Whether the device's slots are VMM memory.
  bool is_vmm(int device) const noexcept;

 private:
  explicit SlotSet(std::unique_ptr<SlotMemory> memory) noexcept;

  std::unique_ptr<SlotMemory> memory_;
};

/// The sets that belong to a graph now, and the most that their memory has been.
struct SlotTotals {
  std::size_t sets = 0, slots = 0, bytes = 0, peak_bytes = 0;
};
SlotTotals slot_totals() noexcept;

extern constinit std::atomic<bool> g_any_retired_slots;
bool free_retired_slots_of(int device) noexcept;
/// Frees retired memory of the device (all devices: -1). Waits as hipFree does, so call it where the program's own call
/// has waited for the device, or when memory has run out. Returns whether there was any.
inline bool free_retired_slots(int device) noexcept {
  return g_any_retired_slots.load(std::memory_order_relaxed) && free_retired_slots_of(device);
}

/// How much memory of the device is retired: the runtime counts it as used, and nobody uses it.
std::size_t retired_slot_bytes(int device) noexcept;

}  // namespace graphpool
