#include "shim/memory/blocks.h"

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "shim/streams/devices.h"

namespace graphpool {

Block* Blocks::enter(void* ptr, const BlockKey& key, WhenFreed when_freed, MemoryKind kind, const Decision& decision) {
  const auto base = reinterpret_cast<std::uintptr_t>(ptr);
  // The runtime has just handed this memory out, so blocks that we knew there were freed past us.
  std::vector<Block*> stale;
  table_.overlaps(base, key.bytes, &stale);
  for (Block* block : stale) forget(block);
  FreeList* const list = when_freed == WhenFreed::kToItsList ? kept_.lists().join(key) : nullptr;
  Block* const block = table_.insert(base, key.bytes);
  if (block == nullptr) {
    kept_.lists().leave(list);
    return nullptr;
  }
  block->device = key.device;
  block->flags = key.flags;
  block->kind = kind;
  block->function = key.function;
  block->backing = key.backing;
  block->list = list;
  hand_out(block, decision);
  if (key.backing == BlockBacking::kClassic) block->buffer_id = kRuntimesId;
  return block;
}

void Blocks::forget(Block* block) noexcept {
  const BlockState state = block->state.load();
  const bool freed = state == BlockState::kKept || state == BlockState::kPending;
  if (freed) kept_.remove(block);
  kept_.lists().leave(std::exchange(block->list, nullptr));
  if (PooledChunk* const chunk = block->chunk) {
    chunks_.give_place({chunk, block->address()}, block->page_bytes(), !freed);
    tell_kept(block->address(), block->bytes());
  }
  table_.remove(block);
}

void Blocks::abandon(Block* block) noexcept {
  kept_.lists().leave(std::exchange(block->list, nullptr));
  chunks_.abandon_part(block->device);
  tell_kept(block->address(), block->bytes());
  table_.remove(block);
}

void Blocks::enter_counted(void* ptr, const BlockKey& key, WhenFreed when_freed, MemoryKind kind,
                           const Decision& decision) noexcept {
  try {
    const LockGuard guard(g_blocks_lock);
    ++counters_.fresh;
    (void)enter(ptr, key, when_freed, kind, decision);
  } catch (const std::bad_alloc&) {
    // The memory stays unknown to us: everything about it is forwarded.
  }
  kept_.dropped_fences().empty(work_.fences);
}

void Blocks::note_native(void* ptr, const BlockKey& key, MemoryKind kind, const Decision& decision) noexcept {
  if (ptr != nullptr && key.bytes != 0) enter_counted(ptr, key, WhenFreed::kToTheRuntime, kind, decision);
}

void Blocks::note_fresh(void* ptr, const BlockKey& key, const Decision& decision) noexcept {
  enter_counted(ptr, key, WhenFreed::kToItsList, MemoryKind::kDevice, decision);
}

NamedBlock Blocks::start_free(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const block = table_.find(ptr);
  if (block == nullptr || block->state.load() != BlockState::kLive) return {};
  block->become(BlockState::kLeaving);
  return named(block);
}

void Blocks::back_to_live(const NamedBlock& named) noexcept {
  const LockGuard guard(g_blocks_lock);
  if (is_same(named)) named.block->become(BlockState::kLive);
}

void Blocks::freed_by_runtime(const NamedBlock& named) noexcept {
  {
    const LockGuard guard(g_blocks_lock);
    if (is_same(named)) forget(named.block);
    ++counters_.real;
  }
  kept_.dropped_fences().empty(work_.fences);
}

bool Blocks::mark_exported(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const block = table_.find(ptr);
  if (block == nullptr || !block->live()) return false;
  block->exported.store(true);
  return true;
}

bool Blocks::mark_shared(const void* ptr, std::size_t bytes) noexcept {
  const LockGuard guard(g_blocks_lock);
  const auto mark = [](Block* block) {
    if (block == nullptr || !block->live()) return false;
    block->exported.store(true);
    block->shared.store(true);
    return true;
  };
  const bool named = mark(table_.find(ptr));
  try {
    std::vector<Block*> found;
    table_.overlaps(reinterpret_cast<std::uintptr_t>(ptr), std::max<std::size_t>(bytes, 1), &found);
    for (Block* const block : found) mark(block);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return named;
}

std::uint32_t Blocks::buffer_id(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const block = table_.find(ptr);
  if (block == nullptr || !block->live()) return kRuntimesId;
  if (block->buffer_id == kOwnId) block->buffer_id = --last_buffer_id_;
  return block->buffer_id;
}

PoolCounters Blocks::counted() const noexcept {
  const LockGuard guard(g_blocks_lock);
  return counters_;
}

bool Blocks::is_valid() const {
  std::size_t kept = 0, members = 0, parts = 0;
  std::array<std::size_t, kMaxDevices> kept_bytes{};
  bool good = table_.is_valid();
  table_.for_each([&](Block* block) {
    assume_held(g_blocks_lock);
    const BlockState state = block->state.load();
    const bool freed = state == BlockState::kKept || state == BlockState::kPending;
    members += block->list != nullptr;
    parts += block->chunk != nullptr;
    kept += freed;
    if (block->linked) kept_bytes[static_cast<std::size_t>(block->device)] += block->page_bytes();
    good = good && (!block->linked || freed) && (state == BlockState::kPending || block->fence == nullptr);
  });
  for (int device = 0; device < kMaxDevices; ++device)
    good = good && kept_.order().kept_bytes(device) == kept_bytes[static_cast<std::size_t>(device)];
  return good && lists_are_valid(members) && kept == kept_.count() && parts == chunks_.parts();
}

bool Blocks::lists_are_valid(std::size_t members) const {
  std::size_t listed = 0;
  bool good = true;
  kept_.lists().for_each([&](const FreeList& list) {
    assume_held(g_blocks_lock);
    listed += list.members;
    good = good && list.members > 0 && list.kept.size() + list.pending.size() <= list.members;
    for (std::size_t i = 0; i < list.kept.size(); ++i)
      good = good && list.kept[i].address == list.kept[i].block->address() &&
             (i == 0 || list.kept[i - 1].address < list.kept[i].address);
  });
  return good && members == listed;
}

}  // namespace graphpool
