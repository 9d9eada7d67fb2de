#include "shim/memory/block_frees.h"

#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/never_address.h"
#include "shim/memory/runtime_free.h"
#include "shim/memory/slot_set.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

/// What the runtime answers, because of captures, to a free in the order of this stream; hipSuccess: no capture is in
/// its way. A stream's capture that was invalidated may stay so after its end (probe spoilt_capture_is_over). From HIP
/// 6 on (6.4.3 and 7.2.4) a stream frees nothing while a blocking stream of its device captures, in whatever mode.
/// The runtime is asked whether that is so, by a free of nothing: its answer leaves the capture and the last error as
/// they are. *captured: the free would be part of the stream's own capture.
hipError_t refused_by_captures(hipStream_t stream, bool any_capture, bool* captured) noexcept {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  hipError_t asked = hipSuccess;
  if (!PrivateCalls::answered([&] { return asked = next().hipStreamIsCapturing(stream, &status); })) {
    // The null stream, beside a blocking stream that captures: 6.4.3 and 7.2.4 crash where they are to free there.
    return asked == hipErrorStreamCaptureImplicit && runtime_version() >= kCapturesFrees
               ? hipErrorStreamCaptureUnsupported
               : hipSuccess;
  }
  const auto free_nothing = [stream] { return next().hipFreeAsync(never_allocated_address(), stream); };
  const bool captures = status == hipStreamCaptureStatusActive;
  if (status == hipStreamCaptureStatusInvalidated || (captures && runtime_version() < kCapturesFrees))
    return free_nothing();
  *captured = captures;
  if (captures || !any_capture) return hipSuccess;
  hipError_t answer = hipSuccess;
  static_cast<void>(PrivateCalls::worked([&] { return answer = free_nothing(); }));
  return answer == hipErrorStreamCaptureUnsupported ? answer : hipSuccess;
}

/// Frees retired slots behind a free that has waited. Not while a capture is open: runtimes unmap by commands on the
/// null stream.
void free_slots(int device) noexcept {
  if (!captures_open()) (void)free_retired_slots(device);
}

}  // namespace

hipError_t BlockFrees::free(void* ptr, Forward forward) {
  if (ptr == nullptr) return forward(ptr);
  if (table_.find(ptr) == nullptr) {
    // To the runtime each of our chunks is one mapping, and a free of any address in it would take it apart.
    if (chunks_.between_parts(ptr)) return forward(never_allocated_address());
    returns_.tell_leaving(ptr, 0);
    return forward(ptr);
  }
  if (kept_.clock().moment_passed()) room_.look_at_clock();
  const bool is_hip_free = forward == next().hipFree;
  if (is_hip_free && free_at_once(ptr)) return hipSuccess;
  if (is_hip_free && !captures_open() && kept_.keeping().end_stop()) room_.release_all();
  const bool refused = captures_refuse_memory_calls();
  const NamedBlock named = blocks_.start_free(ptr);
  if (named.block == nullptr) return forward(never_allocated_address());
  const bool inside = named.block->pointer() != ptr;
  if (inside && seeded_defect(Seeded::kInnerFreeKeeps)) {
    Blocks::back_to_live(named);
    return hipSuccess;
  }
  const bool keepable =
      is_hip_free && !inside && named.pooled && !named.block->exported.load() && kept_.keeping().on() && !refused;
  // The runtime decides whether an address inside an allocation frees it.
  const hipError_t error = named.block->backing == BlockBacking::kVmm ? free_part(named, inside, forward)
                           : keepable                                 ? free_kept(named, ptr, forward)
                                                                      : free_native(named, ptr, forward);
  if (error == hipSuccess) room_.waited();
  return error;
}

bool BlockFrees::free_at_once(void* ptr) noexcept {
  Block* const block = table_.find(ptr);
  if (block == nullptr || kept_.clock().moment_passed() || captures_open() || !kept_.keeping().on()) return false;
  const int device = block->device;
  if (!valid_device(device) || !work_.counts.is_idle(device) || work_.counts.execs_end(device)) return false;
  // HIP before 7 makes every call's result the last error; so does this one.
  if (current_device() < 0) return false;
  const std::size_t limit = kept_.limits().limit(device);
  {
    // A Block is never unmapped: at worst it is another allocation's by now.
    const LockGuard guard(g_blocks_lock);
    if (block->pointer() != ptr || block->state.load() != BlockState::kLive || block->device != device ||
        block->kind != MemoryKind::kDevice || block->list == nullptr || block->chunk != nullptr ||
        block->exported.load() || kept_.order().kept_bytes(device) + block->page_bytes() > limit)
      return false;
    ++blocks_.counters().kept;
    kept_.add_kept(block);
  }
  if (!deferred_) (void)free_retired_slots(device);
  return true;
}

