#include "shim/memory/device_memory.h"

#include "shim/base/log.h"
#include "shim/memory/never_address.h"
#include "shim/memory/runtime_free.h"
#include "shim/memory/slot_set.h"

namespace graphpool {

constinit DeviceMemoryOfProcess g_device_memory;

void DeviceMemory::configure(const PoolSettings& settings, Decider decide) noexcept {
  const LockGuard guard(g_blocks_lock);
  pool.configure(settings, decide);
  frees.configure(settings.deferred_free);
  returns.configure(settings.leaving);
  chunks.configure(settings.chunk_bytes, settings.preallocate_bytes);
  kept.limits().configure(settings.limit_bytes, settings.limit_percent);
  kept.clock().configure(settings.idle, settings.clock_ms);
  kept.keeping().configure(settings.enabled);
}

void DeviceMemory::note_error(hipError_t error) noexcept {
  if (error != hipErrorIllegalAddress && error != hipErrorAssert && error != hipErrorLaunchFailure &&
      error != hipErrorLaunchTimeOut && error != hipErrorECCNotCorrectable)
    return;
  if (kept.keeping().note_device_error() && kept.keeping().switched_on())
    log_once(LogLevel::kWarn, "device in error",
             "a call failed with error %d: no memory is kept until the device is reset", static_cast<int>(error));
}

void DeviceMemory::peers_enabled(int device) noexcept {
  const LockGuard guard(g_blocks_lock);
  kept.lists().outdate(device);
}

void DeviceMemory::device_reset(int device) {
  if (!valid_device(device)) return;
  const bool in_error = kept.keeping().device_in_error();
  ChunkStore::Chunks dropped;
  {
    const LockGuard guard(g_blocks_lock);
    std::vector<Block*> reset_blocks;
    table.for_each([&](Block* block) {
      assume_held(g_blocks_lock);
      if (block->device == device) reset_blocks.push_back(block);
    });
    for (Block* block : reset_blocks) blocks.forget(block);
    dropped = chunks.drop(device, in_error);
    kept.limits().device_reset(device);
  }
  kept.dropped_fences().empty(work_.fences);
  if (!dropped.empty() && !work_.counts.is_idle(device)) {
    const PrivateCalls private_calls;
    (void)wait_like_free(work_, device);
  }
  dropped.clear();
  (void)free_retired_slots(device);
  work_.device_reset(device);
  forget_vmm(device);
  forget_too_small_memory(device);
  kept.keeping().end_device_error();
}

void DeviceMemory::device_was_reset(int device) {
  if (valid_device(device)) chunks.device_was_reset(device);
}

std::vector<PoolMemory> DeviceMemory::memory() const {
  std::vector<PoolMemory> all;
  const LockGuard guard(g_blocks_lock);
  for (int device = 0; device < kMaxDevices; ++device) {
    const FreeOrder& order = kept.order();
    if (order.peak_bytes(device) == 0 && chunks.size(device) == 0) continue;
    PoolMemory memory{device, 0, order.kept_bytes(device), order.peak_bytes(device), chunks.size(device)};
    for (const Block* block = order.oldest(device); block != nullptr; block = block->newer) ++memory.kept_blocks;
    all.push_back(memory);
  }
  return all;
}

bool DeviceMemory::is_valid() const {
  const LockGuard guard(g_blocks_lock);
  return blocks.is_valid();
}

}  // namespace graphpool
