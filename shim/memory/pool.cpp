#include "shim/memory/pool.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "shim/base/log.h"
#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/base/units.h"
#include "shim/hip/quirks.h"
#include "shim/memory/memory_use.h"
#include "shim/memory/never_address.h"
#include "shim/memory/slot_set.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

bool valid_device(int device) noexcept { return device >= 0 && device < kMaxDevices; }

std::size_t pages(std::size_t bytes) noexcept { return round_up(bytes, kPageBytes); }

/// What the program called.
hipError_t call_native(const AllocationRequest& request, void** ptr) noexcept {
  switch (request.function) {
    case AllocationFunction::kExtMalloc:
      return next().hipExtMallocWithFlags(ptr, request.bytes, request.flags);
    case AllocationFunction::kMallocAsync:
      return next().hipMallocAsync(ptr, request.bytes, request.stream);
    default:
      return next().hipMalloc(ptr, request.bytes);
  }
}

/// New memory that we may keep later: not owned by one of the runtime's memory pools.
hipError_t call_fresh(const AllocationRequest& request, void** ptr) noexcept {
  if (request.function == AllocationFunction::kMallocAsync) return next().hipMalloc(ptr, request.bytes);
  return call_native(request, ptr);
}

/// Whether the runtime refuses a free in the order of this stream because the stream captures. One whose capture was
/// invalidated may stay so after its end (probe spoilt_capture_is_over).
bool refuses_captured_free(hipStream_t stream) noexcept {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  if (!PrivateCalls::answered([&] { return next().hipStreamIsCapturing(stream, &status); })) return false;
  return status == hipStreamCaptureStatusInvalidated ||
         (status == hipStreamCaptureStatusActive && runtime_version() < kCapturesFrees);
}

/// Wraps after 49 days: only differences are looked at.
std::uint32_t clock_of_machine_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.tv_sec) * 1000 +
                                    static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000);
}

/// In milliseconds; what the clock cannot tell is never over.
std::uint32_t idle_ms(std::chrono::nanoseconds idle) noexcept {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(idle).count();
  return ms > std::numeric_limits<std::int32_t>::max() ? 0 : static_cast<std::uint32_t>(ms);
}

/// Without a barrier: other threads only read it.
void add_under_lock(std::atomic<std::size_t>& count, std::size_t more) noexcept {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

bool later(const Block* a, const Block* b) noexcept { return a->address() > b->address(); }

/// While a capture is open nothing is mapped: runtimes do it by commands on the null stream.
bool may_map(int device) noexcept { return !captures_open() && may_map_now(device); }

/// What the runtime answers where an allocation made on the device by `make` is freed by `free` at its base, or inside.
template <typename Make, typename FreeIt>
hipError_t judge_free(int device, bool inside, Make&& make, FreeIt&& free) noexcept {
  void* page = nullptr;
  {
    const PrivateCalls private_calls;
    const SavedDevice current(device);
    if (!current.ok() || !PrivateCalls::worked([&] { return make(&page); })) page = nullptr;
  }
  // Without memory nothing can be tried: an address inside an allocation frees it with all of AMD's runtimes.
  if (page == nullptr) return free(inside ? nullptr : never_allocated_address());
  const hipError_t error = free(static_cast<char*>(page) + (inside ? 1 : 0));
  if (error != hipSuccess) {
    const PrivateCalls private_calls;
    (void)PrivateCalls::gave_back([&] { return next().hipFree(page); });
  }
  return error;
}

/// One byte fits into the smallest memory.
void* refused_operand(int device, std::size_t bytes) noexcept {
  return bytes > 1 ? too_small_memory(device) : never_mapped_address();
}

hipError_t make_page(void** page) noexcept { return next().hipMalloc(page, kPageBytes); }

}  // namespace

void* Pool::never_address() noexcept { return never_allocated_address(); }

std::size_t Pool::KeyHash::operator()(const PoolKey& key) const noexcept {
  std::uint64_t hash = key.bytes * 0x9E3779B97F4A7C15u;
  hash ^= (std::uint64_t{key.call_site} << 32 | key.rule) * 0xC2B2AE3D27D4EB4Fu;
  hash ^= static_cast<std::uint64_t>(key.device) << 8 ^ static_cast<std::uint64_t>(key.function) << 4 ^ key.flags ^
          static_cast<std::uint64_t>(key.backing) << 16;
  return hash ^ hash >> 29;
}

void Pool::configure(const PoolSettings& settings, Decider decide) noexcept {
  const LockGuard guard(g_blocks_lock);
  settings_ = settings;
  decide_ = decide;
  if (settings_.clock_ms == nullptr) settings_.clock_ms = clock_of_machine_ms;
  looks_always_ = settings.clock_ms != nullptr || settings.idle < std::chrono::seconds(1);
  idle_ms_.store(idle_ms(settings.idle), std::memory_order_relaxed);
  if (idle_ms_.load(std::memory_order_relaxed) == 0) looks_always_ = false;
  moment_.store(moment() - 1, std::memory_order_relaxed);
  for (Device& device : devices_) device.limit_bytes.store(kUnknown);
  enabled_.store(settings.enabled, std::memory_order_relaxed);
  device_in_error_.store(false, std::memory_order_relaxed);
}

void Pool::note_error(hipError_t error) noexcept {
  switch (error) {
    case hipErrorIllegalAddress:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorLaunchTimeOut:
    case hipErrorECCNotCorrectable:
      if (!device_in_error_.exchange(true, std::memory_order_relaxed) && enabled_.load(std::memory_order_relaxed))
        log_once(LogLevel::kWarn, "device in error",
                 "a call failed with error %d: no memory is kept until the device is reset", static_cast<int>(error));
      break;
    default:
      break;
  }
}

void Pool::disable() noexcept {
  enabled_.store(false, std::memory_order_relaxed);
  for (int device = 0; device < kMaxDevices; ++device) (void)release_all(device);
}

void Pool::stop_keeping() noexcept {
  enabled_.store(false, std::memory_order_relaxed);
  stopped_.store(true, std::memory_order_relaxed);
}

// --- allocation ---

/// A kept block of the key that can be handed out without a call of the runtime, live again; null if there is none.
[[gnu::always_inline]] inline Block* Pool::take_ready(const PoolKey& key, const Decision& decision) noexcept {
  const LockGuard guard(g_blocks_lock);
  FreeList* const list = find_list(key);
  if (list == nullptr || list->kept.empty()) return nullptr;
  Block* const block = list->kept.lowest();
  if (block->chunk != nullptr) {
    if (block->chunk->changing || !block->chunk->resident()) return nullptr;
    block->chunk->used_bytes += pages(block->bytes());
  }
  from_kept(block);
  hand_out(block, decision);
  ++counters_.reused;
  return block;
}

