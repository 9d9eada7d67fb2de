// private_handles.h: knows the handles of the runtime that are the library's own: streams, events, graphs and execs
// that it has made for itself.
//
// Why: a runtime gives the handle of what was destroyed to what is made next. So what a program has destroyed may come
// back as an object of ours, where natively nothing would have been made: a call with the stale handle must be refused
// as natively, and never reach our object. Every call that has a body and returns hipError_t is checked
// (hooks/entry_points.cpp), unless it passes (hooks/passing.h). Calls without a body are not.
//
// A handle that the runtime tells the program is the program's from then on. Threads: any; has() takes no lock, and may
// miss a handle that is entered or forgotten meanwhile, but no other. Lock: kPrivateHandles. Memory: for the most
// handles that there were at a time. Without host memory a handle is not known to be ours. A filter tells
// nearly all handles of the program's from ours without a search in the table.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shim/base/hot.h"
#include "shim/base/lock_rank.h"
#include "shim/hip/hook_table.h"

namespace graphpool {

class PrivateHandles {
 public:
  constexpr PrivateHandles() = default;
  PrivateHandles(const PrivateHandles&) = delete;
  PrivateHandles& operator=(const PrivateHandles&) = delete;

  void add(const void* handle) noexcept;
  void remove(const void* handle) noexcept;
  /// Forgets all handles, because some have gone with their device.
  void forget_all() noexcept;

  bool has(const void* handle) const noexcept { return may_have(handle) && is_entered(handle); }
  /// Returns false only for handles that are not entered. Returns true for the entered ones and, seldom, for another.
  bool may_have(const void* handle) const noexcept {
    return filter_.may_have(hash_of(reinterpret_cast<std::uintptr_t>(handle)));
  }

 private:
  static std::uint64_t hash_of(std::uintptr_t handle) noexcept { return (handle >> 4) * 0x9E3779B97F4A7C15u; }

  /// A row of bits. Each handle has one bit, which it shares with others and which is set while one of them is entered.
  class alignas(64) Filter {
   public:
    constexpr Filter() = default;
    bool may_have(std::uint64_t hash) const noexcept {
      const std::uint64_t bit = bit_of(hash);
      return (bits_[bit / 64].load(std::memory_order_relaxed) >> bit % 64 & 1) != 0;
    }
    // The owner holds its lock.
    void add(std::uint64_t hash) noexcept {
      if (times_[bit_of(hash)]++ == 0) flip(hash);
    }
    void remove(std::uint64_t hash) noexcept {
      if (--times_[bit_of(hash)] == 0) flip(hash);
    }
    void clear() noexcept {
      for (std::atomic<std::uint64_t>& bits : bits_) bits.store(0, std::memory_order_relaxed);
      times_ = {};
    }

   private:
    static constexpr int kLogBits = 12;
    static std::uint64_t bit_of(std::uint64_t hash) noexcept { return hash >> (64 - kLogBits); }
    void flip(std::uint64_t hash) noexcept {
      const std::uint64_t bit = bit_of(hash);
      bits_[bit / 64].fetch_xor(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
    }
    std::array<std::atomic<std::uint64_t>, (std::size_t{1} << kLogBits) / 64> bits_{};
    std::array<std::uint32_t, std::size_t{1} << kLogBits> times_{};
  };
  /// In the place of a handle that was forgotten: searches go on behind it. No handle has this value.
  static constexpr std::uintptr_t kRemoved = ~std::uintptr_t{0};

  /// Open addressing; at most half full, marks of forgotten handles included, so that a search ends.
  struct Table {
    explicit Table(std::size_t size, Table* before) noexcept : mask(size - 1), former(before) {}

    std::size_t home(std::uintptr_t handle) const noexcept {
      return static_cast<std::size_t>(hash_of(handle) >> 32) & mask;
    }
    /// The place of a handle; the empty one where a search for it ends, if it is not entered.
    std::size_t place_of(std::uintptr_t handle) const noexcept { return place_of(handle, handle); }
    /// The first place with `wanted`, or the first empty one, of those where a handle is searched.
    std::size_t place_of(std::uintptr_t handle, std::uintptr_t wanted) const noexcept {
      std::size_t place = home(handle);
      for (std::uintptr_t entry; (entry = places[place].load(std::memory_order_relaxed)) != 0 && entry != wanted;)
        place = (place + 1) & mask;
      return place;
    }
    bool has(std::uintptr_t handle) const noexcept {
      return handle != 0 && handle != kRemoved && places[place_of(handle)].load(std::memory_order_relaxed) == handle;
    }
    bool is_removed(std::size_t place) const noexcept {
      return places[place].load(std::memory_order_relaxed) == kRemoved;
    }

