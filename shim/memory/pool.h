// pool.h: stable allocations: device memory the program freed is kept and handed out again, so that a step that repeats
// gets the addresses it had before. Also the keeper of the block table.
//
// The life of a block (README.md tells it as a story):
//
//   hipMalloc -> kLive -> hipFree -> kLeaving -> kKept ------> hipMalloc of the same key: kLive again, new generation
//                                       |    \-> kPending ----^ (deferred: once the device has passed its fence)
//                                       \-> really freed: large, exported, not pooled, past the limit
//
// What is handed out again has exactly the requested size, device, flags, function and rule, and (where the decision
// says so) call site; of those the lowest address.
//
// What the program sees stays HIP's:
//   - a free waits as hipFree does (deferred: not at all), by a fence (streams/stream_work.h), never by
//     hipDeviceSynchronize; where no fence can be made, as while a capture is open, the runtime frees a page in its
//     place and so waits (probes free_waits_for_streams and relaxed_thread_may_wait, malloc_waits_for_nothing,
//     relaxed_thread_may_allocate);
//   - where a capture makes the runtime refuse them (probes capture_refuses_malloc, refused_call_spoils_capture),
//   malloc (unless kept memory is to serve those too) and free are the
//     runtime's own, its error and its invalidation; the free of a part of a chunk ends as its would. Other captures
//     make no difference, but that nothing is mapped while one is open;
//   - freeing kept memory again, or using it in any query, gets the runtime's answer for an address it does not know;
//   - an address inside an allocation frees it where the runtime does so (probe interior_free_is_refused); one in a
//   chunk but in no block never reaches
//     the runtime, which would take the chunk apart;
//   - kept memory counts as free, is bounded by the limit (least recently freed goes first), and is given back before a
//     call may fail for memory (retry_after_trim). Giving back waits as hipFree does;
//   - what was not handed out again for some time (PoolSettings::idle) goes back in a later malloc, free or wait of the
//     program, where nothing is known to run on the device, so that nothing is waited for, and no capture is open. Of a
//     chunk the physical memory goes, once that is so for all its parts; the addresses stay.
//
// Threads: any. One lock (rank kBlocks), never held over a HIP call that can wait. Lookups take none.
// Units: bytes. Not here: which memory is pooled (the Decider's answer), waiting (streams/stream_work.h), VMM calls
// (vmm.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/base/short_lock.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/block_table.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/kept_blocks.h"
#include "shim/memory/vmm.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// The first version whose captures are known to take frees (probe capture_takes_frees).
inline constexpr int kCapturesFrees = hip_version(6, 0);

/// What the policy says about the pool as a whole.
struct PoolSettings {
  bool enabled = true;
  std::size_t limit_bytes = 0;       ///< kept per device at most; 0: limit_percent decides
  unsigned limit_percent = 25;       ///< of the device's memory
  std::size_t large_bytes = kGiB;    ///< from this size up: exact and really freed
  std::chrono::nanoseconds idle{0};  ///< what is kept so long and not handed out again goes back; 0: stays
  /// The time in milliseconds; null: the machine's. Where it is given, and where `idle` is less than a second, it is
  /// asked for in every call; else once in a moment (moment_passed).
  std::uint32_t (*clock_ms)() noexcept = nullptr;
  bool deferred_free = false;
  std::size_t chunk_bytes = 64 * kMiB;
  std::size_t preallocate_bytes = 0;  ///< VMM chunks made per device at its first allocation with VMM backing
  bool serve_captures = false;        ///< kept memory also serves a hipMalloc that a capture forbids
  /// Told of memory that is about to go back to the runtime, without a lock of ours; no bytes: nobody knows how much.
  void (*leaving)(const void* address, std::size_t bytes) noexcept = nullptr;
};

struct AllocationRequest {
  AllocationFunction function = AllocationFunction::kMalloc;
  std::size_t bytes = 0;
  int device = 0;
  unsigned flags = 0;
  hipStream_t stream = nullptr;  ///< hipMallocAsync's
};