/// Lets the runtime free the block. It stays in the table until that has worked: if another thread is given the address
/// before we look again, its entry has replaced this one.
hipError_t BlockFrees::free_by_runtime(const NamedBlock& named, FunctionRef<hipError_t()> forward) {
  returns_.tell_leaving(named.block->pointer(), named.block->bytes());
  const hipError_t error = forward();
  if (error == hipSuccess)
    blocks_.freed_by_runtime(named);
  else
    Blocks::back_to_live(named);
  return error;
}

hipError_t BlockFrees::free_native(const NamedBlock& named, void* ptr, Forward forward) {
  WorkCounts::Snapshot waited_for;
  if (named.kind == MemoryKind::kDevice && forward == next().hipFree)
    waited_for = work_.counts.before_device_sync(named.device);
  const hipError_t error = free_by_runtime(named, [&] { return forward(ptr); });
  if (error != hipSuccess) return error;
  work_.counts.idle(waited_for);
  if (!waited_for.empty()) free_slots(named.device);
  return error;
}

/// Makes a hipFree of a classic block that is to be kept.
hipError_t BlockFrees::free_kept(const NamedBlock& named, void* ptr, Forward forward) {
  // HIP before 7 makes every call's result the last error; so does this one.
  if (current_device() < 0) return free_native(named, ptr, forward);
  const Waited waited = wait_for_classic(named.device);
  if (waited.done == Done::kUnknown) return free_native(named, ptr, forward);
  keep(named, waited, named.device);
  room_.keep_to_limit(named.device);
  if (!deferred_) free_slots(named.device);
  return hipSuccess;
}

/// Waits for the device as hipFree does. With deferred frees it only asks whether the device is done.
BlockFrees::Waited BlockFrees::wait_for_classic(int device) noexcept {
  const bool faulty =
      seeded_defect(Seeded::kFreeDoesNotWait) || (seeded_defect(Seeded::kCapturedFreeDoesNotWait) && captures_open());
  const bool execs_end = work_.counts.execs_end(device) && !deferred_;
  if ((work_.counts.is_idle(device) && !execs_end) || faulty) return {Done::kYes};
  const PrivateCalls private_calls;
  Fence* const fence = execs_end ? nullptr : work_.fences.make(device);
  if (fence == nullptr) {
    if (deferred_) return {captures_open() ? Done::kLater : Done::kUnknown};
    return {wait_like_free(work_, device) ? Done::kYes : Done::kUnknown};
  }
  if (deferred_ && !work_.fences.passed(fence)) return {Done::kLater, fence};
  const bool waited = deferred_ || work_.fences.wait(fence);
  work_.fences.release(fence);
  return {waited ? Done::kYes : Done::kUnknown};
}

/// Frees a part of a chunk, which the runtime cannot do, neither by its base nor by an address inside. So this does
/// what the runtime's free does: it gives the error because of a capture or a device in error, waits, and frees.
hipError_t BlockFrees::free_part(const NamedBlock& named, bool inside, Forward forward) {
  const bool capturing = captures_open();
  hipError_t error = hipSuccess;
  if (capturing || kept_.keeping().device_in_error()) {
    error = forward(nullptr);
  } else {
    (void)current_device();
  }
  if (error == hipSuccess && (inside || forward != next().hipFree))
    error = judge_free(
        named.device, inside, [](void** page) { return make_page(page); },
        [forward](void* address) { return forward(address); });
  if (error != hipSuccess) {
    Blocks::back_to_live(named);
    return error;
  }
  const Waited waited = wait_for_part(named.device, capturing);
  // An error of earlier work may have prevented the wait: the runtime's own free returns that.
  if (waited.done == Done::kLater && !deferred_ && (error = forward(nullptr)) != hipSuccess) {
    if (waited.fence != nullptr) work_.fences.release(waited.fence);
    Blocks::back_to_live(named);
    return error;
  }
  keep(named, waited, named.device);
  room_.keep_to_limit(named.device);
  return hipSuccess;
}

/// Waits as wait_for_classic() does, for a part of a chunk. The runtime cannot free a part: so the answer is never
/// kUnknown.
BlockFrees::Waited BlockFrees::wait_for_part(int device, bool capturing) noexcept {
  const bool execs_end = work_.counts.execs_end(device) && !deferred_;
  if (!capturing && !execs_end && work_.counts.is_idle(device)) return {Done::kYes};
  const PrivateCalls private_calls;
  Fence* const fence = execs_end ? nullptr : work_.fences.make(device);
  if (fence == nullptr) return {!deferred_ && wait_like_free(work_, device) ? Done::kYes : Done::kLater};
  if (!(deferred_ ? work_.fences.passed(fence) : work_.fences.wait(fence))) return {Done::kLater, fence};
  work_.fences.release(fence);
  return {Done::kYes};
}

