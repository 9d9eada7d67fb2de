#include "shim/memory/chunk_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shim/hip/quirks.h"
#include "shim/memory/memory_use.h"

namespace graphpool {

ChunkStore::Place ChunkStore::take_from(PooledChunk& chunk, std::size_t bytes) {
  std::optional<std::size_t> offset = chunk.free_ranges.take(chunk.base(), bytes, alignment_of(bytes));
  // A chunk made for this block alone begins where the runtime put it.
  if (!offset && chunk.used_bytes == 0) offset = chunk.free_ranges.take(chunk.base(), bytes, kPageBytes);
  if (!offset) return {};
  chunk.used_bytes += bytes;
  ++chunk.busy_parts;
  add_parts(1);
  return {&chunk, chunk.base() + *offset};
}

ChunkStore::Place ChunkStore::take_place(int device, std::size_t bytes) {
  for (const auto& chunk : device_of(device).chunks) {
    if (chunk->state != ChunkState::kResident) continue;
    if (const Place place = take_from(*chunk, bytes); place.chunk != nullptr) return place;
  }
  return {};
}

/// Returns how large the chunk for a part of so many bytes is to be. Makes room in the list of chunks.
std::size_t ChunkStore::bytes_of_next(Device& device, std::size_t bytes) {
  device.chunks.reserve(device.chunks.size() + 8);
  // If the runtime chooses the chunk's alignment, the block is aligned inside the chunk. A block that fills a chunk
  // gets one without spare bytes: the program must be able to allocate as much as it could natively.
  const std::size_t spare = has_defect(Defect::kMapWholeReservation) ? alignment_of(bytes) : 0;
  const std::size_t chunk_bytes = bytes >= chunk_bytes_ ? bytes : std::max(chunk_bytes_, bytes + spare);
  return device.preallocated ? chunk_bytes : std::max(chunk_bytes, preallocate_bytes_);
}

ChunkStore::Place ChunkStore::make_place(int device, std::size_t bytes) {
  std::size_t chunk_bytes = 0;
  {
    const LockGuard guard(g_blocks_lock);
    chunk_bytes = bytes_of_next(device_of(device), bytes);
  }
  if (!vmm_works(device) || !may_map_now(device)) return {};
  std::unique_ptr<Chunk> memory;
  if (make_chunk(device, chunk_bytes, &memory) != hipSuccess) return {};
  auto chunk = std::make_unique<PooledChunk>(std::move(memory));
  const LockGuard guard(g_blocks_lock);
  Device& state = device_of(device);
  state.preallocated = true;
  begin_.store(std::min(begin_.load(), chunk->base()));
  end_.store(std::max(end_.load(), chunk->base() + chunk->bytes()));
  tell_kept(chunk->base(), chunk->bytes());
  state.chunks.push_back(std::move(chunk));
  return take_from(*state.chunks.back(), bytes);
}

void ChunkStore::give_place(Place place, std::size_t bytes, bool used) noexcept {
  PooledChunk& chunk = *place.chunk;
  if (used) chunk.used_bytes -= bytes;
  --chunk.busy_parts;
  chunk.free_ranges.give(place.address - chunk.base(), bytes);
  add_parts(~std::size_t{0});
}

std::size_t ChunkStore::parts() const noexcept {
  std::size_t parts = parts_.load(std::memory_order_relaxed);
  for (const Device& device : devices_) parts -= device.abandoned;
  return parts;
}

bool ChunkStore::begin_parking(PooledChunk& chunk) noexcept {
  Device& device = device_of(chunk.device());
  if (device.parked >= kMaxParked) return false;
  chunk.become(ChunkState::kParking);
  ++device.parked;
  return true;
}

void ChunkStore::park(PooledChunk& chunk) noexcept {
  chunk.memory->unload();
  const LockGuard guard(g_blocks_lock);
  chunk.become(ChunkState::kParked);
}

std::unique_ptr<PooledChunk> ChunkStore::take_out(const PooledChunk& chunk) noexcept {
  Chunks& chunks = device_of(chunk.device()).chunks;
  const auto owner = std::find_if(chunks.begin(), chunks.end(), [&](const auto& each) { return each.get() == &chunk; });
  std::unique_ptr<PooledChunk> taken = std::move(*owner);
  chunks.erase(owner);
  return taken;
}

hipError_t ChunkStore::load(PooledChunk& chunk) noexcept {
  return may_map_now(chunk.device()) ? chunk.memory->load() : hipErrorNotReady;
}

void ChunkStore::loaded(PooledChunk& chunk, bool worked) noexcept {
  chunk.become(worked ? ChunkState::kResident : ChunkState::kParked);
  if (!worked) return;
  --device_of(chunk.device()).parked;
  tell_kept(chunk.base(), chunk.bytes());
}

std::size_t ChunkStore::unused_bytes(int device) const noexcept {
  std::size_t bytes = 0;
  for (const auto& chunk : device_of(device).chunks)
    if (chunk->state == ChunkState::kResident || chunk->state == ChunkState::kParking)
      bytes += chunk->bytes() - chunk->used_bytes;
  return bytes;
}

bool ChunkStore::in_chunk(std::uintptr_t address) const noexcept {
  const LockGuard guard(g_blocks_lock);
  const auto in_any = [address](const Chunks& chunks) {
    return std::any_of(chunks.begin(), chunks.end(), [address](const auto& chunk) {
      return address >= chunk->base() && address - chunk->base() < chunk->bytes();
    });
  };
  return std::any_of(devices_.begin(), devices_.end(), [&](const Device& device) {
    assume_held(g_blocks_lock);
    return in_any(device.chunks) || in_any(device.dropped);
  });
}

ChunkStore::Chunks ChunkStore::drop(int device, bool in_error) noexcept {
  Device& state = device_of(device);
  Chunks chunks;
  chunks.swap(state.chunks);
  if (in_error && state.dropped.empty()) chunks.swap(state.dropped);
  add_parts(std::size_t{0} - std::exchange(state.abandoned, 0));
  state.parked = 0;
  state.preallocated = false;
  return chunks;
}

void ChunkStore::device_was_reset(int device) noexcept {
  Chunks dropped;
  const LockGuard guard(g_blocks_lock);
  dropped.swap(device_of(device).dropped);
}

}  // namespace graphpool