/// What is to be done with a request.
struct Decision {
  bool pool = true;
  BlockBacking backing = BlockBacking::kClassic;
  std::uint32_t rule = 0;
  std::uint32_t call_site = 0;
  bool by_call_site = false;  ///< only memory freed by the same call site is handed out
};

/// Asked for every allocation that could be pooled, without a lock held. Must be quick; may unwind. Without one nothing
/// is pooled.
using Decider = Decision (*)(const AllocationRequest&);

struct PoolKey {
  std::size_t bytes = 0;
  int device = 0;
  unsigned flags = 0;
  std::uint32_t rule = 0;
  std::uint32_t call_site = 0;
  AllocationFunction function = AllocationFunction::kMalloc;
  BlockBacking backing = BlockBacking::kClassic;

  /// Without a branch for each member: asked for every allocation.
  friend bool operator==(const PoolKey& a, const PoolKey& b) noexcept {
    return ((a.bytes ^ b.bytes) | static_cast<unsigned>(a.device ^ b.device) | (a.flags ^ b.flags) | (a.rule ^ b.rule) |
            (a.call_site ^ b.call_site) | (static_cast<unsigned>(a.function) ^ static_cast<unsigned>(b.function)) |
            (static_cast<unsigned>(a.backing) ^ static_cast<unsigned>(b.backing))) == 0;
  }
};

/// The freed blocks of one key.
struct FreeList {
  PoolKey key;
  KeptBlocks kept;              ///< room for all members
  std::vector<Block*> pending;  ///< kPending ones; capacity for all members
  std::size_t members = 0;      ///< blocks that come back here, live ones too
};

struct PoolCounters {
  std::uint64_t fresh = 0;    ///< allocations the runtime served
  std::uint64_t reused = 0;   ///< allocations kept memory served
  std::uint64_t kept = 0;     ///< frees that kept the memory
  std::uint64_t real = 0;     ///< frees the runtime did
  std::uint64_t evicted = 0;  ///< kept blocks given back for the limit
  std::uint64_t trimmed = 0;  ///< kept blocks given back because a call failed for memory
  std::uint64_t idle = 0;     ///< kept blocks, or whole chunks of them, given back because nobody reused them
};

/// What is kept on a device, parts of chunks included.
struct PoolMemory {
  int device = 0;
  std::size_t kept_blocks = 0, kept_bytes = 0, peak_kept_bytes = 0;
  std::size_t chunks = 0;
};

class Pool {
 public:
  Pool(BlockTable& table, StreamWork& work) noexcept : table_(table), work_(work) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Before the first allocation.
  void configure(const PoolSettings& settings, Decider decide) noexcept;
  /// Asked, without a lock held, for device memory of others when a call has failed for memory: whether any was given.
  using Reclaim = bool (*)(int device);
  void set_reclaim(Reclaim reclaim) noexcept { reclaim_ = reclaim; }
  /// Asks for it. All devices: -1.
  bool reclaim(int device) const noexcept { return reclaim_ != nullptr && reclaim_(device); }
  /// Nothing is kept from now on; what is kept is given back. What was handed out is still known.
  void disable() noexcept;
  /// The same, but what is kept is given back in the program's next hipFree only: that waits anyway.
  void stop_keeping() noexcept;
  /// Whether memory is kept and handed out again now.
  bool enabled() const noexcept {
    return enabled_.load(std::memory_order_relaxed) && !device_in_error_.load(std::memory_order_relaxed);
  }

  /// A call of the program failed. After errors that every later call returns too, until the device is reset, malloc
  /// and free are the runtime's own again.
  void note_error(hipError_t error) noexcept;

  BlockTable& table() noexcept { return table_; }

  using Free = hipError_t (*)(void*);

  /// hipMalloc, hipExtMallocWithFlags or hipMallocAsync of the program, on the current device.
  hipError_t allocate(const AllocationRequest& request, void** ptr);

