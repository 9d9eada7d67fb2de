// free_lists.h: finds freed device memory by its key. For each key it has the kept blocks, the lowest address first,
// and the pending ones, which the device may still use until it has passed their fence.
//
// Why a table of near lists: programs ask for the same few sizes again and again, so the list asked for last is found
// by one comparison.
// Invariants: a list has room for all its members, live ones too, so that a free never allocates; a list without
// members does not exist. Threads: guarded by g_blocks_lock. Units: blocks. Not here: in what order memory goes back
// (free_order.h), what else happens to a block that comes or goes (kept_memory.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/memory/allocation.h"
#include "shim/memory/block_table.h"
#include "shim/memory/kept_blocks.h"

namespace graphpool {

/// The freed blocks of one key.
struct FreeList {
  BlockKey key;
  KeptBlocks kept GUARDED_BY(g_blocks_lock);              ///< room for all members
  std::vector<Block*> pending GUARDED_BY(g_blocks_lock);  ///< kPending ones; capacity for all members
  std::size_t members GUARDED_BY(g_blocks_lock) = 0;      ///< blocks that come back here, live ones too
};

class FreeLists {
 public:
  constexpr FreeLists() = default;
  FreeLists(const FreeLists&) = delete;
  FreeLists& operator=(const FreeLists&) = delete;

  /// The key's list, or null.
  FreeList* find(const BlockKey& key) noexcept REQUIRES(g_blocks_lock) {
    FreeList* const near = near_[near_place(key)];
    return near != nullptr && near->key == key ? near : find_far(key);
  }
  /// Counts one member more of the key's list, with room for it to come back. Throws std::bad_alloc; then none is
  /// added.
  FreeList* join(const BlockKey& key) REQUIRES(g_blocks_lock);
  /// Counts one member less of the list. Null: does nothing.
  void leave(FreeList* list) noexcept REQUIRES(g_blocks_lock);

  /// Makes sure that the device's classic memory (all devices: -1) is not found any more: what is kept or pending now,
  /// and what is live now and freed later. It stays in its lists until it goes back to the runtime with the rest.
  /// Memory of hipMallocAsync is left as it is. Without host memory it does nothing.
  void outdate(int device) noexcept REQUIRES(g_blocks_lock);

  /// Calls visit(FreeList&) for each list.
  template <typename Visit>
  void for_each(Visit visit) const REQUIRES(g_blocks_lock) {
    if (lists_ == nullptr) return;
    for (auto& [key, list] : *lists_) visit(*list);
  }
  /// Calls visit(Block*) for each kept part of the chunk, which is on this device. `visit` must not take a block out.
  template <typename Visit>
  void for_each_part(const PooledChunk* chunk, int device, Visit visit) const REQUIRES(g_blocks_lock) {
    for_each([&](FreeList& list) {
      assume_held(g_blocks_lock);
      if (list.key.backing != BlockBacking::kVmm || list.key.device != device) return;
      for (std::size_t i = 0; i < list.kept.size(); ++i)
        if (Block* const block = list.kept[i].block; block->chunk == chunk) visit(block);
    });
  }

 private:
  using Map = std::unordered_map<BlockKey, std::unique_ptr<FreeList>, BlockKey::Hash>;
  static constexpr std::size_t kNear = 128;

  static std::size_t near_place(const BlockKey& key) noexcept {
    return key.bytes * 0x9E3779B97F4A7C15u >> 57 & (kNear - 1);
  }
  FreeList* find_far(const BlockKey& key) noexcept REQUIRES(g_blocks_lock);

  std::array<FreeList*, kNear> near_ GUARDED_BY(g_blocks_lock){};  ///< by hash: the list asked for last, or null
  std::unique_ptr<Map> lists_ GUARDED_BY(g_blocks_lock);           ///< null: there was none yet
  std::uint32_t outdated_ GUARDED_BY(g_blocks_lock) = 0;           ///< lists outdated so far
};

}  // namespace graphpool
