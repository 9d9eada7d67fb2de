#include "shim/memory/block_table.h"

#include <algorithm>
#include <new>

namespace graphpool {
namespace {

constexpr std::uintptr_t kListTag = 1;
constexpr std::size_t kRegionBytes = std::size_t{1} << 24, kPartBytes = std::size_t{1} << 16;
constexpr std::size_t kSlabBlocks = 128;

/// Whether the address lies in the block, for a reader without a lock. False also if the block changes meanwhile: then
/// the caller may not use the address anyway.
bool contains(const Block* block, std::uintptr_t address) noexcept {
  const std::uint32_t before = block->sequence.load(std::memory_order_acquire);
  const std::uintptr_t base = block->base.load(std::memory_order_acquire);
  const std::uintptr_t end = block->end.load(std::memory_order_acquire);
  const std::uint32_t after = block->sequence.load(std::memory_order_relaxed);
  return before == after && (before & 1) == 0 && address >= base && address < end;
}

std::uintptr_t next_region(std::uintptr_t address) noexcept { return (address / kRegionBytes + 1) * kRegionBytes; }
std::uintptr_t next_part(std::uintptr_t address) noexcept { return (address / kPartBytes + 1) * kPartBytes; }

void set_range(Block* block, std::uintptr_t base, std::uintptr_t end) noexcept {
  const std::uint32_t sequence = block->sequence.load(std::memory_order_relaxed);
  block->sequence.store(sequence + 1, std::memory_order_release);
  block->base.store(base, std::memory_order_release);
  block->end.store(end, std::memory_order_release);
  block->sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace

Block* BlockTable::find_in_slot(std::uintptr_t slot, std::uintptr_t address) noexcept {
  if (slot == 0) return nullptr;
  if ((slot & kListTag) == 0) {
    Block* block = reinterpret_cast<Block*>(slot);
    return contains(block, address) ? block : nullptr;
  }
  for (const PageList* list = reinterpret_cast<const PageList*>(slot & ~kListTag); list != nullptr;
       list = list->more.load(std::memory_order_acquire)) {
    for (const auto& item : list->items) {
      Block* block = item.load(std::memory_order_acquire);
      if (block != nullptr && contains(block, address)) return block;
    }
  }
  return nullptr;
}

Block* BlockTable::find(const void* pointer) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address >> kAddressBits != 0) return nullptr;
  const Region* region = root_[address >> kRootShift].load(std::memory_order_acquire);
  if (region == nullptr) return nullptr;
  const std::size_t index = (address >> kRegionShift) % kFan;
  Block* whole = region->whole[index].load(std::memory_order_acquire);
  if (whole != nullptr && contains(whole, address)) return whole;
  const Leaf* leaf = region->leaves[index].load(std::memory_order_acquire);
  if (leaf == nullptr) return nullptr;
  Block* part = leaf->parts[(address >> kPartShift) % kParts].load(std::memory_order_acquire);
  if (part != nullptr && contains(part, address)) return part;
  for (const auto& across : leaf->across)
    if (Block* const block = across.load(std::memory_order_acquire); block != nullptr && contains(block, address))
      return block;
  return find_in_slot(leaf->pages[(address >> kPageShift) % kFan].load(std::memory_order_acquire), address);
}

BlockTable::Region* BlockTable::region_for(std::uintptr_t address) noexcept {
  std::atomic<Region*>& entry = root_[address >> kRootShift];
  Region* region = entry.load(std::memory_order_relaxed);
  if (region == nullptr) {
    region = new (std::nothrow) Region;
    entry.store(region, std::memory_order_release);
  }
  return region;
}

BlockTable::Leaf* BlockTable::leaf_for(std::uintptr_t address) noexcept {
  Region* region = region_for(address);
  if (region == nullptr) return nullptr;
  std::atomic<Leaf*>& entry = region->leaves[(address >> kRegionShift) % kFan];
  Leaf* leaf = entry.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = new (std::nothrow) Leaf;
    entry.store(leaf, std::memory_order_release);
  }
  return leaf;
}

/// Where a leaf has the block [base, end), if that reaches out of the leaf's range, in which `address` lies. Else null.
std::atomic<Block*>* BlockTable::across_of(Leaf* leaf, std::uintptr_t address, std::uintptr_t base,
                                           std::uintptr_t end) noexcept {
  if (base < address / kRegionBytes * kRegionBytes) return &leaf->across[0];
  return end > next_region(address) ? &leaf->across[1] : nullptr;
}