  /// hipFree, and (with another function to forward to) every other call that frees by address.
  hipError_t free(void* ptr, Free forward);
  hipError_t free_async(void* ptr, hipStream_t stream);
  /// hipFree of a classic block that is to be kept, where the device has nothing left to do and nothing needs to be
  /// given back for it. False: nothing was done; free() does it.
  bool free_at_once(void* ptr) noexcept;

  /// The program got memory from the runtime itself: it is known, but never pooled.
  void note_native(void* ptr, std::size_t bytes, int device, unsigned flags, MemoryKind kind,
                   AllocationFunction function, const Decision& decision = {}) noexcept;

  /// The address as the runtime shall see it in queries and copies: one that HIP never handed out where the program has
  /// freed the memory or nothing is the program's between parts of a chunk, otherwise the same.
  template <typename T>
  T* seen_by_hip(T* ptr) const noexcept {
    if (!vmm_blocks() && kept_blocks_.load(std::memory_order_relaxed) == 0) return ptr;
    const Block* block = table_.find(ptr);
    return (block == nullptr ? between_parts(ptr) : !block->live()) ? static_cast<T*>(never_address()) : ptr;
  }

  /// The same for an operand of a copy or fill, of which so many bytes are touched: also refused is what leaves a VMM
  /// block, for the runtime sees no bounds inside a chunk. What comes back instead begins at its base: offsets from it
  /// count no more.
  template <typename T>
  T* operand(T* ptr, std::size_t bytes) const noexcept {
    return kept_blocks_.load(std::memory_order_relaxed) != 0 || vmm_blocks() ? static_cast<T*>(checked(ptr, bytes))
                                                                             : ptr;
  }
  /// The same for a value that a stream writes or waits for: the runtime refuses an address it does not know.
  template <typename T>
  T* value_operand(T* ptr, std::size_t bytes) const noexcept {
    return operand(ptr, bytes) == ptr ? ptr : static_cast<T*>(refused_value());
  }

  /// The same for calls that work on mappings: no block of ours is one to the program.
  void* outside_chunks(void* ptr) const noexcept {
    if (!vmm_blocks() && kept_blocks_.load(std::memory_order_relaxed) == 0) return ptr;
    const Block* block = table_.find(ptr);
    const bool ours = block == nullptr ? between_parts(ptr) : !block->live() || block->backing == BlockBacking::kVmm;
    return ours ? never_address() : ptr;
  }

  /// An address the runtime refuses.
  static void* refused() noexcept { return never_address(); }

  /// Whether any block is a part of a chunk.
  bool vmm_blocks() const noexcept { return vmm_blocks_.load(std::memory_order_relaxed) != 0; }

  /// The block has become what its next owner must not find. False: no live block of ours there.
  bool mark_exported(const void* ptr) noexcept;
  /// The same, because a handle of it leaves the process, or of so many bytes from there (0: of the block).
  bool mark_shared(const void* ptr, std::size_t bytes) noexcept;

  /// What tells the allocation at the address from every other there was (HIP_POINTER_ATTRIBUTE_BUFFER_ID) where the
  /// runtime's answer does not: memory that was handed out again, and parts of chunks. 0: the runtime's does.
  std::uint32_t buffer_id(const void* ptr) noexcept;

  /// What the program does not use although the runtime counts it as used: to be added to free memory.
  std::size_t hidden_free_bytes(int device) noexcept;

  /// Gives kept memory back, least recently freed first, until this many bytes are free. Waits as hipFree does. Returns
  /// whether anything was given back.
  bool trim(int device, std::size_t bytes) noexcept;
  bool release_all(int device) noexcept { return trim(device, ~std::size_t{0}); }

