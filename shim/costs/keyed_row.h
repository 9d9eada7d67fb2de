// keyed_row.h: a vector whose entries are found by a key, a member of theirs: the streams and events of a capture, and
// the streams that capture.
//
// Why: most captures have a handful of entries, and to look through them is cheapest; some fork thousands of times.
// With more than kFew entries an index finds them. clear() keeps the memory, so that later captures allocate none.
// Invariants: no two entries have the same key, but for the empty key, which finds no entry. The index has all entries
// with a key while there are more than kFew, and is empty else. Threads: as a vector.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace graphpool {

/// `Key`: the member that is the key, a pointer or an integer.
template <typename Entry, auto Key>
class KeyedRow {
 public:
  using KeyType = std::remove_cvref_t<decltype(std::declval<Entry&>().*Key)>;

  /// Null: there is none.
  Entry* find(KeyType key) noexcept {
    if (entries_.size() > kFew) [[unlikely]]
      return find_by_index(key);
    for (Entry& entry : entries_)
      if (entry.*Key == key) return key == KeyType{} ? nullptr : &entry;
    return nullptr;
  }

  /// Adds an entry. Pre-condition: its key is not there. Throws std::bad_alloc; then nothing was changed.
  Entry& add(Entry entry) {
    if (entries_.size() >= kFew) [[unlikely]]
      grow_index();
    entries_.push_back(std::move(entry));
    if (entries_.size() == kFew + 1)
      index_all();
    else if (entries_.size() > kFew)
      index(entries_.size() - 1);
    return entries_.back();
  }

  /// Puts an entry in the place of one that was forgotten. Pre-condition: its key is not there.
  Entry& put(std::size_t position, Entry entry) noexcept {
    entries_[position] = std::move(entry);
    if (entries_.size() > kFew) index_all();  // the place of the forgotten entry's key goes, too
    return entries_[position];
  }

  /// Takes the entry's key away: nothing finds it any more.
  void forget(Entry& entry) noexcept { entry.*Key = KeyType{}; }

  /// Erases entries. Returns how many went. The entries behind them move up.
  template <typename Which>
  std::size_t erase_if(Which&& which) noexcept {
    const bool indexed = entries_.size() > kFew;
    const std::size_t erased = std::erase_if(entries_, std::forward<Which>(which));
    if (indexed && erased != 0) index_all();
    return erased;
  }

  void clear() noexcept {
    if (entries_.size() > kFew) std::fill(places_.begin(), places_.end(), kNowhere);
    entries_.clear();
  }

  std::size_t size() const noexcept { return entries_.size(); }
  Entry* data() noexcept { return entries_.data(); }
  Entry& operator[](std::size_t i) noexcept { return entries_[i]; }
  Entry& front() noexcept { return entries_.front(); }
  const Entry& front() const noexcept { return entries_.front(); }
  auto begin() noexcept { return entries_.begin(); }
  auto end() noexcept { return entries_.end(); }

 private:
  static constexpr std::size_t kFew = 16;
  static constexpr std::uint32_t kNowhere = 0;

  std::size_t home(KeyType key) const noexcept {
    std::uint64_t number;
    if constexpr (std::is_pointer_v<KeyType>)
      number = reinterpret_cast<std::uint64_t>(key);
    else
      number = key;
    return static_cast<std::size_t>((number * 0x9e3779b97f4a7c15u) >> 32) & (places_.size() - 1);
  }
  std::size_t next(std::size_t place) const noexcept { return (place + 1) & (places_.size() - 1); }

  [[gnu::noinline]] Entry* find_by_index(KeyType key) noexcept {
    if (key == KeyType{}) return nullptr;
    for (std::size_t place = home(key); places_[place] != kNowhere; place = next(place)) {
      Entry& entry = entries_[places_[place] - 1];
      if (entry.*Key == key) return &entry;
    }
    return nullptr;
  }

  void index(std::size_t position) noexcept {
    if (entries_[position].*Key == KeyType{}) return;
    std::size_t place = home(entries_[position].*Key);
    while (places_[place] != kNowhere) place = next(place);
    places_[place] = static_cast<std::uint32_t>(position + 1);
  }

  void index_all() noexcept {
    std::fill(places_.begin(), places_.end(), kNowhere);
    if (entries_.size() <= kFew) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) index(i);
  }

  /// Makes room for one entry more: at most half of the index is in use.
  [[gnu::noinline]] void grow_index() {
    const std::size_t wanted = std::bit_ceil(2 * (entries_.size() + 1));
    if (places_.size() >= wanted) return;
    std::vector<std::uint32_t>(2 * wanted, kNowhere).swap(places_);
    index_all();
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;  ///< by key: position + 1; a power of two of them, or none
};

}  // namespace graphpool