hipError_t Pool::allocate(const AllocationRequest& request, void** ptr) {
  if (ptr == nullptr || request.bytes == 0) return call_native(request, ptr);
  const bool in_stream_order = request.function == AllocationFunction::kMallocAsync;
  // What a stream allocates while it captures is a node.
  const bool capturing = in_stream_order ? captures_open() : captures_refuse_memory_calls();
  // The rules also say what is staged, pooled or not.
  Decision decision{.pool = false};
  if (valid_device(request.device) && decide_ != nullptr) decision = decide_(request);
  decision.pool = decision.pool && enabled() && request.flags == hipDeviceMallocDefault &&
                  request.bytes < settings_.large_bytes && !(in_stream_order && capturing);
  const PoolKey key{.bytes = request.bytes,
                    .device = request.device,
                    .flags = request.flags,
                    .rule = decision.rule,
                    .call_site = decision.by_call_site ? decision.call_site : 0,
                    .function = request.function,
                    .backing = decision.backing};
  const bool served =
      capturing ? settings_.serve_captures && request.function == AllocationFunction::kMalloc : !in_stream_order;
  if (decision.pool && served) [[likely]] {
    if (const Block* const block = take_ready(key, decision)) {
      *ptr = block->pointer();
      if (moment_passed()) [[unlikely]]
        look_at_clock();
      return hipSuccess;
    }
  }
  const hipError_t error = allocate_other(request, ptr, decision, key, capturing);
  // Behind a call that failed nothing is done that could take its error's place.
  if (error == hipSuccess && moment_passed()) look_at_clock();
  return error;
}

/// What no kept block that is ready serves. `capturing`: a capture forbids the call.
[[gnu::noinline]] hipError_t Pool::allocate_other(const AllocationRequest& request, void** ptr,
                                                  const Decision& decision, PoolKey key, bool capturing) {
  if (decision.pool && !capturing) {
    const hipStream_t* const stream = request.function == AllocationFunction::kMallocAsync ? &request.stream : nullptr;
    Block* block = take_kept(key, decision, stream);
    if (block == nullptr && key.backing == BlockBacking::kVmm) {
      block = allocate_vmm(key, decision);
      if (block == nullptr) {
        key.backing = BlockBacking::kClassic;
        block = take_kept(key, decision, stream);
      }
    }
    if (block != nullptr) {
      *ptr = block->pointer();
      return hipSuccess;
    }
  }
  key.backing = BlockBacking::kClassic;
  const hipError_t error = retry_after_trim(
      request.device, [&] { return decision.pool ? call_fresh(request, ptr) : call_native(request, ptr); });
  if (error != hipSuccess) return error;
  if (!decision.pool) {
    // Memory of a captured allocation belongs to the graph: it comes and goes without a call we would see.
    if (capturing && request.function == AllocationFunction::kMallocAsync) return error;
    note_native(*ptr, request.bytes, request.device, request.flags,
                request.function == AllocationFunction::kMallocAsync ? MemoryKind::kStreamOrdered : MemoryKind::kDevice,
                request.function, decision);
    return error;
  }
  try {
    const LockGuard guard(g_blocks_lock);
    ++counters_.fresh;
    (void)enter(*ptr, key, Returns::kToItsList, MemoryKind::kDevice, decision);
  } catch (const std::bad_alloc&) {
    // The memory stays unknown to us: everything about it is forwarded.
  }
  recycle_fences();
  return error;
}

/// Makes the memory known. Null where it cannot be known.
Block* Pool::enter(void* ptr, const PoolKey& key, Returns returns, MemoryKind kind, const Decision& decision) {
  const auto base = reinterpret_cast<std::uintptr_t>(ptr);
  // The runtime has just handed it out, so what we knew there was freed past us.
  std::vector<Block*> stale;
  table_.overlaps(base, key.bytes, &stale);
  for (Block* block : stale) forget(block);
  FreeList* list = returns == Returns::kToItsList ? join_list(key) : nullptr;
  Block* block = table_.insert(base, key.bytes);
  if (block == nullptr) {
    if (list != nullptr && --list->members == 0) drop_list(list);
    return nullptr;
  }
  block->device = key.device;
  block->flags = key.flags;
  block->kind = kind;
  block->function = key.function;
  block->backing = key.backing;
  block->list = list;
  hand_out(block, decision);
  if (key.backing == BlockBacking::kClassic) block->buffer_id = kRuntimesId;
  return block;
}

void Pool::hand_out(Block* block, const Decision& decision) noexcept {
  block->rule = decision.rule;
  block->call_site = decision.call_site;
  block->order = ++last_order_;
  block->generation = ++last_generation_;
  if (!seeded_defect(Seeded::kSameBufferId) || block->buffer_id == kRuntimesId) block->buffer_id = kOwnId;
  block->state.store(BlockState::kLive, std::memory_order_release);
  tell_handed_out(block->address(), block->bytes());
}

std::uint32_t Pool::buffer_id(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const block = table_.find(ptr);
  if (block == nullptr || !block->live()) return kRuntimesId;
  if (block->buffer_id == kOwnId) block->buffer_id = --last_buffer_id_;
  return block->buffer_id;
}

void Pool::note_native(void* ptr, std::size_t bytes, int device, unsigned flags, MemoryKind kind,
                       AllocationFunction function, const Decision& decision) noexcept {
  if (ptr == nullptr || bytes == 0) return;
  try {
    const LockGuard guard(g_blocks_lock);
    ++counters_.fresh;
    PoolKey key;
    key.bytes = bytes;
    key.device = device;
    key.flags = flags;
    key.function = function;
    (void)enter(ptr, key, Returns::kToTheRuntime, kind, decision);
  } catch (const std::bad_alloc&) {
    // The memory stays unknown to us: everything about it is forwarded.
  }
  recycle_fences();
}