  /// Makes the call; where it fails for memory, gives the device's kept memory back (all devices: device < 0) and makes
  /// it once more: also where there was none but calls of ours replaced what the program is to find as its last error.
  template <typename Call>
  hipError_t retry_after_trim(int device, Call&& call) {
    const hipError_t pending = pending_error(), owed = t_owed_error;
    const hipError_t error = call();
    if (error != hipErrorOutOfMemory || (!give_back(device) && next().hipPeekAtLastError() == error)) return error;
    t_owed_error = owed;
    clear_error(pending);
    return call();
  }

  /// A call has failed for memory: gives the kept memory of the calling thread's device back, all there is, and takes
  /// the failure out of the program's sight. The caller makes the call once more, whatever was given back: its result
  /// is the last error again. Without a lock held.
  void make_room() noexcept;

  /// The program has waited for a stream or the device. Frees in stream order give nothing back, as they must not wait:
  /// what they have kept past the limit goes once the device has nothing left to do; so does what nobody reuses.
  void waited() noexcept {
    if (moment_passed()) [[unlikely]]
      look_at_clock();
    else if (excess_.load(std::memory_order_relaxed) != 0)
      evict_excess();
  }

  /// Others may access the device's memory from now on, or all devices' (-1). With some runtimes that is memory
  /// allocated later: what is or will be kept of what there is is not handed out any more.
  void peers_enabled(int device) noexcept;

  /// The device is about to be reset: its memory is gone.
  void device_reset(int device);
  /// The device was reset: chunks that could not go before, because the device was in error, go now.
  void device_was_reset(int device);

  PoolCounters counters() const noexcept;
  /// The devices of which something is or was kept.
  std::vector<PoolMemory> memory() const;
  /// Tests: everything consistent.
  bool is_valid();

 private:
  struct KeyHash {
    std::size_t operator()(const PoolKey& key) const noexcept;
  };
  static constexpr std::size_t kUnknown = ~std::size_t{0};
  struct Device {
    Block* oldest GUARDED_BY(g_blocks_lock) = nullptr;  ///< kept and pending blocks in the order they were freed
    Block* newest GUARDED_BY(g_blocks_lock) = nullptr;
    std::size_t kept_bytes GUARDED_BY(g_blocks_lock) =
        0;  ///< of those, rounded to pages; without parts of parked chunks
    std::size_t classic_bytes GUARDED_BY(g_blocks_lock) = 0;  ///< the classic ones among them
    std::size_t peak_bytes GUARDED_BY(g_blocks_lock) = 0;     ///< the most kept_bytes has been
    std::atomic<std::size_t> limit_bytes{kUnknown};
    bool preallocated GUARDED_BY(g_blocks_lock) = false;
    std::size_t parked GUARDED_BY(g_blocks_lock) = 0;  ///< chunks of which only the addresses are held
    std::vector<std::unique_ptr<Chunk>> chunks GUARDED_BY(g_blocks_lock);
    std::vector<std::unique_ptr<Chunk>> dropped GUARDED_BY(g_blocks_lock);  ///< while the device is reset
  };
  /// A block and the allocation it was when we looked.
  struct Named {
    Block* block = nullptr;
    std::uint64_t generation = 0;
    int device = 0;
    MemoryKind kind = MemoryKind::kDevice;
    bool pooled = false;     ///< it has a list to go to
    Chunk* chunk = nullptr;  ///< that it is part of
  };
  static Named named(Block* block) noexcept REQUIRES(g_blocks_lock) {
    return {block, block->generation, block->device, block->kind, block->list != nullptr, block->chunk};
  }

