#include "shim/verify/memory_look.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shim/base/back_off.h"
#include "shim/base/lock_rank.h"
#include "shim/memory/device_memory.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

struct Range {
  const MemoryLook* look;
  const void* thread;
  std::uintptr_t begin, end;
};

/// All that is looked at.
struct Looks {
  RankedMutex<LockRank::kSlots> lock;
  std::vector<Range> ranges GUARDED_BY(lock);
};
Looks& looks() noexcept {
  static Looks* const instance = new Looks;
  return *instance;
}
constinit std::atomic<int> g_looks{0};

}  // namespace

bool MemoryLook::begin(const std::vector<Buffer>& buffers) {
  end();
  {
    const LockGuard guard(looks().lock);
    looks().ranges.reserve(looks().ranges.size() + buffers.size());
    for (const Buffer& buffer : buffers) {
      const auto begin = reinterpret_cast<std::uintptr_t>(buffer.base);
      looks().ranges.push_back({this, &t_thread_token, begin, begin + buffer.bytes});
    }
    looking_ = true;
    g_looks.fetch_add(1);
  }
  // A free first says that it is under way, and only then asks whether there are looks.
  const bool all = std::all_of(buffers.begin(), buffers.end(), [](const Buffer& buffer) {
    const Block* const block = block_table().find(buffer.base);
    return block != nullptr && block->pointer() == buffer.base && block->bytes() == buffer.bytes &&
           block->state.load() == BlockState::kLive;
  });
  if (!all) end();
  return all;
}

void MemoryLook::end() noexcept {
  if (!looking_) return;
  const LockGuard guard(looks().lock);
  std::erase_if(looks().ranges, [this](const Range& range) { return range.look == this; });
  looking_ = false;
  g_looks.fetch_sub(1);
}

bool MemoryLook::wait_for_others(const void* address, std::size_t bytes, std::chrono::nanoseconds limit) noexcept {
  // Adds nothing, but is in order with begin(): a look that begins later sees what the caller has said of the memory.
  if (g_looks.fetch_add(0) == 0) return true;
  const auto from = reinterpret_cast<std::uintptr_t>(address);
  const auto looked_at = [&] {
    const LockGuard guard(looks().lock);
    return std::any_of(looks().ranges.begin(), looks().ranges.end(), [&](const Range& range) {
      return range.thread != &t_thread_token && range.begin < from + bytes && from < range.end;
    });
  };
  BackOff wait(limit);
  bool any = looked_at();
  while (any && wait.again()) any = looked_at();
  return !any;
}

}  // namespace graphpool
