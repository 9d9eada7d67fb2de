// copies.cpp: the copy engine: one thread makes the copies whose signals have come, in the order they were asked for.
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "agents.h"
#include "checked.h"
#include "settings.h"
#include "signals.h"

namespace hsa_cpu {
namespace {

struct Copy {
  std::function<void()> run;
  std::vector<hsa_signal_t> after;
  hsa_signal_t done;

  bool ready() const {
    for (const hsa_signal_t signal : after)
      if (signal.handle != 0 && load(signal_of(signal)) > 0) return false;
    return true;
  }
};

class CopyEngine {
 public:
  void add(Copy copy) {
    const std::scoped_lock guard(mutex_);
    if (!started_) {
      started_ = true;
      std::thread([this] { serve(); }).detach();
    }
    waiting_.push_back(std::move(copy));
    more_.notify_one();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      more_.wait(lock, [this] { return !waiting_.empty(); });
      const std::uint32_t seen = changes();
      auto found = waiting_.begin();
      while (found != waiting_.end() && !found->ready()) ++found;
      if (found == waiting_.end()) {
        lock.unlock();
        wait_for_change(seen);
        lock.lock();
        continue;
      }
      const Copy copy = std::move(*found);
      waiting_.erase(found);
      lock.unlock();
      const std::uint64_t start = now_ns();
      copy.run();
      delay();
      complete(copy.done, start);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::list<Copy> waiting_;
  bool started_ = false;
};

/// Says, in checked mode, whether a copy may touch both of its ends, and reports it where not. It may if one of the
/// devices that it names may touch both. A copy that names no device is made by the host.
class CopyGuard {
 public:
  CopyGuard(const char* function, hsa_agent_t to, hsa_agent_t from) : function_(function) {
    if (!checked()) return;
    for (const hsa_agent_t handle : {to, from})
      if (const Agent& agent = *agent_of(handle); agent.gpu) nodes_.push_back(agent.node);
    if (nodes_.empty()) nodes_.push_back(0);
    asked_ = call_stack();
  }
  bool may(const void* to, const void* from, std::size_t bytes) const {
    if (nodes_.empty() || bytes == 0) return true;
    for (const std::uint32_t node : nodes_)
      if (may_touch(to, bytes, node, true) && may_touch(from, bytes, node, false)) return true;
    for (const bool writes : {true, false}) {
      const void* const end = writes ? to : from;
      if (may_touch(end, bytes, nodes_.front(), writes)) continue;
      tell_finding({"copy", function_, ""}, {reinterpret_cast<std::uint64_t>(end), bytes, nodes_.front(), writes},
                   &asked_);
    }
    return false;
  }

 private:
  const char* function_;
  std::vector<std::uint32_t> nodes_;
  CallStack asked_;
};

void enqueue(std::function<void()> run, std::uint32_t count, const hsa_signal_t* after, hsa_signal_t done) {
  static auto* const engine = new CopyEngine;
  engine->add({std::move(run), std::vector<hsa_signal_t>(after, after + count), done});
}

}  // namespace
}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_amd_memory_async_copy(void* to, hsa_agent_t to_agent, const void* from,
                                                   hsa_agent_t from_agent, std::size_t bytes, std::uint32_t count,
                                                   const hsa_signal_t* after, hsa_signal_t done) {
  if (journal_kept()) {
    journal("copy bytes=%zu from=%u to=%u", bytes, agent_of(from_agent)->node, agent_of(to_agent)->node);
  }
  const auto run = [=, guard = CopyGuard("hsa_amd_memory_async_copy", to_agent, from_agent)] {
    if (guard.may(to, from, bytes)) std::memmove(to, from, bytes);
  };
  enqueue(run, count, after, done);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_memory_async_copy_on_engine(void* to, hsa_agent_t to_agent, const void* from,
                                                             hsa_agent_t from_agent, std::size_t bytes,
                                                             std::uint32_t count, const hsa_signal_t* after,
                                                             hsa_signal_t done, int, bool) {
  return hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, count, after, done);
}

HSA_CPU_API hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t* to, const hsa_dim3_t* to_offset,
                                                        const hsa_pitched_ptr_t* from, const hsa_dim3_t* from_offset,
                                                        const hsa_dim3_t* range, hsa_agent_t agent,
                                                        hsa_amd_copy_direction_t, std::uint32_t count,
                                                        const hsa_signal_t* after, hsa_signal_t done) {
  if (journal_kept()) {
    journal("copy_rect bytes=%u rows=%u slices=%u device=%d", range->x, range->y, range->z, agent_of(agent)->index);
  }
  const auto row = [](const hsa_pitched_ptr_t& memory, const hsa_dim3_t& offset, std::uint32_t y, std::uint32_t z) {
    return static_cast<char*>(memory.base) + (offset.z + z) * memory.slice + (offset.y + y) * memory.pitch + offset.x;
  };
  const auto run = [row, to = *to, at = *to_offset, from = *from, from_at = *from_offset, range = *range,
                    guard = CopyGuard("hsa_amd_memory_async_copy_rect", agent, agent)] {
    for (std::uint32_t z = 0; z < range.z; ++z)
      for (std::uint32_t y = 0; y < range.y; ++y)
        if (guard.may(row(to, at, y, z), row(from, from_at, y, z), range.x))
          std::memmove(row(to, at, y, z), row(from, from_at, y, z), range.x);
  };
  enqueue(run, count, after, done);
  return HSA_STATUS_SUCCESS;
}

// Two engines, the first preferred.
HSA_CPU_API hsa_status_t hsa_amd_memory_copy_engine_status(hsa_agent_t, hsa_agent_t, std::uint32_t* mask) {
  *mask = 3;
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_memory_get_preferred_copy_engine(hsa_agent_t, hsa_agent_t, std::uint32_t* mask) {
  *mask = 1;
  return HSA_STATUS_SUCCESS;
}
