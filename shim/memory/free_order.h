// free_order.h: has the kept and pending blocks of each device in the order in which the program freed them, and the
// sum of their bytes, which the limit is about.
//
// Why: memory that was freed first goes back first. The blocks form a chain, so that any of them can be taken out
// without a search. Invariant: a block is in the order exactly while it is kept or pending, but for kept parts of a
// parked chunk (chunk_store.h), which take no memory; once it is loaded, they come last. Threads: guarded by
// g_blocks_lock. Units: bytes, rounded to pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/memory/block_table.h"
#include "shim/streams/devices.h"

namespace graphpool {

class FreeOrder {
 public:
  constexpr FreeOrder() = default;
  FreeOrder(const FreeOrder&) = delete;
  FreeOrder& operator=(const FreeOrder&) = delete;

  /// Puts the block last. `now_ms`: the IdleClock's time.
  void enter(Block* block, std::uint32_t now_ms) noexcept REQUIRES(g_blocks_lock) {
    Device& device = device_of(block->device);
    block->older = device.newest;
    block->newer = nullptr;
    (device.newest == nullptr ? device.oldest : device.newest->newer) = block;
    device.newest = block;
    block->linked = true;
    block->freed_ms = now_ms;
    device.kept_bytes += block->page_bytes();
    if (device.peak_bytes < device.kept_bytes) device.peak_bytes = device.kept_bytes;
    if (block->chunk == nullptr) device.classic_bytes += block->page_bytes();
  }
  /// Takes the block out, if it is in the order.
  void leave(Block* block) noexcept REQUIRES(g_blocks_lock) {
    if (!block->linked) return;
    Device& device = device_of(block->device);
    (block->older == nullptr ? device.oldest : block->older->newer) = block->newer;
    (block->newer == nullptr ? device.newest : block->newer->older) = block->older;
    block->older = block->newer = nullptr;
    block->linked = false;
    device.kept_bytes -= block->page_bytes();
    if (block->chunk == nullptr) device.classic_bytes -= block->page_bytes();
  }

  /// The block that was freed first, or null; Block::newer leads on.
  Block* oldest(int device) const noexcept REQUIRES(g_blocks_lock) { return device_of(device).oldest; }
  std::size_t kept_bytes(int device) const noexcept REQUIRES(g_blocks_lock) { return device_of(device).kept_bytes; }
  /// The bytes of blocks that are no parts of chunks.
  std::size_t classic_bytes(int device) const noexcept REQUIRES(g_blocks_lock) {
    return device_of(device).classic_bytes;
  }
  /// The most that kept_bytes() has been.
  std::size_t peak_bytes(int device) const noexcept REQUIRES(g_blocks_lock) { return device_of(device).peak_bytes; }

 private:
  struct Device {
    Block* oldest GUARDED_BY(g_blocks_lock) = nullptr;
    Block* newest GUARDED_BY(g_blocks_lock) = nullptr;
    std::size_t kept_bytes GUARDED_BY(g_blocks_lock) = 0;
    std::size_t classic_bytes GUARDED_BY(g_blocks_lock) = 0;
    std::size_t peak_bytes GUARDED_BY(g_blocks_lock) = 0;
  };
  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }
  const Device& device_of(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }

  std::array<Device, kMaxDevices> devices_{};
};

}  // namespace graphpool