  static void* never_address() noexcept;
  static void* refused_value() noexcept;
  void* checked(const void* ptr, std::size_t bytes) const noexcept;
  /// Whether an address that no block has lies in a chunk. Takes the lock only near chunks.
  bool between_parts(const void* ptr) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    return address >= chunks_begin_.load(std::memory_order_relaxed) &&
           address < chunks_end_.load(std::memory_order_relaxed) && in_chunk(address);
  }
  bool in_chunk(std::uintptr_t address) const noexcept;
  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }

  Block* take_kept(const PoolKey& key, const Decision& decision, const hipStream_t* stream);
  hipError_t allocate_other(const AllocationRequest& request, void** ptr, const Decision& decision, PoolKey key,
                            bool capturing);
  Block* take_ready(const PoolKey& key, const Decision& decision) noexcept;
  Block* take_locked(FreeList& list, const hipStream_t* stream) noexcept REQUIRES(g_blocks_lock);
  bool collect_pending(const PoolKey& key);
  bool collect_pending(int device);
  template <typename ForEachList>
  bool collect(ForEachList for_each_list);
  void settle_pending(int device);
  bool load_chunk(Named named, const Decision& decision);
  Block* allocate_vmm(const PoolKey& key, const Decision& decision);
  Block* place(Chunk& chunk, const PoolKey& key, const Decision& decision) REQUIRES(g_blocks_lock);
  /// Where memory goes when the program frees it.
  enum class Returns : bool { kToTheRuntime, kToItsList };
  Block* enter(void* ptr, const PoolKey& key, Returns returns, MemoryKind kind, const Decision& decision)
      REQUIRES(g_blocks_lock);
  void hand_out(Block* block, const Decision& decision) noexcept REQUIRES(g_blocks_lock);
  static constexpr std::uint32_t kRuntimesId = 0, kOwnId = 1;

  void tell_leaving(const void* address, std::size_t bytes) const noexcept {
    note_memory_freed();
    if (settings_.leaving != nullptr) settings_.leaving(address, bytes);
  }
  Named start_free(const void* ptr) noexcept;
  hipError_t free_native(Named named, void* ptr, Free forward);
  hipError_t free_kept(Named named, void* ptr, Free forward);
  hipError_t free_vmm(Named named, bool inside, Free forward);
  bool wait_like_free(int device) noexcept;
  void keep(Named named, BlockState state, Fence* fence, int waits_for) noexcept;
  void back_to_live(Named named) noexcept;
  /// What the processor counts, in steps of 2^28: some tenths of a second at most. In two instructions.
  static std::uint32_t moment() noexcept {
    std::uint32_t moment;
    asm volatile("rdtsc\n\tshldl $4, %%eax, %%edx" : "=d"(moment) : : "eax", "cc");
    return moment;
  }
  /// Whether the clock is worth a look.
  bool moment_passed() const noexcept { return moment() != moment_.load(std::memory_order_relaxed); }
  void look_at_clock() noexcept;
  bool is_old(std::uint32_t freed_ms) const noexcept {
    return now_ms_.load(std::memory_order_relaxed) - freed_ms >= idle_ms_;
  }
  Block* next_to_go(const Device& device, bool only_idle) const noexcept REQUIRES(g_blocks_lock);
  void give_back_idle(int device) noexcept;
  void evict_over_limit(int device) noexcept;
  void evict_excess() noexcept;
  bool give_back(int device) noexcept;
  std::size_t give_back_oldest(int device, bool only_idle = false) noexcept;
  std::size_t limit_of(int device) noexcept;
  template <typename Visit>
  void for_each_kept(const Chunk* chunk, Visit visit) REQUIRES(g_blocks_lock);

  void link_newest(Block* block) noexcept REQUIRES(g_blocks_lock);
  void unlink(Block* block) noexcept REQUIRES(g_blocks_lock);
  void take_back(Chunk& chunk, std::size_t bytes) noexcept REQUIRES(g_blocks_lock);
  void add_kept(Block* block) noexcept REQUIRES(g_blocks_lock);
  void to_kept(Block* block, bool linked) noexcept REQUIRES(g_blocks_lock);
  void from_kept(Block* block) noexcept REQUIRES(g_blocks_lock);
  void to_pending(Block* block, Fence* fence, int waits_for) noexcept REQUIRES(g_blocks_lock);
  void from_pending(Block* block) noexcept REQUIRES(g_blocks_lock);
  FreeList* find_list(const PoolKey& key) noexcept REQUIRES(g_blocks_lock);
  void drop_list(FreeList* list) noexcept REQUIRES(g_blocks_lock);
  static std::size_t near_place(const PoolKey& key) noexcept {
    return key.bytes * 0x9E3779B97F4A7C15u >> 57 & (kNearLists - 1);
  }
  FreeList* join_list(const PoolKey& key) REQUIRES(g_blocks_lock);
  void leave_list(Block* block) noexcept REQUIRES(g_blocks_lock);
  void forget(Block* block) noexcept REQUIRES(g_blocks_lock);
  void drop_fence(Block* block) noexcept REQUIRES(g_blocks_lock);
  void add_dropped(Fence* fence) noexcept REQUIRES(g_blocks_lock);
  void recycle_fences() noexcept;
  Block* any_kept(const Chunk* chunk) noexcept REQUIRES(g_blocks_lock);
  bool same(Named named) const noexcept REQUIRES(g_blocks_lock) {
    return named.block->generation == named.generation && named.block->state.load() != BlockState::kFree;
  }

  BlockTable& table_;
  StreamWork& work_;
  std::atomic<bool> enabled_{false};
  std::atomic<bool> stopped_{false};  ///< what is kept is still to be given back
  std::atomic<bool> device_in_error_{false};
  std::atomic<std::uint32_t> moment_{0};   ///< when the clock was last looked at
  std::atomic<std::uint32_t> now_ms_{0};   ///< what it showed
  std::atomic<std::uint32_t> idle_ms_{0};  ///< 0: what is kept stays
  bool looks_always_ = false;
  std::atomic<std::uint64_t> excess_{0};     ///< one bit a device: something is to go back once it has nothing to do
  std::atomic<std::size_t> kept_blocks_{0};  ///< changed under the lock only, as the next one is
  std::atomic<std::size_t> vmm_blocks_{0};
  std::atomic<std::uintptr_t> chunks_begin_{~std::uintptr_t{0}};  ///< all chunks there ever were lie between these
  std::atomic<std::uintptr_t> chunks_end_{0};
  PoolSettings settings_;
  Decider decide_ = nullptr;
  Reclaim reclaim_ = nullptr;
  std::unordered_map<PoolKey, std::unique_ptr<FreeList>, KeyHash> lists_ GUARDED_BY(g_blocks_lock);
  static constexpr std::size_t kNearLists = 128;
  std::array<FreeList*, kNearLists> near_lists_
      GUARDED_BY(g_blocks_lock){};  ///< by hash: the list asked for last, or null
  std::array<Device, kMaxDevices> devices_{};
  std::atomic<Fence*> dropped_fences_{nullptr};  ///< to be recycled when the lock has been left
  static constexpr std::size_t kMaxParked = 1024;
  std::uint32_t outdated_lists_ GUARDED_BY(g_blocks_lock) = 0;
  std::uint64_t last_order_ GUARDED_BY(g_blocks_lock) = 0;
  std::uint64_t last_generation_ GUARDED_BY(g_blocks_lock) = 0;
  std::uint32_t last_buffer_id_ GUARDED_BY(g_blocks_lock) =
      0;  ///< ours count down, AMD's runtimes up (probe buffer_ids_count_up)
  PoolCounters counters_ GUARDED_BY(g_blocks_lock);
};

extern constinit std::atomic<Pool*> g_pool;
Pool& make_pool();

/// The process's own.
inline Pool& pool() noexcept {
  Pool* const made = g_pool.load(std::memory_order_acquire);
  return made != nullptr ? *made : make_pool();
}

/// retry_after_trim() for calls that are made often: the device is the calling thread's, asked for only where the call
/// fails. What error the program had pending before that is not known then.
template <typename Call>
inline hipError_t retry_with_room(Call&& call) {
  const hipError_t error = call();
  if (error != hipErrorOutOfMemory) [[likely]]
    return error;
  pool().make_room();
  return call();
}

}  // namespace graphpool