bool BlockTable::add_to_slot(Slot& slot, Block* block) noexcept {
  const std::uintptr_t value = slot.load(std::memory_order_relaxed);
  if (value == 0) {
    slot.store(reinterpret_cast<std::uintptr_t>(block), std::memory_order_release);
    return true;
  }
  if ((value & kListTag) == 0) {
    // A page that once had a list keeps it (remove_from_slot), so lists are made at most once a page.
    auto* list = new (std::nothrow) PageList;
    if (list == nullptr) return false;
    list->items[0].store(reinterpret_cast<Block*>(value), std::memory_order_relaxed);
    list->items[1].store(block, std::memory_order_relaxed);
    slot.store(reinterpret_cast<std::uintptr_t>(list) | kListTag, std::memory_order_release);
    return true;
  }
  for (auto* list = reinterpret_cast<PageList*>(value & ~kListTag);;) {
    for (auto& item : list->items) {
      if (item.load(std::memory_order_relaxed) != nullptr) continue;
      item.store(block, std::memory_order_release);
      return true;
    }
    PageList* more = list->more.load(std::memory_order_relaxed);
    if (more == nullptr) {
      more = new (std::nothrow) PageList;
      if (more == nullptr) return false;
      list->more.store(more, std::memory_order_release);
    }
    list = more;
  }
}

std::size_t BlockTable::remove_from_slot(Slot& slot, const Block* block) noexcept {
  const std::uintptr_t value = slot.load(std::memory_order_relaxed);
  if (value == reinterpret_cast<std::uintptr_t>(block)) {
    slot.store(0, std::memory_order_release);
    return 1;
  }
  if ((value & kListTag) == 0) return 0;
  std::size_t removed = 0;
  for (auto* list = reinterpret_cast<PageList*>(value & ~kListTag); list != nullptr;
       list = list->more.load(std::memory_order_relaxed)) {
    for (auto& item : list->items) {
      if (item.load(std::memory_order_relaxed) != block) continue;
      item.store(nullptr, std::memory_order_release);
      ++removed;
    }
  }
  return removed;
}

bool BlockTable::fill(Block* block, std::uintptr_t base, std::uintptr_t end) noexcept {
  for (std::uintptr_t address = base; address < end;) {
    if (address % kRegionBytes == 0 && end - address >= kRegionBytes) {
      Region* region = region_for(address);
      if (region == nullptr) return false;
      region->whole[(address >> kRegionShift) % kFan].store(block, std::memory_order_release);
      address += kRegionBytes;
      continue;
    }
    Leaf* leaf = leaf_for(address);
    if (leaf == nullptr) return false;
    if (std::atomic<Block*>* const across = across_of(leaf, address, base, end)) {
      across->store(block, std::memory_order_release);
      ++leaf->entries;
      address = next_region(address);
      continue;
    }
    const std::size_t part = (address >> kPartShift) % kParts;
    if (address % kPartBytes == 0 && end - address >= kPartBytes) {
      leaf->parts[part].store(block, std::memory_order_release);
      ++leaf->entries;
      address += kPartBytes;
      continue;
    }
    // The pages of one part, as far as the block has them.
    Slot* slot = &leaf->pages[(address >> kPageShift) % kFan];
    for (const std::uintptr_t stop = std::min(end, next_part(address)); address < stop; ++slot) {
      if (slot->load(std::memory_order_relaxed) == 0)
        slot->store(reinterpret_cast<std::uintptr_t>(block), std::memory_order_release);
      else if (!add_to_slot(*slot, block))
        return false;
      ++leaf->in_pages[part];
      ++leaf->entries;
      address = ((address >> kPageShift) + 1) << kPageShift;
    }
  }
  return true;
}

