#include "shim/memory/kept_memory.h"

#include <algorithm>
#include <utility>

namespace graphpool {

void KeptMemory::add_pending(Block* block, Fence* fence, int waits_for) noexcept {
  if (block->chunk != nullptr) block->chunk->part_freed(block->page_bytes(), clock_.now_ms());
  add_to_count(1);
  block->fence = fence;
  block->waits_for = static_cast<std::uint8_t>(waits_for);
  block->become(BlockState::kPending);
  block->list->pending.push_back(block);
  order_.enter(block, clock_.now_ms());
}

void KeptMemory::pending_is_kept(Block* block) noexcept {
  drop_fence(block);
  become_kept(block);
}

void KeptMemory::remove(Block* block) noexcept {
  if (block->state.load() == BlockState::kKept) {
    remove_kept(block);
    return;
  }
  std::vector<Block*>& pending = block->list->pending;
  pending.erase(std::find(pending.begin(), pending.end(), block));
  drop_fence(block);
  add_to_count(~std::size_t{0});
  order_.leave(block);
}

void KeptMemory::leave_order(const PooledChunk& chunk) noexcept {
  lists_.for_each_part(&chunk, chunk.device(), [this](Block* block) {
    assume_held(g_blocks_lock);
    order_.leave(block);
  });
}

void KeptMemory::enter_order(const PooledChunk& chunk) noexcept {
  lists_.for_each_part(&chunk, chunk.device(), [this](Block* block) {
    assume_held(g_blocks_lock);
    order_.enter(block, clock_.now_ms());
  });
}

Block* KeptMemory::any_part(const PooledChunk& chunk) const noexcept {
  Block* found = nullptr;
  lists_.for_each_part(&chunk, chunk.device(), [&](Block* block) { found = block; });
  return found;
}

void KeptMemory::drop_fence(Block* block) noexcept {
  if (Fence* const fence = std::exchange(block->fence, nullptr)) dropped_fences_.drop(fence);
}

}  // namespace graphpool