    const std::size_t mask;
    Table* const former;  ///< somebody may still look into it
    std::atomic<std::uintptr_t>* places = nullptr;
  };

  bool is_entered(const void* handle) const noexcept;
  bool grow() noexcept REQUIRES(lock_);

  static constexpr std::size_t kFewPlaces = 1024;

  Filter filter_;
  std::atomic<Table*> table_{nullptr};
  RankedMutex<LockRank::kPrivateHandles> lock_;
  std::size_t used_ GUARDED_BY(lock_) = 0;  ///< places that are not empty
};

extern constinit PrivateHandles g_private_handles;

/// Enters the object that a call of ours has made, if it succeeded. Returns the call's result.
template <typename Handle>
hipError_t made_private(hipError_t result, Handle* const* made) noexcept {
  if (result == hipSuccess) g_private_handles.add(*made);
  return result;
}

/// Forgets an object of ours that is about to be destroyed. Returns its handle.
template <typename Handle>
Handle* no_longer_private(Handle* handle) noexcept {
  g_private_handles.remove(handle);
  return handle;
}

/// The kind of our object that an argument names.
enum class PrivateKind : std::uint8_t { kNone, kStream, kEvent, kGraph, kExec };

inline PrivateKind private_kind(hipStream_t stream) noexcept {
  return g_private_handles.has(stream) ? PrivateKind::kStream : PrivateKind::kNone;
}
/// The stream that an argument names, by itself or inside.
inline hipStream_t named_stream(hipStream_t stream) noexcept { return stream; }
inline hipStream_t named_stream(const LaunchConfig* config) noexcept {
  return config == nullptr ? nullptr : config->stream;
}
inline hipStream_t named_stream(const DriverLaunchConfig* config) noexcept {
  return config == nullptr ? nullptr : config->stream;
}
template <typename Argument>
inline constexpr bool names_stream =
    std::is_same_v<Argument, hipStream_t> || std::is_same_v<Argument, const LaunchConfig*> ||
    std::is_same_v<Argument, const DriverLaunchConfig*>;
inline PrivateKind private_kind(const LaunchConfig* config) noexcept { return private_kind(named_stream(config)); }
inline PrivateKind private_kind(const DriverLaunchConfig* config) noexcept {
  return private_kind(named_stream(config));
}
inline PrivateKind private_kind(hipEvent_t event) noexcept {
  return g_private_handles.has(event) ? PrivateKind::kEvent : PrivateKind::kNone;
}
inline PrivateKind private_kind(hipGraph_t graph) noexcept {
  return g_private_handles.has(graph) ? PrivateKind::kGraph : PrivateKind::kNone;
}
inline PrivateKind private_kind(hipGraphExec_t exec) noexcept {
  return g_private_handles.has(exec) ? PrivateKind::kExec : PrivateKind::kNone;
}
template <typename Other>
constexpr PrivateKind private_kind(const Other&) noexcept {
  return PrivateKind::kNone;
}

/// The kind of our object that the first such argument of a call names; kNone: no argument names one.
template <typename... Arguments>
HOT PrivateKind names_private([[maybe_unused]] const Arguments&... arguments) noexcept {
  PrivateKind kind = PrivateKind::kNone;
  static_cast<void>((... || ((kind = private_kind(arguments)) != PrivateKind::kNone)));
  return kind;
}

/// Refuses the call as the runtime does with such a handle that is nobody's.
hipError_t refuse_private(PrivateKind kind, EntryId call) noexcept;

/// Makes the handle that an argument points to the program's, because a call that succeeded has told it.
/// give_to_program() does so for all arguments of a call.
template <typename Handle>
void give_handle(Handle* const* handle) noexcept {
  if (handle != nullptr && *handle != nullptr) [[likely]]
    g_private_handles.remove(*handle);
}
template <typename Argument>
void give_argument(const Argument& argument) noexcept {
  if constexpr (std::is_same_v<Argument, hipStream_t*> || std::is_same_v<Argument, hipEvent_t*> ||
                std::is_same_v<Argument, hipGraph_t*> || std::is_same_v<Argument, hipGraphExec_t*>)
    give_handle(argument);
}
template <typename... Arguments>
void give_to_program([[maybe_unused]] const Arguments&... arguments) noexcept {
  (give_argument(arguments), ...);
}

}  // namespace graphpool
