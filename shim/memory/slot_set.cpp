#include "shim/memory/slot_set.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/base/units.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/vmm.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

constinit std::atomic<bool> g_any_retired_slots{false};

/// The memory of a set. It outlives the set while it is retired.
struct SlotMemory {
  struct Slot {
    SlotRequest request;
    void* address = nullptr;
  };
  /// One device's part.
  struct Part {
    int device = 0;
    std::size_t bytes = 0;
    std::unique_ptr<Chunk> chunk;  // or
    void* classic = nullptr;
    Fence* fence = nullptr;  // while retired; null: nobody knows when the device is done with it
  };

  std::vector<Slot> slots;
  std::vector<Part> parts;
  std::unique_ptr<SlotMemory> next;  // in the list of retired memory

  SlotMemory() = default;
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;
  ~SlotMemory() {
    drop_fences();
    PrivateCalls private_calls;
    for (const Part& part : parts)
      if (part.classic != nullptr) (void)PrivateCalls::gave_back([&] { return next_free(part.classic); });
  }

  void drop_fences() noexcept {
    for (Part& part : parts)
      if (Fence* fence = std::exchange(part.fence, nullptr)) fences().release(fence);
  }
  bool on(int device) const noexcept {
    return device < 0 ||
           std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.device == device; });
  }
  bool has_shape(std::span<const SlotRequest> requests) const noexcept {
    return std::equal(requests.begin(), requests.end(), slots.begin(), slots.end(),
                      [](const SlotRequest& request, const Slot& slot) { return request == slot.request; });
  }
  bool passed() const noexcept {
    return std::all_of(parts.begin(), parts.end(),
                       [](const Part& part) { return part.fence != nullptr && fences().passed(part.fence); });
  }

  hipError_t allocate_part(int device);

 private:
  static hipError_t next_free(void* memory) noexcept { return graphpool::next().hipFree(memory); }
};

namespace {

constinit RankedMutex<LockRank::kSlots> g_lock;
constinit SlotMemory* g_retired GUARDED_BY(g_lock) =
    nullptr;  // owned; a plain pointer, so that nothing is destroyed at exit
constinit SlotTotals g_totals GUARDED_BY(g_lock);

/// Takes the first retired memory for which `wanted` is true out of the list. Null: there is none.
template <typename Wanted>
std::unique_ptr<SlotMemory> take_retired(Wanted wanted) noexcept {
  if (!g_any_retired_slots.load(std::memory_order_relaxed)) return nullptr;
  const LockGuard guard(g_lock);
  SlotMemory* before = nullptr;
  for (SlotMemory* memory = g_retired; memory != nullptr; before = memory, memory = memory->next.get()) {
    if (!wanted(*memory)) continue;
    SlotMemory* after = memory->next.release();
    if (before == nullptr) {
      g_retired = after;
    } else {
      (void)before->next.release();
      before->next.reset(after);
    }
    g_any_retired_slots.store(g_retired != nullptr, std::memory_order_relaxed);
    return std::unique_ptr<SlotMemory>(memory);
  }
  return nullptr;
}

}  // namespace

/// Gives the device's slots their memory.
hipError_t SlotMemory::allocate_part(int device) {
  std::vector<std::size_t> offsets(slots.size());
  std::size_t end = 0, alignment = kPageBytes;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const SlotRequest& request = slots[i].request;
    if (request.device != device) continue;
    alignment = std::max(alignment, alignment_of(request.bytes));
    offsets[i] = round_up(end, alignment_of(request.bytes));
    end = offsets[i] + round_up(std::max<std::size_t>(request.bytes, 1), kPageBytes);
  }
  Part part{.device = device, .bytes = 0, .chunk = nullptr, .classic = nullptr, .fence = nullptr};
  std::uintptr_t start = 0;
  if (vmm_works(device) && may_map_now(device)) {
    const std::size_t spare = has_defect(Defect::kMapWholeReservation) ? alignment : 0;
    if (make_chunk(device, end + spare, &part.chunk) != hipSuccess) part.chunk = nullptr;
  }
  if (part.chunk != nullptr) {
    part.bytes = part.chunk->bytes();
    start = part.chunk->base();
  } else {
    part.bytes = end + alignment;
    PrivateCalls private_calls;
    SavedDevice current(device);
    if (!current.ok()) return hipErrorInvalidDevice;
    const hipError_t error =
        memory_room().retry_after_trim(device, [&] { return graphpool::next().hipMalloc(&part.classic, part.bytes); });
    if (error != hipSuccess) return error;
    start = reinterpret_cast<std::uintptr_t>(part.classic);
  }
  const std::uintptr_t base = round_up(start, alignment);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].request.device != device) continue;
    slots[i].address = reinterpret_cast<void*>(base + offsets[i]);
  }
  parts.push_back(std::move(part));  // room was reserved
  return hipSuccess;
}