void Pool::peers_enabled(int device) noexcept {
  constexpr std::uint32_t kOutdated = 1u << 31;  // in flags: what is kept has none
  const LockGuard guard(g_blocks_lock);
  std::vector<FreeList*> lists;
  try {
    lists.reserve(lists_.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (const auto& [key, list] : lists_)
    if ((device < 0 || key.device == device) && key.backing == BlockBacking::kClassic &&
        key.function != AllocationFunction::kMallocAsync && (key.flags & kOutdated) == 0)
      lists.push_back(list.get());
  near_lists_.fill(nullptr);
  for (FreeList* const list : lists) {
    auto entry = lists_.extract(list->key);
    list->key.flags = kOutdated | ++outdated_lists_;
    entry.key() = list->key;
    lists_.insert(std::move(entry));
  }
}

/// A kept block of the key, live again; null if there is none. With a stream: also one that was freed in its order.
Block* Pool::take_kept(const PoolKey& key, const Decision& decision, const hipStream_t* stream) {
  for (bool collected = false;; collected = true) {
    Block* block = nullptr;
    Named parked{};
    bool pending = false;
    {
      const LockGuard guard(g_blocks_lock);
      FreeList* const list = find_list(key);
      if (list == nullptr) return nullptr;
      block = take_locked(*list, stream);
      if (block == nullptr) {
        pending = !list->pending.empty();
      } else if (block->chunk != nullptr && !block->chunk->resident()) {
        block->chunk->changing = true;
        block->state.store(BlockState::kLeaving, std::memory_order_release);
        parked = named(block);
      } else {
        hand_out(block, decision);
        ++counters_.reused;
      }
    }
    recycle_fences();
    if (parked.block != nullptr) return load_chunk(parked, decision) ? block : nullptr;
    if (block != nullptr || !pending || collected || !collect_pending(key)) return block;
  }
}

/// Takes the block with the lowest address that may be used at once out of the list.
Block* Pool::take_locked(FreeList& list, const hipStream_t* stream) noexcept {
  Block* best = list.kept.empty() ? nullptr : list.kept.lowest();
  if (seeded_defect(Seeded::kPendingServesCaptured) && best == nullptr && !list.pending.empty() && captures_open())
    best = list.pending.front();
  if (stream != nullptr) {
    for (Block* block : list.pending)
      if (block->fence != nullptr && (best == nullptr || later(best, block)) &&
          work_.same_stream(block->fence, block->device, *stream))
        best = block;
  }
  if (best == nullptr || (best->chunk != nullptr && best->chunk->changing)) return nullptr;
  if (best->state.load() == BlockState::kKept) {
    from_kept(best);
  } else {
    from_pending(best);
  }
  if (best->chunk != nullptr) best->chunk->used_bytes += pages(best->bytes());
  return best;
}

bool Pool::collect_pending(const PoolKey& key) {
  return collect([this, &key](auto&& visit) {
    assume_held(g_blocks_lock);
    if (FreeList* const list = find_list(key)) visit(*list);
  });
}

bool Pool::collect_pending(int device) {
  return collect([this, device](auto&& visit) {
    assume_held(g_blocks_lock);
    for (auto& [key, list] : lists_)
      if (key.device == device) visit(*list);
  });
}

/// `for_each_list` is called with the lock held. Moves blocks whose fence the device has passed to the kept ones.
/// False: there was none.
template <typename ForEachList>
bool Pool::collect(ForEachList for_each_list) {
  PrivateCalls private_calls;
  // Blocks freed where no fence could be made get one now.
  for (;;) {
    Block* without = nullptr;
    int waits_for = -1;
    const auto look = [&](FreeList& list) {
      assume_held(g_blocks_lock);
      for (Block* block : list.pending)
        if (block->fence == nullptr && (waits_for < 0 || block->waits_for == waits_for)) without = block;
    };
    {
      const LockGuard guard(g_blocks_lock);
      for_each_list(look);
      if (without != nullptr) waits_for = without->waits_for;
    }
    Fence* fence = without == nullptr ? nullptr : work_.make_fence(waits_for);
    if (fence == nullptr) break;
    const LockGuard guard(g_blocks_lock);
    without = nullptr;
    for_each_list(look);
    if (without != nullptr) without->fence = std::exchange(fence, nullptr);
    if (fence != nullptr && StreamWork::drop_reference(fence)) add_dropped(fence);
  }
  bool any = false;
  {
    const LockGuard guard(g_blocks_lock);
    for_each_list([&](FreeList& list) {
      assume_held(g_blocks_lock);
      for (std::size_t i = 0; i < list.pending.size();) {
        Block* block = list.pending[i];
        if (block->fence == nullptr || !work_.passed(block->fence)) {
          ++i;
          continue;
        }
        // It keeps its place in the order of frees.
        drop_fence(block);
        list.pending.erase(list.pending.begin() + static_cast<std::ptrdiff_t>(i));
        add_kept(block);
        any = true;
      }
    });
  }
  recycle_fences();
  return any;
}

/// Parts of chunks that the device may still use hold their chunk back: waits for it, as hipFree does.
void Pool::settle_pending(int device) {
  const auto any_part = [&] {
    const LockGuard guard(g_blocks_lock);
    return std::any_of(lists_.begin(), lists_.end(), [device](const auto& entry) {
      return entry.first.device == device && entry.first.backing == BlockBacking::kVmm &&
             !entry.second->pending.empty();
    });
  };
  if (!any_part()) return;
  PrivateCalls private_calls;
  if (Fence* fence = work_.make_fence(device)) {
    (void)work_.wait(fence);
    work_.release(fence);
  }
  (void)collect_pending(device);
}

// --- VMM ---

/// Physical memory for a chunk of which we held the addresses only. The block is out of its list, its chunk marked.
bool Pool::load_chunk(Named named, const Decision& decision) {
  Chunk* const chunk = named.chunk;
  const int device = chunk->device();
  const bool loaded = may_map(device) && chunk->load() == hipSuccess;
  const LockGuard guard(g_blocks_lock);
  chunk->changing = false;
  if (loaded) {
    --device_of(device).parked;
    tell_kept(chunk->base(), chunk->bytes());
    for_each_kept(chunk, [&](Block* block) {
      assume_held(g_blocks_lock);
      link_newest(block);
    });
    hand_out(named.block, decision);
    ++counters_.reused;
    return true;
  }
  to_kept(named.block, false);
  return false;
}

template <typename Visit>
void Pool::for_each_kept(const Chunk* chunk, Visit visit) {
  for (auto& [key, list] : lists_) {
    if (key.backing != BlockBacking::kVmm || key.device != chunk->device()) continue;
    for (std::size_t i = 0; i < list->kept.size(); ++i)
      if (Block* const block = list->kept[i].block; block->chunk == chunk) visit(block);
  }
}

Block* Pool::allocate_vmm(const PoolKey& key, const Decision& decision) {
  const std::size_t bytes = pages(key.bytes);
  std::size_t chunk_bytes = 0;
  {
    const LockGuard guard(g_blocks_lock);
    Device& device = device_of(key.device);
    for (auto& chunk : device.chunks) {
      if (chunk->changing || !chunk->resident()) continue;
      if (Block* block = place(*chunk, key, decision)) return block;
    }
    device.chunks.reserve(device.chunks.size() + 8);
    // Where the runtime chooses the chunk's alignment, the block is aligned inside it. A block that fills a chunk gets
    // one of its own without anything spare: the program must be able to allocate as much as it could natively.
    const std::size_t spare = has_defect(Defect::kMapWholeReservation) ? alignment_of(bytes) : 0;
    chunk_bytes = bytes >= settings_.chunk_bytes ? bytes : std::max(settings_.chunk_bytes, bytes + spare);
    if (!device.preallocated) chunk_bytes = std::max(chunk_bytes, settings_.preallocate_bytes);
  }
  if (!vmm_works(key.device) || !may_map(key.device)) return nullptr;
  std::unique_ptr<Chunk> chunk;
  if (make_chunk(key.device, chunk_bytes, &chunk) != hipSuccess) return nullptr;
  const LockGuard guard(g_blocks_lock);
  Device& device = device_of(key.device);
  device.preallocated = true;
  chunks_begin_.store(std::min(chunks_begin_.load(), chunk->base()));
  chunks_end_.store(std::max(chunks_end_.load(), chunk->base() + chunk->bytes()));
  tell_kept(chunk->base(), chunk->bytes());
  device.chunks.push_back(std::move(chunk));
  return place(*device.chunks.back(), key, decision);
}

Block* Pool::place(Chunk& chunk, const PoolKey& key, const Decision& decision) {
  const std::size_t bytes = pages(key.bytes);
  std::optional<std::size_t> offset = chunk.free_ranges.take(chunk.base(), bytes, alignment_of(bytes));
  // A chunk made for this block alone begins where the runtime put it.
  if (!offset && chunk.used_bytes == 0) offset = chunk.free_ranges.take(chunk.base(), bytes, kPageBytes);
  if (!offset) return nullptr;
  Block* block =
      enter(reinterpret_cast<void*>(chunk.base() + *offset), key, Returns::kToItsList, MemoryKind::kDevice, decision);
  if (block == nullptr) {
    chunk.free_ranges.give(*offset, bytes);
    return nullptr;
  }
  block->chunk = &chunk;
  chunk.used_bytes += bytes;
  ++chunk.busy_parts;
  add_under_lock(vmm_blocks_, 1);
  ++counters_.fresh;
  return block;
}

// --- free ---

hipError_t Pool::free(void* ptr, Free forward) {
  if (ptr == nullptr) return forward(ptr);
  const Block* const known = table_.find(ptr);
  if (known == nullptr) {
    // The runtime knows our chunks as one mapping each, and takes it apart whatever address of it is freed.
    if (between_parts(ptr)) return forward(never_address());
    tell_leaving(ptr, 0);
    return forward(ptr);
  }
  if (moment_passed()) look_at_clock();
  const bool is_hip_free = forward == next().hipFree;
  if (is_hip_free && free_at_once(ptr)) return hipSuccess;
  if (is_hip_free && !captures_open() && stopped_.exchange(false, std::memory_order_relaxed)) disable();
  const bool refused = captures_refuse_memory_calls();
  const Named named = start_free(ptr);
  if (named.block == nullptr) return forward(never_address());
  const bool inside = named.block->pointer() != ptr;
  if (inside && seeded_defect(Seeded::kInnerFreeKeeps)) {
    back_to_live(named);
    return hipSuccess;
  }
  const bool keepable =
      is_hip_free && !inside && named.pooled && !named.block->exported.load() && enabled() && !refused;
  // Whether an address inside an allocation frees it is the runtime's to say.
  const hipError_t error = named.block->backing == BlockBacking::kVmm ? free_vmm(named, inside, forward)
                           : keepable                                 ? free_kept(named, ptr, forward)
                                                                      : free_native(named, ptr, forward);
  if (error == hipSuccess) waited();
  return error;
}

/// The live block that this address is in is being freed from now on; no block where there is none.
Pool::Named Pool::start_free(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const block = table_.find(ptr);
  if (block == nullptr || block->state.load() != BlockState::kLive) return {};
  block->state.store(BlockState::kLeaving, std::memory_order_release);
  return named(block);
}

bool Pool::free_at_once(void* ptr) noexcept {
  Block* const block = table_.find(ptr);
  if (block == nullptr || moment_passed() || captures_open() || !enabled()) return false;
  const int device = block->device;
  if (!valid_device(device) || !work_.is_idle(device) || work_.execs_end(device)) return false;
  // HIP before 7 makes every call's result the last error; so does this one.
  if (current_device() < 0) return false;
  const std::size_t limit = limit_of(device);
  {
    // Blocks stay where they are: by now it may only be another allocation's.
    const LockGuard guard(g_blocks_lock);
    if (block->pointer() != ptr || block->state.load() != BlockState::kLive || block->device != device ||
        block->kind != MemoryKind::kDevice || block->list == nullptr || block->chunk != nullptr ||
        block->exported.load() || device_of(device).kept_bytes + pages(block->bytes()) > limit)
      return false;
    ++counters_.kept;
    to_kept(block, true);
  }
  if (!settings_.deferred_free) (void)free_retired_slots(device);
  return true;
}

/// The runtime frees it. It stays in the table until that has worked: if another thread is given the address before we
/// look again, its entry has replaced this one.
hipError_t Pool::free_native(Named named, void* ptr, Free forward) {
  StreamWork::Snapshot waited_for;
  if (named.kind == MemoryKind::kDevice && forward == next().hipFree)
    waited_for = work_.before_device_sync(named.device);
  tell_leaving(named.block->pointer(), named.block->bytes());
  const hipError_t error = forward(ptr);
  if (error != hipSuccess) {
    back_to_live(named);
    return error;
  }
  work_.idle(waited_for);
  if (!waited_for.empty()) (void)free_retired_slots(named.device);
  {
    const LockGuard guard(g_blocks_lock);
    if (same(named)) forget(named.block);
    ++counters_.real;
  }
  recycle_fences();
  return error;
}

void Pool::back_to_live(Named named) noexcept {
  const LockGuard guard(g_blocks_lock);
  if (same(named)) named.block->state.store(BlockState::kLive, std::memory_order_release);
}

/// hipFree of a classic block that is to be kept.
hipError_t Pool::free_kept(Named named, void* ptr, Free forward) {
  const int device = named.device;
  // HIP before 7 makes every call's result the last error; so does this one.
  if (current_device() < 0) return free_native(named, ptr, forward);
  BlockState state = BlockState::kKept;
  Fence* fence = nullptr;
  const bool faulty =
      seeded_defect(Seeded::kFreeDoesNotWait) || (seeded_defect(Seeded::kCapturedFreeDoesNotWait) && captures_open());
  const bool execs_end = work_.execs_end(device) && !settings_.deferred_free;
  if ((!work_.is_idle(device) || execs_end) && !faulty) {
    PrivateCalls private_calls;
    fence = execs_end ? nullptr : work_.make_fence(device);
    bool known = fence != nullptr;
    if (known && settings_.deferred_free) {
      if (!work_.passed(fence)) state = BlockState::kPending;
    } else if (known) {
      known = work_.wait(fence);
    } else if (!settings_.deferred_free) {
      known = wait_like_free(device);
    } else if (captures_open()) {
      state = BlockState::kPending;
      known = true;
    }
    if (fence != nullptr && (!known || state == BlockState::kKept)) {
      work_.release(fence);
      fence = nullptr;
    }
    if (!known) state = BlockState::kLive;
  }
  if (state == BlockState::kLive) return free_native(named, ptr, forward);
  keep(named, state, fence, device);
  evict_over_limit(device);
  if (!settings_.deferred_free) (void)free_retired_slots(device);
  return hipSuccess;
}

/// A free of a part of a chunk, at its base or inside: the runtime cannot do it, so its parts are done here: the error
/// it gives in a capture or since the device is in error, the wait, the reuse.
hipError_t Pool::free_vmm(Named named, bool inside, Free forward) {
  const int device = named.device;
  const bool capturing = captures_open();
  hipError_t error = hipSuccess;
  if (capturing || device_in_error_.load(std::memory_order_relaxed)) {
    error = forward(nullptr);
  } else {
    (void)current_device();
  }
  if (error == hipSuccess && (inside || forward != next().hipFree))
    error = judge_free(device, inside, make_page, forward);
  if (error != hipSuccess) {
    back_to_live(named);
    return error;
  }
  BlockState state = BlockState::kKept;
  Fence* fence = nullptr;
  const bool execs_end = work_.execs_end(device) && !settings_.deferred_free;
  if (capturing || execs_end || !work_.is_idle(device)) {
    PrivateCalls private_calls;
    fence = execs_end ? nullptr : work_.make_fence(device);
    bool waited = false;
    if (fence != nullptr) {
      waited = settings_.deferred_free ? work_.passed(fence) : work_.wait(fence);
    } else if (!settings_.deferred_free) {
      waited = wait_like_free(device);
    }
    if (waited && fence != nullptr) {
      work_.release(fence);
      fence = nullptr;
    }
    if (!waited) state = BlockState::kPending;
  }
  // What prevented the wait may be an error of earlier work, which the runtime's own free returns.
  if (state == BlockState::kPending && !settings_.deferred_free && (error = forward(nullptr)) != hipSuccess) {
    if (fence != nullptr) work_.release(fence);
    back_to_live(named);
    return error;
  }
  keep(named, state, fence, device);
  evict_over_limit(device);
  return hipSuccess;
}

/// Waits for all streams of the device where no fence can be made: hipFree itself does, whatever it frees.
bool Pool::wait_like_free(int device) noexcept {
  SavedDevice current(device);
  void* page = nullptr;
  if (!current.ok() || !PrivateCalls::worked([&] { return next().hipMalloc(&page, kPageBytes); })) return false;
  const StreamWork::Snapshot waited_for = work_.before_device_sync(device);
  if (!PrivateCalls::gave_back([&] { return next().hipFree(page); })) return false;
  work_.idle(waited_for);
  return true;
}

hipError_t Pool::free_async(void* ptr, hipStream_t stream) {
  if (ptr == nullptr || table_.find(ptr) == nullptr) {
    if (ptr != nullptr && between_parts(ptr)) return next().hipFreeAsync(never_address(), stream);
    note_memory_freed();
    return next().hipFreeAsync(ptr, stream);
  }
  if (moment_passed()) look_at_clock();
  const bool capturing = captures_open();
  const Named named = start_free(ptr);
  if (named.block == nullptr) return next().hipFreeAsync(never_address(), stream);
  const bool vmm = named.block->backing == BlockBacking::kVmm;
  const bool ordered = named.block->function == AllocationFunction::kMallocAsync;
  const bool keepable = !capturing && enabled() && named.pooled && !named.block->exported.load() && (vmm || ordered);
  if (vmm && refuses_captured_free(stream)) {
    back_to_live(named);
    return next().hipFreeAsync(never_address(), stream);
  }
  if (named.block->pointer() != ptr && !capturing && (vmm || keepable)) {
    const auto make = [&](void** page) {
      return ordered ? next().hipMallocAsync(page, kPageBytes, stream) : make_page(page);
    };
    const auto free_it = [&](void* address) {
      return address == nullptr ? next().hipFree(nullptr) : next().hipFreeAsync(address, stream);
    };
    if (const hipError_t error = judge_free(named.device, true, make, free_it); error != hipSuccess) {
      back_to_live(named);
      return error;
    }
  }
  int waits_for = work_.device_of_stream(stream);
  if (!valid_device(waits_for)) waits_for = named.device;
  // The runtime's own free is a piece of the null stream's work: it comes behind what blocking streams have, and they
  // come behind it.
  if ((keepable || vmm) && StreamWork::is_null(stream)) work_.enter_null_stream();
  Fence* fence = keepable ? work_.make_stream_fence(waits_for, stream) : nullptr;
  if (vmm && fence == nullptr && !capturing) {
    // What prevented it may be an error of earlier work, which the runtime's own free returns.
    if (const hipError_t error = next().hipFree(nullptr); error != hipSuccess) {
      back_to_live(named);
      return error;
    }
  }
  if (fence != nullptr || vmm) {
    keep(named, BlockState::kPending, fence, waits_for);
    // Giving memory back waits for the device, which this call does not (rule 16).
    excess_.fetch_or(std::uint64_t{1} << named.device, std::memory_order_relaxed);
    return hipSuccess;
  }
  tell_leaving(named.block->pointer(), named.block->bytes());
  const hipError_t error = next().hipFreeAsync(ptr, stream);
  if (error != hipSuccess) {
    back_to_live(named);
    return error;
  }
  {
    const LockGuard guard(g_blocks_lock);
    if (same(named)) forget(named.block);
    ++counters_.real;
  }
  recycle_fences();
  return error;
}

/// The block is freed. Without a fence a pending one gets it later (collect_pending), behind that device's work.
void Pool::keep(Named named, BlockState state, Fence* fence, int waits_for) noexcept {
  {
    const LockGuard guard(g_blocks_lock);
    if (same(named)) {
      Block* block = named.block;
      ++counters_.kept;
      if (block->chunk != nullptr && block->exported.load()) {
        // Another process may hold it: out of use for good, and its chunk stays.
        leave_list(block);
        add_under_lock(vmm_blocks_, ~std::size_t{0});
        tell_kept(block->address(), block->bytes());
        table_.remove(block);
      } else if (state == BlockState::kKept) {
        to_kept(block, true);
      } else {
        to_pending(block, std::exchange(fence, nullptr), waits_for);
      }
    }
  }
  if (fence != nullptr) work_.release(fence);
  if (!enabled_.load(std::memory_order_relaxed)) (void)release_all(named.device);
}

bool Pool::mark_exported(const void* ptr) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* block = table_.find(ptr);
  if (block == nullptr || !block->live()) return false;
  block->exported.store(true);
  return true;
}

bool Pool::mark_shared(const void* ptr, std::size_t bytes) noexcept {
  const LockGuard guard(g_blocks_lock);
  Block* const named = table_.find(ptr);
  std::vector<Block*> found;
  try {
    found.push_back(named);
    table_.overlaps(reinterpret_cast<std::uintptr_t>(ptr), std::max<std::size_t>(bytes, 1), &found);
  } catch (const std::bad_alloc&) {
  }
  for (Block* const block : found) {
    if (block == nullptr || !block->live()) continue;
    block->exported.store(true);
    block->shared.store(true);
  }
  return named != nullptr && named->live();
}

// --- giving back ---

std::size_t Pool::limit_of(int device) noexcept {
  std::size_t limit = device_of(device).limit_bytes.load(std::memory_order_relaxed);
  if (limit != kUnknown) return limit;
  limit = settings_.limit_bytes;
  if (limit == 0) {
    std::size_t total = 0;
    if (!PrivateCalls::worked([&] { return next().hipDeviceTotalMem(&total, device); }))
      return 0;  // asked again next time
    limit = total / 100 * settings_.limit_percent;
  }
  device_of(device).limit_bytes.store(limit, std::memory_order_relaxed);
  return limit;
}

void Pool::evict_over_limit(int device) noexcept {
  const std::size_t limit = limit_of(device);
  for (;;) {
    {
      const LockGuard guard(g_blocks_lock);
      if (device_of(device).kept_bytes <= limit) return;
      ++counters_.evicted;
    }
    if (give_back_oldest(device) == 0) return;
  }
}

void Pool::evict_excess() noexcept {
  if (captures_open()) return;
  for (std::uint64_t left = excess_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    const int device = std::countr_zero(left);
    if (!work_.is_idle(device)) continue;
    excess_.fetch_and(~(std::uint64_t{1} << device), std::memory_order_relaxed);
    (void)collect_pending(device);
    evict_over_limit(device);
    give_back_idle(device);
  }
}

/// The time is what frees from now on are stamped with. Where something was kept too long, it goes back as soon as the
/// device has nothing left to do.
[[gnu::cold, gnu::noinline]] void Pool::look_at_clock() noexcept {
  moment_.store(looks_always_ ? moment() - 1 : moment(), std::memory_order_relaxed);
  if (idle_ms_.load(std::memory_order_relaxed) == 0) return;
  now_ms_.store(settings_.clock_ms(), std::memory_order_relaxed);
  std::uint64_t idle = 0;
  {
    const LockGuard guard(g_blocks_lock);
    for (int device = 0; device < kMaxDevices; ++device) {
      const Block* const oldest = device_of(device).oldest;
      if (oldest != nullptr && is_old(oldest->freed_ms)) idle |= std::uint64_t{1} << device;
    }
  }
  if (idle != 0) excess_.fetch_or(idle, std::memory_order_relaxed);
  if (excess_.load(std::memory_order_relaxed) != 0) evict_excess();
}

void Pool::give_back_idle(int device) noexcept {
  if (idle_ms_.load(std::memory_order_relaxed) == 0) return;
  while (!captures_open() && give_back_oldest(device, true) != 0) {
    const LockGuard guard(g_blocks_lock);
    ++counters_.idle;
  }
}

/// The block that was freed first of those that may go now. A chunk goes by itself, once nothing of it is in use.
Block* Pool::next_to_go(const Device& device, bool only_idle) const noexcept {
  for (Block* block = device.oldest; block != nullptr; block = block->newer) {
    if (only_idle && !is_old(block->freed_ms)) break;
    const Chunk* const chunk = block->chunk;
    if (chunk == nullptr) return block;
    if (block->state.load() == BlockState::kPending || chunk->changing) continue;
    if (!only_idle || (chunk->busy_parts == 0 && is_old(chunk->freed_ms))) return block;
  }
  return nullptr;
}

static void trace_given_back(int device, std::size_t bytes, const char* why) noexcept {
  const std::uint64_t now = trace_begins();
  if (now != 0) trace({TraceKind::kGivenBack, 0, now, now, why, static_cast<std::uint64_t>(device), bytes});
}

/// Gives the block back that was freed first. Returns by how much kept memory shrank; 0: there is none to give.
std::size_t Pool::give_back_oldest(int device, bool only_idle) noexcept {
  void* classic = nullptr;
  Chunk* parked = nullptr;
  std::unique_ptr<Chunk> dead;
  std::size_t bytes = 0, classic_bytes = 0;
  {
    const LockGuard guard(g_blocks_lock);
    Device& state = device_of(device);
    Block* const block = next_to_go(state, only_idle);
    if (block == nullptr) return 0;
    const std::size_t before = state.kept_bytes;
    if (block->chunk == nullptr) {
      classic = block->pointer();
      classic_bytes = block->bytes();
      forget(block);
    } else if (block->chunk->busy_parts > 0) {
      forget(block);
    } else if (state.parked < kMaxParked) {
      // Its physical memory goes, its addresses stay.
      parked = block->chunk;
      parked->changing = true;
      ++state.parked;
      for_each_kept(parked, [&](Block* kept) {
        assume_held(g_blocks_lock);
        unlink(kept);
      });
    } else {
      const auto owner = std::find_if(state.chunks.begin(), state.chunks.end(),
                                      [its = block->chunk](const auto& chunk) { return chunk.get() == its; });
      dead = std::move(*owner);
      state.chunks.erase(owner);
      while (Block* part = any_kept(dead.get())) forget(part);
    }
    bytes = before - state.kept_bytes;
  }
  recycle_fences();
  if (classic != nullptr) tell_leaving(classic, classic_bytes);
  if (const Chunk* const chunk = parked != nullptr ? parked : dead.get())
    tell_leaving(reinterpret_cast<const void*>(chunk->base()), chunk->bytes());
  PrivateCalls private_calls;
  if (classic != nullptr) (void)PrivateCalls::gave_back([&] { return next().hipFree(classic); });
  if (parked != nullptr) {
    parked->unload();
    const LockGuard guard(g_blocks_lock);
    parked->changing = false;
  }
  trace_given_back(device, bytes, only_idle ? "nobody used it for pool.idle" : "over a limit, or room was needed");
  return bytes;
}

bool Pool::trim(int device, std::size_t bytes) noexcept {
  if (!valid_device(device)) return false;
  std::size_t given = 0;
  while (given < bytes) {
    const std::size_t more = give_back_oldest(device);
    if (more == 0) break;
    given += more;
  }
  return given > 0;
}

bool Pool::give_back(int device) noexcept {
  bool any = reclaim(device);
  any = free_retired_slots(device) || any;
  const int first = device < 0 ? 0 : device, last = device < 0 ? kMaxDevices - 1 : device;
  for (int each = first; each <= last; ++each) {
    any = free_too_small_memory(each) || any;
    settle_pending(each);
    while (give_back_oldest(each) > 0) {
      any = true;
      const LockGuard guard(g_blocks_lock);
      ++counters_.trimmed;
    }
  }
  return any;
}

[[gnu::cold]] void Pool::make_room() noexcept {
  clear_error(hipSuccess);
  static_cast<void>(give_back(calling_device()));
}

std::size_t Pool::hidden_free_bytes(int device) noexcept {
  if (!valid_device(device) || seeded_defect(Seeded::kKeptNotCounted)) return 0;
  std::size_t bytes = retired_slot_bytes(device) + too_small_bytes(device);
  const LockGuard guard(g_blocks_lock);
  const Device& state = device_of(device);
  bytes += state.classic_bytes;
  for (const auto& chunk : state.chunks)
    if (chunk->changing || chunk->resident()) bytes += chunk->bytes() - chunk->used_bytes;
  return bytes;
}

void* Pool::checked(const void* ptr, std::size_t bytes) const noexcept {
  void* same = const_cast<void*>(ptr);
  const Block* block = table_.find(ptr);
  if (block == nullptr) return bytes != 0 && between_parts(ptr) ? refused_operand(calling_device(), bytes) : same;
  if (!block->live()) return refused_operand(block->device, bytes);
  const auto offset = reinterpret_cast<std::uintptr_t>(ptr) - block->address();
  const bool leaves = block->backing == BlockBacking::kVmm && bytes > block->bytes() - offset;
  return leaves ? refused_operand(block->device, bytes) : same;
}

void* Pool::refused_value() noexcept { return never_mapped_address(); }

bool Pool::in_chunk(std::uintptr_t address) const noexcept {
  const LockGuard guard(g_blocks_lock);
  const auto in_any = [address](const std::vector<std::unique_ptr<Chunk>>& chunks) {
    return std::any_of(chunks.begin(), chunks.end(), [address](const std::unique_ptr<Chunk>& chunk) {
      return address >= chunk->base() && address - chunk->base() < chunk->bytes();
    });
  };
  return std::any_of(devices_.begin(), devices_.end(), [&](const Device& device) {
    assume_held(g_blocks_lock);
    return in_any(device.chunks) || in_any(device.dropped);
  });
}

void Pool::device_reset(int device) {
  if (!valid_device(device)) return;
  std::vector<std::unique_ptr<Chunk>> chunks;
  {
    const LockGuard guard(g_blocks_lock);
    std::vector<Block*> gone;
    table_.for_each([&](Block* block) {
      assume_held(g_blocks_lock);
      if (block->device == device) gone.push_back(block);
    });
    for (Block* block : gone) forget(block);
    Device& state = device_of(device);
    chunks.swap(state.chunks);
    // A device in error unmaps nothing until it has been reset.
    if (device_in_error_.load(std::memory_order_relaxed) && state.dropped.empty()) chunks.swap(state.dropped);
    state.parked = 0;
    state.preallocated = false;
    state.limit_bytes.store(kUnknown);
  }
  recycle_fences();
  if (!chunks.empty() && !work_.is_idle(device)) {
    PrivateCalls private_calls;
    (void)wait_like_free(device);
  }
  chunks.clear();
  (void)free_retired_slots(device);
  work_.device_reset(device);
  forget_vmm(device);
  forget_too_small_memory(device);
  device_in_error_.store(false, std::memory_order_relaxed);
}

void Pool::device_was_reset(int device) {
  if (!valid_device(device)) return;
  std::vector<std::unique_ptr<Chunk>> dropped;
  {
    const LockGuard guard(g_blocks_lock);
    dropped.swap(device_of(device).dropped);
  }
  dropped.clear();
}

// --- lists ---

void Pool::link_newest(Block* block) noexcept {
  Device& device = device_of(block->device);
  block->older = device.newest;
  block->newer = nullptr;
  (device.newest == nullptr ? device.oldest : device.newest->newer) = block;
  device.newest = block;
  block->linked = true;
  block->freed_ms = now_ms_.load(std::memory_order_relaxed);
  device.kept_bytes += pages(block->bytes());
  if (device.peak_bytes < device.kept_bytes) device.peak_bytes = device.kept_bytes;
  if (block->chunk == nullptr) device.classic_bytes += pages(block->bytes());
}

void Pool::unlink(Block* block) noexcept {
  if (!block->linked) return;
  Device& device = device_of(block->device);
  (block->older == nullptr ? device.oldest : block->older->newer) = block->newer;
  (block->newer == nullptr ? device.newest : block->newer->older) = block->older;
  block->older = block->newer = nullptr;
  block->linked = false;
  device.kept_bytes -= pages(block->bytes());
  if (block->chunk == nullptr) device.classic_bytes -= pages(block->bytes());
}

/// The program has freed so much of the chunk.
void Pool::take_back(Chunk& chunk, std::size_t bytes) noexcept {
  chunk.used_bytes -= bytes;
  chunk.freed_ms = now_ms_.load(std::memory_order_relaxed);
}

void Pool::add_kept(Block* block) noexcept {
  if (block->chunk != nullptr) --block->chunk->busy_parts;
  block->state.store(BlockState::kKept, std::memory_order_release);
  tell_kept(block->address(), block->bytes());
  block->list->kept.add(block->address(), block);
}

void Pool::to_kept(Block* block, bool linked) noexcept {
  if (block->chunk != nullptr) take_back(*block->chunk, pages(block->bytes()));
  add_under_lock(kept_blocks_, 1);
  add_kept(block);
  if (linked) link_newest(block);
  if (trace_on()) [[unlikely]]
    trace_kept(block->device, device_of(block->device).kept_bytes);
}

void Pool::from_kept(Block* block) noexcept {
  KeptBlocks& kept = block->list->kept;
  if (kept.lowest() == block)
    kept.remove_lowest();
  else
    kept.remove(block->address());
  add_under_lock(kept_blocks_, ~std::size_t{0});
  if (block->chunk != nullptr) ++block->chunk->busy_parts;
  unlink(block);
}

void Pool::to_pending(Block* block, Fence* fence, int waits_for) noexcept {
  if (block->chunk != nullptr) take_back(*block->chunk, pages(block->bytes()));
  add_under_lock(kept_blocks_, 1);
  block->fence = fence;
  block->waits_for = static_cast<std::uint8_t>(waits_for);
  block->state.store(BlockState::kPending, std::memory_order_release);
  block->list->pending.push_back(block);
  link_newest(block);
}

void Pool::from_pending(Block* block) noexcept {
  std::vector<Block*>& pending = block->list->pending;
  pending.erase(std::find(pending.begin(), pending.end(), block));
  drop_fence(block);
  add_under_lock(kept_blocks_, ~std::size_t{0});
  unlink(block);
}

void Pool::drop_fence(Block* block) noexcept {
  if (block->fence != nullptr && StreamWork::drop_reference(block->fence)) add_dropped(block->fence);
  block->fence = nullptr;
}

/// Taken out without the lock.
void Pool::add_dropped(Fence* fence) noexcept {
  fence->next = dropped_fences_.load();
  while (!dropped_fences_.compare_exchange_weak(fence->next, fence)) {
  }
}

void Pool::recycle_fences() noexcept {
  if (dropped_fences_.load(std::memory_order_relaxed) == nullptr) return;
  for (Fence* fence = dropped_fences_.exchange(nullptr); fence != nullptr;) {
    Fence* after = fence->next;
    work_.recycle(fence);
    fence = after;
  }
}

/// The key's list, or null.
FreeList* Pool::find_list(const PoolKey& key) noexcept {
  FreeList*& near = near_lists_[near_place(key)];
  if (near != nullptr && near->key == key) return near;
  const auto found = lists_.find(key);
  return found == lists_.end() ? nullptr : near = found->second.get();
}

void Pool::drop_list(FreeList* list) noexcept {
  FreeList*& near = near_lists_[near_place(list->key)];
  if (near == list) near = nullptr;
  lists_.erase(PoolKey(list->key));
}

/// The key's list with one member more, and room for it to come back without an allocation.
FreeList* Pool::join_list(const PoolKey& key) {
  std::unique_ptr<FreeList>& list = lists_[key];
  if (list == nullptr) {
    try {
      list = std::make_unique<FreeList>();
    } catch (...) {
      lists_.erase(key);
      throw;
    }
    list->key = key;
  }
  if (list->kept.capacity() <= list->members) list->kept.reserve(2 * list->members + 4);
  if (list->pending.capacity() <= list->members) list->pending.reserve(2 * list->members + 4);
  ++list->members;
  return list.get();
}

void Pool::leave_list(Block* block) noexcept {
  FreeList* list = std::exchange(block->list, nullptr);
  if (list != nullptr && --list->members == 0) drop_list(list);
}

/// Nothing here knows the block any more; a part of a chunk is free for others.
void Pool::forget(Block* block) noexcept {
  switch (block->state.load()) {
    case BlockState::kKept:
      from_kept(block);
      break;
    case BlockState::kPending:
      from_pending(block);
      break;
    default:
      if (block->chunk != nullptr) block->chunk->used_bytes -= pages(block->bytes());
  }
  leave_list(block);
  if (Chunk* chunk = block->chunk) {
    --chunk->busy_parts;
    chunk->free_ranges.give(block->address() - chunk->base(), pages(block->bytes()));
    tell_kept(block->address(), block->bytes());
    add_under_lock(vmm_blocks_, ~std::size_t{0});
  }
  table_.remove(block);
}

Block* Pool::any_kept(const Chunk* chunk) noexcept {
  Block* found = nullptr;
  for_each_kept(chunk, [&](Block* block) { found = block; });
  return found;
}

PoolCounters Pool::counters() const noexcept {
  const LockGuard guard(g_blocks_lock);
  return counters_;
}

std::vector<PoolMemory> Pool::memory() const {
  std::vector<PoolMemory> all;
  const LockGuard guard(g_blocks_lock);
  for (int device = 0; device < kMaxDevices; ++device) {
    const Device& state = devices_[static_cast<std::size_t>(device)];
    if (state.peak_bytes == 0 && state.chunks.empty()) continue;
    PoolMemory memory{device, 0, state.kept_bytes, state.peak_bytes, state.chunks.size()};
    for (const Block* block = state.oldest; block != nullptr; block = block->newer) ++memory.kept_blocks;
    all.push_back(memory);
  }
  return all;
}

bool Pool::is_valid() {
  const LockGuard guard(g_blocks_lock);
  if (!table_.is_valid()) return false;
  std::size_t kept = 0, members = 0, vmm = 0;
  std::array<std::size_t, kMaxDevices> kept_bytes{};
  bool good = true;
  table_.for_each([&](Block* block) {
    assume_held(g_blocks_lock);
    const BlockState state = block->state.load();
    const bool freed = state == BlockState::kKept || state == BlockState::kPending;
    members += block->list != nullptr;
    vmm += block->chunk != nullptr;
    kept += freed;
    if (block->linked) kept_bytes[static_cast<std::size_t>(block->device)] += pages(block->bytes());
    good = good && (!block->linked || freed) && (state == BlockState::kPending || block->fence == nullptr);
  });
  std::size_t listed = 0;
  for (const auto& [key, list] : lists_) {
    listed += list->members;
    good = good && list->members > 0 && list->kept.size() + list->pending.size() <= list->members;
    for (std::size_t i = 0; i < list->kept.size(); ++i)
      good = good && list->kept[i].address == list->kept[i].block->address() &&
             (i == 0 || list->kept[i - 1].address < list->kept[i].address);
  }
  for (int device = 0; device < kMaxDevices; ++device)
    good = good && device_of(device).kept_bytes == kept_bytes[static_cast<std::size_t>(device)];
  return good && kept == kept_blocks_.load() && members == listed && vmm == vmm_blocks_.load();
}

constinit std::atomic<Pool*> g_pool{nullptr};

Pool& make_pool() {
  static auto* const table = new BlockTable;
  static auto* const instance = new Pool(*table, stream_work());
  g_pool.store(instance, std::memory_order_release);
  return *instance;
}

}  // namespace graphpool
