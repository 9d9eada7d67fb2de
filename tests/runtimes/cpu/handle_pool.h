// handle_pool.h: storage of the objects behind graph, node, exec and user-object handles, so that a handle is checked
// in O(1) and a destroyed one is recognised: its slot stays poisoned until it is handed out again.
//
// Why not new and delete: a program (or the library under test) that uses a destroyed handle must be told so by name,
// not by a crash somewhere else. Slots live in aligned slabs that are never given back, so looking at a stale handle is
// safe.
//
// CPUHIP_REUSE (api.h) says when the slot of a destroyed object serves again: late is oldest first, and only when
// kQuarantine others wait. Objects are destructed at once, unlike those of handles.h, and hold memory the leak checker
// has to see. Threads: create and destroy take the pool's lock; check takes none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "api.h"

namespace cpuhip {

enum class SlotState { Live, Dead, Unknown };

template <typename T>
class HandlePool {
 public:
  explicit HandlePool(const char* noun) : noun_(noun) {}

  template <typename... Arguments>
  T* create(Arguments&&... arguments) {
    Slot* slot = take();
    T* object = new (slot->storage) T(std::forward<Arguments>(arguments)...);
    slot->number = ++created_;
    live_.fetch_add(1, std::memory_order_relaxed);
    slot->state.store(kLive, std::memory_order_release);
    return object;
  }

  /// `answers`: a later destroy of this handle is answered with an error instead of ending the process.
  void destroy(T* object, bool answers = false) {
    Slot* slot = slot_of(object);
    slot->state.store(answers ? kDeadAnswers : kDead, std::memory_order_release);
    object->~T();
    live_.fetch_sub(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

  SlotState state(const void* handle) const {
    const Slot* slot = find(handle);
    if (slot == nullptr) return SlotState::Unknown;
    const std::uint32_t state = slot->state.load(std::memory_order_acquire);
    return state == kLive ? SlotState::Live : state == kNever ? SlotState::Unknown : SlotState::Dead;
  }

  /// The object of a handle, or null for null and for what never was a handle. Ends the process for a destroyed one, or
  /// null (CPUHIP_GONE).
  T* check(const void* handle) const {
    switch (state(handle)) {
      case SlotState::Live:
        return static_cast<T*>(const_cast<void*>(handle));
      case SlotState::Dead:
        if (refuses_destroyed(noun_)) return nullptr;
        fatal("use of destroyed %s %p (the %llu. one created)", noun_, handle,
              static_cast<unsigned long long>(find(handle)->number));
      case SlotState::Unknown:
        break;
    }
    return nullptr;
  }
  bool dead_but_answers(const void* handle) const {
    const Slot* slot = find(handle);
    return slot != nullptr && slot->state.load(std::memory_order_acquire) == kDeadAnswers;
  }

  std::uint64_t live() const { return live_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kSlabBytes = 64 << 10;
  static constexpr std::size_t kQuarantine = 1024;
  static constexpr std::size_t kDirectory = 1 << 15;  ///< slabs: 2 GiB of objects of one kind
  enum : std::uint32_t { kNever, kLive, kDead, kDeadAnswers };

  struct Slot {
    std::atomic<std::uint32_t> state{kNever};
    std::uint64_t number = 0;
    alignas(alignof(std::max_align_t)) unsigned char storage[sizeof(T)];
  };
  static constexpr std::size_t kSlots = kSlabBytes / sizeof(Slot);
  static_assert(kSlots >= 8, "objects too large for a slab");

  static Slot* slot_of(const void* object) {
    return reinterpret_cast<Slot*>(reinterpret_cast<std::uintptr_t>(object) - offsetof(Slot, storage));
  }

  static std::size_t hash(std::uintptr_t slab) {
    return static_cast<std::size_t>((slab / kSlabBytes) * 0x9E3779B97F4A7C15u >> 40) % kDirectory;
  }

  const Slot* find(const void* handle) const {
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    const std::uintptr_t slab = address & ~(std::uintptr_t{kSlabBytes} - 1);
    if (slab == 0) return nullptr;
    for (std::size_t i = hash(slab);; i = (i + 1) % kDirectory) {
      const std::uintptr_t found = directory_[i].load(std::memory_order_acquire);
      if (found == 0) return nullptr;
      if (found == slab) break;
    }
    const std::size_t from_start = address - slab;
    if (from_start / sizeof(Slot) >= kSlots || from_start % sizeof(Slot) != offsetof(Slot, storage)) return nullptr;
    return slot_of(handle);
  }

  Slot* take() {
    std::lock_guard lock(mutex_);
    const Reuse reuse = config().reuse;
    const std::size_t waiting = reuse == Reuse::Late ? kQuarantine : 0;
    if (free_.size() <= waiting || reuse == Reuse::Never) {
      if (unused_ == 0) add_slab();
      return &slab_[kSlots - unused_--];
    }
    if (reuse == Reuse::Random) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      std::swap(free_[(random_ >> 33) % free_.size()], free_.back());
    }
    Slot* slot = nullptr;
    if (reuse == Reuse::Late) {
      slot = free_.front();
      free_.pop_front();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    return slot;
  }

  void add_slab() {
    void* memory = std::aligned_alloc(kSlabBytes, kSlabBytes);
    if (memory == nullptr || ++slabs_ > kDirectory / 2) fatal("no memory for another %s", noun_);
    slab_ = static_cast<Slot*>(memory);
    for (std::size_t i = 0; i < kSlots; ++i) new (&slab_[i]) Slot;
    unused_ = kSlots;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    std::size_t i = hash(address);
    while (directory_[i].load(std::memory_order_relaxed) != 0) i = (i + 1) % kDirectory;
    directory_[i].store(address, std::memory_order_release);
  }

  const char* noun_;
  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> created_{0};
  std::mutex mutex_;
  std::deque<Slot*> free_;  ///< destroyed, oldest first
  Slot* slab_ = nullptr;    ///< the newest slab; its last unused_ slots were never handed out
  std::size_t unused_ = 0;
  std::size_t slabs_ = 0;
  std::uint64_t random_ = 1;
  std::atomic<std::uintptr_t> directory_[kDirectory] = {};
};

}  // namespace cpuhip