hipError_t SlotSet::create(std::span<const SlotRequest> requests, std::unique_ptr<SlotSet>* set) {
  std::unique_ptr<SlotMemory> memory;
  {
    PrivateCalls private_calls;
    memory = take_retired([&](const SlotMemory& old) { return old.has_shape(requests) && old.passed(); });
  }
  if (memory != nullptr) {
    memory->drop_fences();
  } else {
    memory = std::make_unique<SlotMemory>();
    std::vector<int> devices;
    for (const SlotRequest& request : requests) {
      memory->slots.push_back({request, nullptr});
      if (std::find(devices.begin(), devices.end(), request.device) == devices.end()) devices.push_back(request.device);
    }
    memory->parts.reserve(devices.size());
    for (const int device : devices) {
      const hipError_t error = memory->allocate_part(device);
      if (error != hipSuccess) return error;
    }
  }
  set->reset(new SlotSet(std::move(memory)));
  return hipSuccess;
}

SlotSet::SlotSet(std::unique_ptr<SlotMemory> memory) noexcept : memory_(std::move(memory)) {
  const LockGuard guard(g_lock);
  ++g_totals.sets;
  g_totals.slots += size();
  g_totals.bytes += total_bytes();
  g_totals.peak_bytes = std::max(g_totals.peak_bytes, g_totals.bytes);
}

SlotSet::~SlotSet() {
  for (SlotMemory::Part& part : memory_->parts) part.fence = fences().make(part.device);
  const LockGuard guard(g_lock);
  --g_totals.sets;
  g_totals.slots -= size();
  g_totals.bytes -= total_bytes();
  memory_->next.reset(g_retired);
  g_retired = memory_.release();
  g_any_retired_slots.store(true, std::memory_order_relaxed);
}

std::size_t SlotSet::size() const noexcept { return memory_->slots.size(); }
void* SlotSet::address(std::size_t slot) const noexcept { return memory_->slots[slot].address; }
std::size_t SlotSet::bytes(std::size_t slot) const noexcept { return memory_->slots[slot].request.bytes; }
int SlotSet::device(std::size_t slot) const noexcept { return memory_->slots[slot].request.device; }

std::size_t SlotSet::total_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const SlotMemory::Part& part : memory_->parts) bytes += part.bytes;
  return bytes;
}

bool SlotSet::is_vmm(int device) const noexcept {
  return std::any_of(memory_->parts.begin(), memory_->parts.end(),
                     [&](const SlotMemory::Part& part) { return part.device == device && part.chunk != nullptr; });
}

SlotTotals slot_totals() noexcept {
  const LockGuard guard(g_lock);
  return g_totals;
}

bool free_retired_slots_of(int device) noexcept {
  bool any = false;
  while (take_retired([&](const SlotMemory& memory) { return memory.on(device); }) != nullptr) any = true;
  return any;
}

std::size_t retired_slot_bytes(int device) noexcept {
  const LockGuard guard(g_lock);
  std::size_t bytes = 0;
  for (const SlotMemory* memory = g_retired; memory != nullptr; memory = memory->next.get())
    for (const SlotMemory::Part& part : memory->parts)
      if (part.device == device) bytes += part.bytes;
  return bytes;
}

}  // namespace graphpool
