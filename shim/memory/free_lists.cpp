#include "shim/memory/free_lists.h"

namespace graphpool {

FreeList* FreeLists::find_far(const BlockKey& key) noexcept {
  if (lists_ == nullptr) return nullptr;
  const auto found = lists_->find(key);
  return found == lists_->end() ? nullptr : near_[near_place(key)] = found->second.get();
}

FreeList* FreeLists::join(const BlockKey& key) {
  if (lists_ == nullptr) lists_ = std::make_unique<Map>();
  std::unique_ptr<FreeList>& list = (*lists_)[key];
  try {
    if (list == nullptr) {
      list = std::make_unique<FreeList>();
      list->key = key;
    }
    if (list->kept.capacity() <= list->members) list->kept.reserve(2 * list->members + 4);
    if (list->pending.capacity() <= list->members) list->pending.reserve(2 * list->members + 4);
  } catch (...) {
    if (list == nullptr || list->members == 0) lists_->erase(key);
    throw;
  }
  ++list->members;
  return list.get();
}

void FreeLists::leave(FreeList* list) noexcept {
  if (list == nullptr || --list->members != 0) return;
  FreeList*& near = near_[near_place(list->key)];
  if (near == list) near = nullptr;
  lists_->erase(BlockKey(list->key));
}

void FreeLists::outdate(int device) noexcept {
  constexpr std::uint32_t kOutdated = 1u << 31;  // in flags: what is kept has none
  if (lists_ == nullptr) return;
  std::vector<FreeList*> found;
  try {
    found.reserve(lists_->size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (const auto& [key, list] : *lists_)
    if ((device < 0 || key.device == device) && key.backing == BlockBacking::kClassic &&
        key.function != AllocationFunction::kMallocAsync && (key.flags & kOutdated) == 0)
      found.push_back(list.get());
  near_.fill(nullptr);
  for (FreeList* const list : found) {
    auto entry = lists_->extract(list->key);
    list->key.flags = kOutdated | ++outdated_;
    entry.key() = list->key;
    lists_->insert(std::move(entry));
  }
}

}  // namespace graphpool