void BlockTable::clear(Block* block) noexcept {
  const std::uintptr_t base = block->address(), end = base + block->bytes();
  for (std::uintptr_t address = base; address < end;) {
    Region* region = root_[address >> kRootShift].load(std::memory_order_relaxed);
    const std::size_t index = (address >> kRegionShift) % kFan;
    if (address % kRegionBytes == 0 && end - address >= kRegionBytes) {
      if (region != nullptr && region->whole[index].load(std::memory_order_relaxed) == block)
        region->whole[index].store(nullptr, std::memory_order_release);
      address += kRegionBytes;
      continue;
    }
    Leaf* leaf = region == nullptr ? nullptr : region->leaves[index].load(std::memory_order_relaxed);
    if (leaf == nullptr) {
      address = next_region(address);
      continue;
    }
    if (std::atomic<Block*>* const across = across_of(leaf, address, base, end)) {
      if (across->load(std::memory_order_relaxed) == block) {
        across->store(nullptr, std::memory_order_release);
        --leaf->entries;
      }
      address = next_region(address);
      continue;
    }
    const std::size_t part = (address >> kPartShift) % kParts;
    if (address % kPartBytes == 0 && end - address >= kPartBytes) {
      if (leaf->parts[part].load(std::memory_order_relaxed) == block) {
        leaf->parts[part].store(nullptr, std::memory_order_release);
        --leaf->entries;
      }
      address += kPartBytes;
      continue;
    }
    const std::uintptr_t stop = std::min(end, next_part(address));
    std::size_t removed = 0;
    for (Slot* slot = &leaf->pages[(address >> kPageShift) % kFan]; address < stop; ++slot) {
      removed += remove_from_slot(*slot, block);
      address = ((address >> kPageShift) + 1) << kPageShift;
    }
    leaf->in_pages[part] -= static_cast<std::uint32_t>(removed);
    leaf->entries -= removed;
  }
}

void BlockTable::overlaps(std::uintptr_t base, std::size_t bytes, std::vector<Block*>* found) const {
  const std::uintptr_t end = base + bytes;
  if (bytes == 0 || end < base || (end - 1) >> kAddressBits != 0) return;
  auto add = [&](Block* block) {
    if (block != nullptr && block->address() < end && base < block->address() + block->bytes() &&
        std::find(found->begin(), found->end(), block) == found->end())
      found->push_back(block);
  };
  for (std::uintptr_t address = base; address < end;) {
    const Region* region = root_[address >> kRootShift].load(std::memory_order_relaxed);
    if (region == nullptr) {
      address = ((address >> kRootShift) + 1) << kRootShift;
      continue;
    }
    const std::size_t index = (address >> kRegionShift) % kFan;
    add(region->whole[index].load(std::memory_order_relaxed));
    const Leaf* leaf = region->leaves[index].load(std::memory_order_relaxed);
    if (leaf == nullptr || leaf->entries == 0) {
      address = ((address >> kRegionShift) + 1) << kRegionShift;
      continue;
    }
    for (const auto& across : leaf->across) add(across.load(std::memory_order_relaxed));
    const std::size_t part = (address >> kPartShift) % kParts;
    add(leaf->parts[part].load(std::memory_order_relaxed));
    if (leaf->in_pages[part] == 0) {
      address = next_part(address);
      continue;
    }
    const std::uintptr_t slot = leaf->pages[(address >> kPageShift) % kFan].load(std::memory_order_relaxed);
    if ((slot & kListTag) == 0) {
      add(reinterpret_cast<Block*>(slot));
    } else {
      for (auto* list = reinterpret_cast<const PageList*>(slot & ~kListTag); list != nullptr;
           list = list->more.load(std::memory_order_relaxed))
        for (const auto& item : list->items) add(item.load(std::memory_order_relaxed));
    }
    address = ((address >> kPageShift) + 1) << kPageShift;
  }
}

Block* BlockTable::insert(std::uintptr_t base, std::size_t bytes) noexcept {
  const std::uintptr_t end = base + bytes;
  if (base == 0 || bytes == 0 || end < base || (end - 1) >> kAddressBits != 0) return nullptr;
  if (unused_ == nullptr) {
    auto* slab = new (std::nothrow) Block[kSlabBlocks];
    if (slab == nullptr) return nullptr;
    for (std::size_t i = 0; i < kSlabBlocks; ++i) recycle(&slab[i]);
  }
  Block* block = unused_;
  unused_ = block->next_free;
  block->next_free = nullptr;
  set_range(block, base, end);
  if (!fill(block, base, end)) {
    clear(block);
    recycle(block);
    return nullptr;
  }
  ++count_;
  return block;
}

