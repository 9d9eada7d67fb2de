// memory_room.h: when kept memory goes back to the runtime, and how much of it.
//
// Kept memory counts as free to the program. What was freed first goes back first:
//   - past the limit of its device, in the free that passes it, or in a later call where that free must not wait;
//   - when nobody has reused it for some time (PoolSettings::idle), in a later malloc, free or wait of the program,
//     where nothing is known to run on the device, so that nothing is waited for, and no capture is open;
//   - before a call may fail for memory, all of it; that call is then made once more (rule 25). This waits as hipFree
//     does.
// A chunk goes as a whole once nothing of it is in use; its addresses stay (chunk_store.h). Of a chunk in use no
// physical memory can go. So where room is needed its kept parts stay kept, at their addresses; past the limit they
// become free for other blocks, and so they do where a part of another size finds no other place.
//
// Threads: any; the lock is g_blocks_lock, never held over a HIP call. Units: bytes. Not here: which memory is kept
// (block_pool.h, block_frees.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/base/function_ref.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/pending_frees.h"
#include "shim/memory/pool_settings.h"
#include "shim/streams/devices.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

class MemoryRoom {
 public:
  constexpr MemoryRoom(KeptMemory& kept, ChunkStore& chunks, Blocks& blocks, PendingFrees& pending,
                       StreamWork& work) noexcept
      : kept_(kept), chunks_(chunks), blocks_(blocks), pending_(pending), work_(work) {}
  MemoryRoom(const MemoryRoom&) = delete;
  MemoryRoom& operator=(const MemoryRoom&) = delete;

  /// Before the first allocation.
  void configure(const PoolSettings& settings) noexcept;
  /// Is asked, without a lock held, for device memory of others when a call has failed for memory: whether any was
  /// given. All devices: -1.
  using Reclaim = bool (*)(int device);
  void set_reclaim(Reclaim reclaim) noexcept { reclaim_ = reclaim; }
  bool reclaim(int device) const noexcept { return reclaim_ != nullptr && reclaim_(device); }

  /// How much may be kept on the device. 0 where nobody knows: it is asked again next time.
  std::size_t limit(int device) noexcept {
    const std::size_t known = limits_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
    return known != kUnknown ? known : find_limit(device);
  }
  void keep_to_limit(int device) noexcept EXCLUDES(g_blocks_lock);
  /// The same, but once the device has nothing left to do: for a free that must not wait.
  void keep_to_limit_later(int device) noexcept {
    excess_.fetch_or(std::uint64_t{1} << device, std::memory_order_relaxed);
  }

  /// The program has waited for a stream or the device: what was put off until then is done.
  void waited() noexcept EXCLUDES(g_blocks_lock) {
    if (kept_.clock().moment_passed()) [[unlikely]]
      look_at_clock();
    else if (excess_.load(std::memory_order_relaxed) != 0)
      end_excess();
  }
  /// What was kept too long goes as soon as the device has nothing left to do.
  void look_at_clock() noexcept EXCLUDES(g_blocks_lock);

  /// Gives kept memory back until this many bytes are free. Waits as hipFree does. Returns whether any was given back.
  bool trim(int device, std::size_t bytes) noexcept EXCLUDES(g_blocks_lock);
  /// Gives all kept memory back, because none is kept from now on. Kept parts of chunks in use are forgotten.
  bool release_all(int device) noexcept EXCLUDES(g_blocks_lock);
  void release_all() noexcept;

  /// Makes the call. Where it fails for memory, gives the device's kept memory back (all devices: -1) and makes it once
  /// more: also where there was none but calls of ours replaced what the program is to find as its last error.
  template <typename Call>
  hipError_t retry_after_trim(int device, Call&& call) {
    const hipError_t pending = pending_error(), owed = t_owed_error;
    const hipError_t error = call();
    if (error != hipErrorOutOfMemory || (!give_back(device) && next().hipPeekAtLastError() == error)) return error;
    t_owed_error = owed;
    clear_error(pending);
    return call();
  }
  /// Makes a call of ours that needs so many bytes. While it fails for memory, gives kept memory back, one block or
  /// chunk after another, and makes it once more. Where kept memory would not be enough none is given back.
  hipError_t retry_bit_by_bit(int device, std::size_t bytes, FunctionRef<hipError_t()> call) noexcept
      EXCLUDES(g_blocks_lock);
  /// There is no place for a part: the oldest kept part of a chunk becomes free for it. Returns false where there is
  /// none.
  bool forget_oldest_part(int device) noexcept EXCLUDES(g_blocks_lock);
  /// A call has failed for memory: gives the kept memory of the calling thread's device back, all there is, and takes
  /// the failure out of the program's sight. The caller makes the call once more, whatever was given back: its result
  /// is the last error again.
  void make_room() noexcept EXCLUDES(g_blocks_lock);

  /// What the program does not use although the runtime counts it as used: to be added to free memory.
  std::size_t hidden_free_bytes(int device) noexcept EXCLUDES(g_blocks_lock);

  /// Memory is about to go back to the runtime. No bytes: nobody knows how much.
  void tell_leaving(const void* address, std::size_t bytes) const noexcept;

  /// The device is about to be reset: its size is asked for again.
  void device_reset(int device) noexcept {
    limits_[static_cast<std::size_t>(device)].store(kUnknown, std::memory_order_relaxed);
  }

 private:
  enum class Cause : std::uint8_t { kLimit, kIdle, kRoom };
  /// Memory that is out of all lists and about to go.
  struct Going {
    void* classic = nullptr;               ///< a block of its own, or
    PooledChunk* parked = nullptr;         ///< a chunk whose addresses stay, or
    std::unique_ptr<PooledChunk> chunk{};  ///< one whose addresses go, too; else a part that is free for others
    std::size_t bytes = 0;                 ///< of the block
  };
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  std::size_t find_limit(int device) noexcept;
  void end_excess() noexcept EXCLUDES(g_blocks_lock);
  void give_back_idle(int device) noexcept EXCLUDES(g_blocks_lock);
  bool give_back(int device) noexcept EXCLUDES(g_blocks_lock);
  bool give_back_some(int device) noexcept EXCLUDES(g_blocks_lock);
  std::size_t give_back_oldest(int device, Cause cause) noexcept EXCLUDES(g_blocks_lock);
  Block* next_to_go(int device, Cause cause) const noexcept REQUIRES(g_blocks_lock);
  Going take_out(Block* block) noexcept REQUIRES(g_blocks_lock);
  void give(Going going) noexcept EXCLUDES(g_blocks_lock);

  KeptMemory& kept_;
  ChunkStore& chunks_;
  Blocks& blocks_;
  PendingFrees& pending_;
  StreamWork& work_;
  std::atomic<std::uint64_t> excess_{0};  ///< one bit a device: something is to go back once it has nothing to do
  std::array<std::atomic<std::size_t>, kMaxDevices> limits_{};
  std::size_t limit_bytes_ = 0;  ///< as PoolSettings' are, and the next ones
  unsigned limit_percent_ = 0;
  void (*leaving_)(const void* address, std::size_t bytes) noexcept = nullptr;
  Reclaim reclaim_ = nullptr;
};

}  // namespace graphpool