hipError_t BlockFrees::judge_in_order(const NamedBlock& named, hipStream_t stream) noexcept {
  const bool ordered = named.block->function == AllocationFunction::kMallocAsync;
  const auto make = [&](void** page) {
    return ordered ? next().hipMallocAsync(page, kPageBytes, stream) : make_page(page);
  };
  const auto free_it = [&](void* address) {
    return address == nullptr ? next().hipFree(nullptr) : next().hipFreeAsync(address, stream);
  };
  return judge_free(named.device, true, make, free_it);
}

hipError_t BlockFrees::free_async(void* ptr, hipStream_t stream) {
  if (ptr == nullptr || table_.find(ptr) == nullptr) {
    if (ptr != nullptr && chunks_.between_parts(ptr)) return next().hipFreeAsync(never_allocated_address(), stream);
    note_memory_freed();
    return next().hipFreeAsync(ptr, stream);
  }
  if (kept_.clock().moment_passed()) room_.look_at_clock();
  const bool capturing = captures_open();
  const NamedBlock named = blocks_.start_free(ptr);
  if (named.block == nullptr) return next().hipFreeAsync(never_allocated_address(), stream);
  const bool part = named.block->backing == BlockBacking::kVmm;
  const bool ordered = named.block->function == AllocationFunction::kMallocAsync;
  const bool left_captures = streams_may_still_capture();
  if (part || (ordered && left_captures)) {
    bool captured = false;
    const hipError_t error = refused_by_captures(stream, capturing || left_captures, &captured);
    // A launch of the captured graph may use the part before it frees it: nobody else may ever get it.
    if (error != hipSuccess || (part && captured)) {
      Blocks::back_to_live(named);
      return error;
    }
  }
  const bool keepable =
      !capturing && kept_.keeping().on() && named.pooled && !named.block->exported.load() && (part || ordered);
  const bool inside = named.block->pointer() != ptr;
  if (inside && !capturing && (part || keepable)) {
    if (const hipError_t error = judge_in_order(named, stream); error != hipSuccess) {
      Blocks::back_to_live(named);
      return error;
    }
  }
  if (part || keepable)
    if (const auto end = keep_in_order(named, stream, keepable, capturing)) return *end;
  return free_by_runtime(named, [&] { return next().hipFreeAsync(ptr, stream); });
}

/// Keeps the block as pending until the device has passed what the stream has now. Returns how the free ends;
/// std::nullopt: the runtime is to free the block.
std::optional<hipError_t> BlockFrees::keep_in_order(const NamedBlock& named, hipStream_t stream, bool keepable,
                                                    bool capturing) {
  const bool part = named.block->backing == BlockBacking::kVmm;
  int waits_for = work_.counts.device_of_stream(stream);
  if (!valid_device(waits_for)) waits_for = named.device;
  // The runtime's own free is work of the null stream: it comes behind what blocking streams have now, and their later
  // work comes behind it.
  if (is_null_stream(stream)) work_.fences.enter_null_stream();
  Fence* const fence = keepable ? work_.fences.make_behind(waits_for, stream) : nullptr;
  if (fence == nullptr && !part) return std::nullopt;
  if (fence == nullptr && !capturing) {
    // An error of earlier work may have prevented the fence: the runtime's own free returns that.
    if (const hipError_t error = next().hipFree(nullptr); error != hipSuccess) {
      Blocks::back_to_live(named);
      return error;
    }
  }
  keep(named, {Done::kLater, fence}, waits_for);
  // To give memory back waits for the device, which this call must not do (rule 16).
  room_.keep_to_limit_later(named.device);
  return hipSuccess;
}

/// Makes the freed block kept or pending; an exported part of a chunk is abandoned. A pending block without a fence
/// gets one later (PendingFrees), behind the work of the device `waits_for`.
void BlockFrees::keep(const NamedBlock& named, Waited waited, int waits_for) noexcept {
  Fence* fence = waited.fence;
  {
    const LockGuard guard(g_blocks_lock);
    if (Blocks::is_same(named)) {
      Block* const block = named.block;
      ++blocks_.counters().kept;
      if (block->chunk != nullptr && block->exported.load()) {
        blocks_.abandon(block);
      } else if (waited.done == Done::kYes) {
        kept_.add_kept(block);
      } else {
        kept_.add_pending(block, std::exchange(fence, nullptr), waits_for);
      }
    }
  }
  if (fence != nullptr) work_.fences.release(fence);
}

}  // namespace graphpool
