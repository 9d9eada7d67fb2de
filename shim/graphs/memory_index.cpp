#include "shim/graphs/memory_index.h"

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>
#include <utility>

namespace graphpool {
namespace {

constexpr unsigned kPageShift = 12;

}  // namespace

std::vector<std::uint64_t> MemoryIndex::pages_of(const Binding& binding) {
  // Most words lead to pages seen before. `seen` skips most of these, so that little is left to sort.
  constexpr std::size_t kSeen = 512;
  std::array<std::uint64_t, kSeen> seen;
  seen.fill(~std::uint64_t{0});
  std::vector<std::uint64_t> pages;
  for (std::uint32_t offset = 0; offset + sizeof(std::uint64_t) <= binding.size(); offset += sizeof(std::uint64_t)) {
    const std::uint64_t page = payload_at<std::uint64_t>(binding, offset) >> kPageShift;
    std::uint64_t& last = seen[(page ^ (page >> 9)) % kSeen];
    if (last == page) continue;
    last = page;
    pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end());
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  return pages;
}

/// Makes one run of `added` and of the runs from `first` on. `merged` is empty, and has room for all.
void MemoryIndex::merge(std::size_t first, Run merged, const Run& added) noexcept {
  const auto append = [&merged](const Run& run) {
    const auto middle = static_cast<std::ptrdiff_t>(merged.size());
    merged.insert(merged.end(), run.begin(), run.end());
    std::inplace_merge(merged.begin(), merged.begin() + middle, merged.end(),
                       [](const Entry& a, const Entry& b) { return a.page < b.page; });
  };
  append(added);
  for (; runs_.size() > first; runs_.pop_back()) append(runs_.back());
  runs_.push_back(std::move(merged));
}

std::uint64_t MemoryIndex::add(void* owner, const std::vector<std::uint64_t>& pages) {
  if (left_ * 2 > size_) drop_removed();
  const std::uint64_t number = ++last_number_;
  Run added, merged;
  added.reserve(pages.size());
  for (const std::uint64_t page : pages) added.push_back({page, number});
  std::size_t first = runs_.size(), total = pages.size();
  while (first > 0 && runs_[first - 1].size() <= 2 * total) total += runs_[--first].size();
  merged.reserve(total);
  runs_.reserve(first + 1);
  held_.emplace(number, Held{owner, pages.size()});
  merge(first, std::move(merged), added);
  size_ += pages.size();
  return number;
}

void MemoryIndex::remove(std::uint64_t number) noexcept {
  const auto found = held_.find(number);
  if (found == held_.end()) return;
  left_ += found->second.pages;
  held_.erase(found);
  if (!held_.empty()) return;
  runs_.clear();
  size_ = left_ = 0;
}

void MemoryIndex::drop_removed() {
  size_ = left_ = 0;
  for (Run& run : runs_) {
    std::erase_if(run, [this](const Entry& entry) { return !held_.contains(entry.number); });
    size_ += run.size();
  }
  Run merged;
  merged.reserve(size_);
  if (!runs_.empty()) merge(0, std::move(merged), {});
}

std::vector<void*> MemoryIndex::find(const void* address, std::size_t bytes) {
  std::vector<void*> owners;
  if (bytes == 0 || held_.empty()) return owners;
  if (left_ * 2 > size_) drop_removed();
  const auto first = reinterpret_cast<std::uint64_t>(address);
  std::uint64_t from = first >> kPageShift, to = (first + (bytes - 1)) >> kPageShift;
  if (to < from) std::tie(from, to) = std::pair(0, ~std::uint64_t{0});  // the range wraps: all bindings count
  for (const Run& run : runs_) {
    auto position = std::lower_bound(run.begin(), run.end(), from,
                                     [](const Entry& entry, std::uint64_t page) { return entry.page < page; });
    for (; position != run.end() && position->page <= to; ++position)
      if (const auto found = held_.find(position->number); found != held_.end()) owners.push_back(found->second.owner);
  }
  std::sort(owners.begin(), owners.end(), std::less<>());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

}  // namespace graphpool