void BlockTable::remove(Block* block) noexcept {
  clear(block);
  recycle(block);
  --count_;
}

void BlockTable::recycle(Block* block) noexcept {
  set_range(block, 0, 0);
  block->state.store(BlockState::kFree, std::memory_order_relaxed);
  block->device = 0;
  block->flags = 0;
  block->kind = MemoryKind::kDevice;
  block->backing = BlockBacking::kClassic;
  block->function = AllocationFunction::kMalloc;
  block->rule = 0;
  block->call_site = 0;
  block->order = 0;
  block->generation = 0;
  block->exported.store(false, std::memory_order_relaxed);
  block->shared.store(false, std::memory_order_relaxed);
  block->list = nullptr;
  block->older = nullptr;
  block->newer = nullptr;
  block->linked = false;
  block->chunk = nullptr;
  block->fence = nullptr;
  block->next_free = unused_;
  unused_ = block;
}

std::vector<const Block*> BlockTable::blocks_in_order() const {
  std::vector<Block*> found;
  for (const auto& entry : root_) {
    const Region* region = entry.load(std::memory_order_relaxed);
    if (region == nullptr) continue;
    for (std::size_t i = 0; i < kFan; ++i) {
      if (Block* block = region->whole[i].load(std::memory_order_relaxed)) found.push_back(block);
      const Leaf* leaf = region->leaves[i].load(std::memory_order_relaxed);
      if (leaf == nullptr) continue;
      for (const auto& across : leaf->across)
        if (Block* block = across.load(std::memory_order_relaxed)) found.push_back(block);
      for (const auto& part : leaf->parts)
        if (Block* block = part.load(std::memory_order_relaxed)) found.push_back(block);
      for (const Slot& slot : leaf->pages) {
        const std::uintptr_t value = slot.load(std::memory_order_relaxed);
        if (value == 0) continue;
        if ((value & kListTag) == 0) {
          if (found.empty() || found.back() != reinterpret_cast<Block*>(value))
            found.push_back(reinterpret_cast<Block*>(value));
          continue;
        }
        for (auto* list = reinterpret_cast<const PageList*>(value & ~kListTag); list != nullptr;
             list = list->more.load(std::memory_order_relaxed))
          for (const auto& item : list->items)
            if (Block* block = item.load(std::memory_order_relaxed)) found.push_back(block);
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Block* a, const Block* b) { return a->address() < b->address(); });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return {found.begin(), found.end()};
}

bool BlockTable::is_valid() const {
  const std::vector<const Block*> blocks = blocks_in_order();
  if (blocks.size() != count_) return false;
  std::uintptr_t end = 0;
  for (const Block* block : blocks) {
    if (block->bytes() == 0 || block->address() < end) return false;
    end = block->address() + block->bytes();
    if (find(block->pointer()) != block || find(reinterpret_cast<void*>(end - 1)) != block) return false;
  }
  for (const auto& entry : root_) {
    const Region* region = entry.load(std::memory_order_relaxed);
    if (region == nullptr) continue;
    for (const auto& held : region->leaves) {
      const Leaf* leaf = held.load(std::memory_order_relaxed);
      if (leaf == nullptr) continue;
      std::size_t entries = 0;
      for (const auto& across : leaf->across) entries += across.load(std::memory_order_relaxed) != nullptr;
      for (std::size_t part = 0; part < kParts; ++part) {
        entries += leaf->parts[part].load(std::memory_order_relaxed) != nullptr;
        std::size_t in_pages = 0;
        for (std::size_t page = part * kFan / kParts; page < (part + 1) * kFan / kParts; ++page)
          in_pages += entries_of(leaf->pages[page].load(std::memory_order_relaxed));
        if (in_pages != leaf->in_pages[part]) return false;
        entries += in_pages;
      }
      if (entries != leaf->entries) return false;
    }
  }
  return true;
}

std::size_t BlockTable::entries_of(std::uintptr_t slot) noexcept {
  if ((slot & kListTag) == 0) return slot != 0;
  std::size_t entries = 0;
  for (auto* list = reinterpret_cast<const PageList*>(slot & ~kListTag); list != nullptr;
       list = list->more.load(std::memory_order_relaxed))
    for (const auto& item : list->items) entries += item.load(std::memory_order_relaxed) != nullptr;
  return entries;
}

}  // namespace graphpool
