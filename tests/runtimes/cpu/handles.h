// handles.h: a table of objects whose addresses are the handles a program holds (streams, events).
// Why: a handle must be told from garbage and from one that was destroyed, without a lock, and a destroyed handle must
// be recognised for as long as it is not handed out again. Objects stay constructed until their place is used again.
// Threads: state() is lock-free; the rest takes the table's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <random>
#include <utility>

#include "api.h"

namespace cpuhip {

enum class HandleState : int { Unknown, Live, Dead };

template <typename Object>
class HandleTable {
 public:
  template <typename... Arguments>
  Object* create(Arguments&&... arguments) {
    const std::lock_guard lock(mutex_);
    Place* place = take_place();
    Object* object = new (place->memory) Object(std::forward<Arguments>(arguments)...);
    place->state.store(HandleState::Live, std::memory_order_release);
    live_.fetch_add(1, std::memory_order_relaxed);
    return object;
  }

  HandleState state(const void* handle) const {
    const std::size_t chunks = chunk_count_.load(std::memory_order_acquire);
    for (std::size_t index = 0; index < chunks; ++index) {
      const std::uintptr_t distance =  // huge when the handle is before the chunk
          reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(chunks_[index]);
      if (distance >= kChunkPlaces * sizeof(Place)) continue;
      if (distance % sizeof(Place) != kOffset) return HandleState::Unknown;
      return chunks_[index][distance / sizeof(Place)].state.load(std::memory_order_acquire);
    }
    return HandleState::Unknown;
  }

  /// Makes the handle dead; false when another thread did so first.
  bool kill(Object* object) {
    HandleState live = HandleState::Live;
    if (!place_of(object)->state.compare_exchange_strong(live, HandleState::Dead)) return false;
    live_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  std::size_t live() const { return live_.load(std::memory_order_relaxed); }

  /// Gives a dead handle's place back, to be used again as config().reuse says. The object's last use.
  void give_back(Object* object) {
    const std::lock_guard lock(mutex_);
    free_.push_back(place_of(object));
  }

 private:
  struct Place {
    std::atomic<HandleState> state{HandleState::Unknown};
    alignas(Object) unsigned char memory[sizeof(Object)];
  };
  static constexpr std::size_t kOffset = offsetof(Place, memory);

  static Place* place_of(Object* object) {
    return reinterpret_cast<Place*>(reinterpret_cast<unsigned char*>(object) - kOffset);
  }

  Place* take_place() {
    constexpr std::size_t kLate = 64;
    const bool none_left = used_ == kChunks * kChunkPlaces;
    if (none_left && free_.empty()) throw std::bad_alloc();
    std::size_t index = free_.size();  // which free place; none
    switch (config().reuse) {
      case Reuse::Never:
        break;
      case Reuse::Late:
        if (free_.size() > kLate) index = 0;
        break;
      case Reuse::Once:
        if (!free_.empty()) index = free_.size() - 1;
        break;
      case Reuse::Random:
        if (!free_.empty()) index = random_() % (free_.size() + 1);
        break;
    }
    if (index == free_.size() && none_left) index = 0;
    if (index == free_.size()) return new_place();
    Place* place = free_[index];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(index));
    std::launder(reinterpret_cast<Object*>(place->memory))->~Object();
    return place;
  }

  Place* new_place() {
    const std::size_t chunk = used_ / kChunkPlaces;
    if (chunk == chunk_count_.load(std::memory_order_relaxed)) {
      chunks_[chunk] = new Place[kChunkPlaces];
      chunk_count_.store(chunk + 1, std::memory_order_release);
    }
    return &chunks_[chunk][used_++ % kChunkPlaces];
  }

  static constexpr std::size_t kChunks = 1024, kChunkPlaces = 256;

  std::mutex mutex_;
  std::size_t used_ = 0;
  Place* chunks_[kChunks] = {};
  std::atomic<std::size_t> chunk_count_{0}, live_{0};
  std::deque<Place*> free_;
  std::minstd_rand random_;
};

}  // namespace cpuhip
