// memory_watch_list.h: lists those who name memory of the program and must be told before it is freed.
//
// Each real free asks every entry that is watched. Most are asked often and never name what is freed: after kLooks
// looks that found nothing, an entry is found by an index of the pages that it names (memory_index.h). An entry to
// which no free matters any more is not looked at. An entry with a new binding is watched again.
//
// The order of the list: first those that are not looked at, because they are in the index or nothing matters to them,
// then those that are watched. Threads: guarded by its user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shim/graphs/memory_index.h"

namespace graphpool {

/// An entry's place in the list; a base of the entry.
class Watched {
  template <typename Entry>
  friend class MemoryWatchList;
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t place_ = kNowhere;
  std::uint64_t indexed_ = 0;  ///< its number in the index; 0: it is not there
};

template <typename Entry>
class MemoryWatchList {
 public:
  using Shared = std::shared_ptr<Entry>;
  /// Looks after which the index finds an entry.
  static constexpr std::uint32_t kLooks = 16;

  /// Adds an entry, which is watched. Throws std::bad_alloc.
  void add(Shared entry) {
    Watched& watched = *entry;
    entries_.push_back(std::move(entry));
    watched.place_ = entries_.size() - 1;
  }
  /// Pre-condition: the entry is in the list.
  Shared remove(Entry& entry) noexcept {
    watch(entry);
    exchange_places(place(entry), entries_.size() - 1);
    place(entry) = Watched::kNowhere;
    Shared removed = std::move(entries_.back());
    entries_.pop_back();
    return removed;
  }
  bool has(const Entry& entry) const noexcept { return static_cast<const Watched&>(entry).place_ != Watched::kNowhere; }
  bool watches(const Entry& entry) const noexcept {
    return has(entry) && static_cast<const Watched&>(entry).place_ >= unwatched_;
  }

  /// Lets the entry be looked at again. Does nothing if it is watched, or not in the list.
  void watch(Entry& entry) noexcept {
    if (place(entry) >= unwatched_) return;
    exchange_places(place(entry), --unwatched_);
    index_.remove(std::exchange(static_cast<Watched&>(entry).indexed_, 0));
  }
  /// Lets the index find the entry by these pages (MemoryIndex::pages_of()). Throws std::bad_alloc.
  void find_by(Entry& entry, const std::vector<std::uint64_t>& pages) {
    watch(entry);
    static_cast<Watched&>(entry).indexed_ = index_.add(&entry, pages);
    exchange_places(place(entry), unwatched_++);
  }
  /// Lets no free look at the entry: none matters to it.
  void ignore(Entry& entry) noexcept {
    watch(entry);
    exchange_places(place(entry), unwatched_++);
  }

  const std::vector<Shared>& all() const noexcept { return entries_; }
  /// Returns a superset of those that name memory of this range; 0 bytes: all.
  std::vector<Shared> that_may_name(const void* address, std::size_t bytes) {
    if (bytes == 0) return entries_;
    std::vector<Shared> found(entries_.begin() + static_cast<std::ptrdiff_t>(unwatched_), entries_.end());
    for (void* const owner : index_.find(address, bytes)) found.push_back(entries_[place(*static_cast<Entry*>(owner))]);
    return found;
  }

 private:
  static std::size_t& place(Entry& entry) noexcept { return static_cast<Watched&>(entry).place_; }
  void exchange_places(std::size_t a, std::size_t b) noexcept {
    std::swap(entries_[a], entries_[b]);
    place(*entries_[a]) = a;
    place(*entries_[b]) = b;
  }

  std::vector<Shared> entries_;
  std::size_t unwatched_ = 0;
  MemoryIndex index_;  ///< its owners are the entries
};

}  // namespace graphpool
