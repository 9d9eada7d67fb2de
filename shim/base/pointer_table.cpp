#include "shim/base/pointer_table.h"

#include <sched.h>

#include <memory>
#include <new>

namespace graphpool {
namespace {

constexpr std::size_t kFirstCells = 256;
constexpr int kSpins = 64;

/// Marks the table as being written for a scope. The stores between are releases, so none of them is seen before the
/// odd version, and the even one is seen after all of them.
class Writing {
 public:
  explicit Writing(std::atomic<std::uint64_t>* version) noexcept : version_(version) {
    version_->store(version_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  ~Writing() { version_->store(version_->load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  std::atomic<std::uint64_t>* version_;
};

}  // namespace

bool PointerTable::find(const void* pointer, Value* value) const noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(pointer);
  if (key == 0) return false;
  for (int tries = 1;; ++tries) {
    const std::uint64_t version = version_.load(std::memory_order_acquire);
    if (version % 2 == 0) {
      bool found = false;
      if (const Array* array = array_.load(std::memory_order_acquire); array != nullptr) {
        // A table being rewritten may show no empty cell: the walk is bounded by the table's size.
        for (std::size_t i = home(key, array->mask), steps = 0; steps <= array->mask;
             i = (i + 1) & array->mask, ++steps) {
          const Cell& cell = array->cells[i];
          const std::uint64_t there = cell.key.load(std::memory_order_acquire);
          if (there == 0) break;
          if (there != key) continue;
          for (std::size_t w = 0; w < value->size(); ++w) (*value)[w] = cell.words[w].load(std::memory_order_acquire);
          found = true;
          break;
        }
      }
      if (version_.load(std::memory_order_relaxed) == version) return found;
    }
    if (tries % kSpins == 0) sched_yield();
  }
}

void PointerTable::set(Cell* cell, std::uint64_t key, const Value& value) noexcept {
  for (std::size_t w = 0; w < value.size(); ++w) cell->words[w].store(value[w], std::memory_order_release);
  cell->key.store(key, std::memory_order_release);
}

bool PointerTable::put(const void* pointer, const Value& value) noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(pointer);
  if (key == 0) return false;
  const Array* array = array_.load(std::memory_order_relaxed);
  if ((array == nullptr || (size_ + 1) * 2 > array->mask + 1) && !grow()) return false;
  array = array_.load(std::memory_order_relaxed);
  std::size_t i = home(key, array->mask);
  while (is_set(array->cells[i]) && array->cells[i].key.load(std::memory_order_relaxed) != key)
    i = (i + 1) & array->mask;
  if (!is_set(array->cells[i])) ++size_;
  const Writing writing(&version_);
  set(&array->cells[i], key, value);
  return true;
}

void PointerTable::erase(const void* pointer) noexcept {
  const auto key = reinterpret_cast<std::uint64_t>(pointer);
  const Array* array = array_.load(std::memory_order_relaxed);
  if (array == nullptr || key == 0) return;
  std::size_t hole = home(key, array->mask);
  while (is_set(array->cells[hole]) && array->cells[hole].key.load(std::memory_order_relaxed) != key) {
    hole = (hole + 1) & array->mask;
  }
  if (!is_set(array->cells[hole])) return;
  const Writing writing(&version_);
  // Later cells of the run move up where their home allows, so that no search ends early at the hole.
  for (std::size_t i = (hole + 1) & array->mask; is_set(array->cells[i]); i = (i + 1) & array->mask) {
    const std::uint64_t moved = array->cells[i].key.load(std::memory_order_relaxed);
    const std::size_t from_home = (i - home(moved, array->mask)) & array->mask;
    if (from_home < ((i - hole) & array->mask)) continue;
    Value value;
    for (std::size_t w = 0; w < value.size(); ++w) value[w] = array->cells[i].words[w].load(std::memory_order_relaxed);
    set(&array->cells[hole], moved, value);
    hole = i;
  }
  array->cells[hole].key.store(0, std::memory_order_release);
  --size_;
}

bool PointerTable::grow() noexcept {
  Array* old = array_.load(std::memory_order_relaxed);
  const std::size_t count = old == nullptr ? kFirstCells : 2 * (old->mask + 1);
  std::unique_ptr<Cell[]> cells(new (std::nothrow) Cell[count]());
  auto* array = new (std::nothrow) Array{old, count - 1, nullptr};
  if (cells == nullptr || array == nullptr) {
    delete array;
    return false;
  }
  array->cells = cells.release();
  for (std::size_t i = 0; old != nullptr && i <= old->mask; ++i) {
    if (!is_set(old->cells[i])) continue;
    const std::uint64_t key = old->cells[i].key.load(std::memory_order_relaxed);
    Value value;
    for (std::size_t w = 0; w < value.size(); ++w) value[w] = old->cells[i].words[w].load(std::memory_order_relaxed);
    std::size_t to = home(key, array->mask);
    while (is_set(array->cells[to])) to = (to + 1) & array->mask;
    set(&array->cells[to], key, value);
  }
  const Writing writing(&version_);
  array_.store(array, std::memory_order_release);
  return true;
}

}  // namespace graphpool
