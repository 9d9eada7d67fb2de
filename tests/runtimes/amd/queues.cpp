#include "queues.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "agents.h"
#include "checked.h"
#include "faults.h"
#include "kernels.h"
#include "memory.h"
#include "settings.h"
#include "signals.h"

namespace hsa_cpu {
namespace {

constexpr std::size_t kPacketBytes = 64;
// The high words of flat addresses of a workgroup's and a lane's own memory.
constexpr std::uint32_t kGroupAperture = 0x10000, kPrivateAperture = 0x20000;

using ErrorCallback = void (*)(hsa_status_t, hsa_queue_t*, void*);

class Queue {
 public:
  Queue(const Agent& agent, std::uint32_t size, hsa_queue_type32_t type, ErrorCallback callback, void* data)
      : agent_(agent), size_(size), callback_(callback), data_(data) {
    ring_ = static_cast<char*>(std::aligned_alloc(kPage, round_up(size * kPacketBytes, kPage)));
    std::memset(ring_, 0, size * kPacketBytes);
    // Several threads reserve slots: one that is reserved and not yet written must not look like a packet.
    for (std::uint32_t i = 0; i < size; ++i) *header_of(i) = HSA_PACKET_TYPE_INVALID;
    shared_ = static_cast<amd_queue_t*>(std::aligned_alloc(kPage, round_up(sizeof(amd_queue_t), kPage)));
    std::memset(static_cast<void*>(shared_), 0, sizeof *shared_);
    ledger_add(shared_, sizeof *shared_, MemoryIs::Runtime, -1, kAllAgents, kAllAgents);
    doorbell_.kind = AMD_SIGNAL_KIND_DOORBELL;
    doorbell_.queue_ptr = shared_;
    static std::atomic<std::uint64_t> queues{0};
    number_ = queues.fetch_add(1);
    hsa_queue_t& told = shared_->hsa_queue;
    told.type = type;
    told.features = HSA_QUEUE_FEATURE_KERNEL_DISPATCH;
    told.base_address = ring_;
    told.doorbell_signal.handle = reinterpret_cast<std::uint64_t>(&doorbell_);
    told.size = size;
    told.id = number_;
    shared_->group_segment_aperture_base_hi = kGroupAperture;
    shared_->private_segment_aperture_base_hi = kPrivateAperture;
    doorbell_.reserved2 = reinterpret_cast<std::uint64_t>(this);
    thread_ = std::thread([this] { serve(); });
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() {
    stop_ = true;
    ring();
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();
    else
      thread_.join();
    std::free(ring_);
    ledger_remove(shared_);
    std::free(shared_);
  }

  static Queue& of(const hsa_queue_t* queue) {
    return *reinterpret_cast<Queue*>(signal_of(queue->doorbell_signal)->reserved2);
  }
  hsa_queue_t* shared() { return &shared_->hsa_queue; }

  void ring() {
    const std::scoped_lock guard(mutex_);
    rung_ = true;
    more_.notify_one();
  }

 private:
  std::uint16_t* header_of(std::uint64_t index) {
    return reinterpret_cast<std::uint16_t*>(ring_ + (index & (size_ - 1)) * kPacketBytes);
  }

  void serve() {
    for (std::uint64_t index = 0; !stop_;) {
      std::uint16_t* const header = header_of(index);
      const std::uint16_t value = __atomic_load_n(header, __ATOMIC_ACQUIRE);
      const int type = (value >> HSA_PACKET_HEADER_TYPE) & ((1 << HSA_PACKET_HEADER_WIDTH_TYPE) - 1);
      if (index < __atomic_load_n(&shared_->write_dispatch_id, __ATOMIC_ACQUIRE) && type != HSA_PACKET_TYPE_INVALID) {
        process(header, type);
        ++index;
        continue;
      }
      std::unique_lock lock(mutex_);
      // A header may be written after the doorbell was rung for a later packet.
      more_.wait_for(lock, kLookAgain * 20, [this] { return rung_; });
      rung_ = false;
    }
  }

  void process(std::uint16_t* header, int type) {
    alignas(kPacketBytes) char packet[kPacketBytes];
    std::memcpy(packet, header, kPacketBytes);
    const std::uint64_t start = now_ns();
    const hsa_signal_t done = execute(packet, type);
    delay();
    // The slot is free before the completion is told: who waits for it may fill the queue again.
    __atomic_store_n(header, static_cast<std::uint16_t>(HSA_PACKET_TYPE_INVALID), __ATOMIC_RELEASE);
    __atomic_fetch_add(&shared_->read_dispatch_id, 1, __ATOMIC_SEQ_CST);
    if (!stop_) complete(done, start);
  }

  /// Does what the packet says. Returns its completion signal.
  hsa_signal_t execute(const char* packet, int type) {
    switch (type) {
      case HSA_PACKET_TYPE_KERNEL_DISPATCH: {
        const auto& dispatch = *reinterpret_cast<const hsa_kernel_dispatch_packet_t*>(packet);
        this->dispatch(dispatch);
        return dispatch.completion_signal;
      }
      case HSA_PACKET_TYPE_BARRIER_AND: {
        const auto& barrier = *reinterpret_cast<const hsa_barrier_and_packet_t*>(packet);
        if (journal_kept()) journal("barrier device=%d queue=%lu", agent_.index, number_);
        for (const hsa_signal_t signal : barrier.dep_signal) wait_for(signal, HSA_SIGNAL_CONDITION_LT, 1, -1);
        return barrier.completion_signal;
      }
      case HSA_PACKET_TYPE_BARRIER_OR: {
        const auto& barrier = *reinterpret_cast<const hsa_barrier_or_packet_t*>(packet);
        wait_for_one(barrier);
        return barrier.completion_signal;
      }
      case HSA_PACKET_TYPE_VENDOR_SPECIFIC: {
        const auto& barrier = *reinterpret_cast<const hsa_amd_barrier_value_packet_t*>(packet);
        if (barrier.header.AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE)
          wait_for(barrier.signal, static_cast<hsa_signal_condition_t>(barrier.cond), barrier.value, barrier.mask);
        else
          complain("a packet of AMD's format %d does nothing", barrier.header.AmdFormat);
        return barrier.completion_signal;
      }
      default:
        complain("a packet of type %d does nothing", type);
        return {0};
    }
  }

  void dispatch(const hsa_kernel_dispatch_packet_t& packet) {
    const auto kernel = find_kernel(packet.kernel_object);
    if (kernel == nullptr) {
      complain("a kernel is dispatched that is not loaded: %#lx", packet.kernel_object);
      return fail(HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
    }
    if (journal_kept()) {
      journal("dispatch device=%d queue=%lu kernel=%s grid=%u,%u,%u block=%u,%u,%u", agent_.index, number_,
              kernel->name.c_str(), packet.grid_size_x, packet.grid_size_y, packet.grid_size_z, packet.workgroup_size_x,
              packet.workgroup_size_y, packet.workgroup_size_z);
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    std::uint64_t address = 0;
    if (!run_as_device([&] { status = run_dispatch(packet, *kernel, shared_, stop_); }, address)) {
      tell_fault(agent_, address, ("kernel " + kernel->name).c_str());
      status = kMemoryFault;
    }
    if (status != HSA_STATUS_SUCCESS) fail(status);
  }

  /// The queue is broken: the program is told, and nothing is run any more, as on a device.
  void fail(hsa_status_t status) {
    // Of a memory fault the program was told by an event of the system (faults.h); the queue reports no error of its
    // own.
    if (callback_ != nullptr && status != kMemoryFault) callback_(status, shared(), data_);
    stop_ = true;
  }

  void wait_for(hsa_signal_t signal, hsa_signal_condition_t condition, std::int64_t compare, std::int64_t mask) {
    if (signal.handle == 0) return;
    constexpr std::uint64_t kAtOnceNs = 2'000'000;  // then whether the queue is stopped is looked at
    while (!stop_ && !holds(condition, wait(signal_of(signal), condition, compare, kAtOnceNs, mask) & mask, compare)) {
    }
  }

  void wait_for_one(const hsa_barrier_or_packet_t& barrier) {
    const auto begin = std::begin(barrier.dep_signal), end = std::end(barrier.dep_signal);
    if (std::all_of(begin, end, [](hsa_signal_t signal) { return signal.handle == 0; })) return;
    const auto met = [](hsa_signal_t signal) { return signal.handle != 0 && load(signal_of(signal)) <= 0; };
    for (std::uint32_t seen = changes(); !stop_ && std::none_of(begin, end, met); seen = changes())
      wait_for_change(seen);
  }

  const Agent& agent_;
  std::uint32_t size_;
  ErrorCallback callback_;
  void* data_;
  std::uint64_t number_ = 0;
  char* ring_ = nullptr;
  amd_queue_t* shared_ = nullptr;
  alignas(64) amd_signal_t doorbell_{};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable more_;
  bool rung_ = false;
  std::thread thread_;
};

amd_queue_t* shared_of(const hsa_queue_t* queue) {
  return reinterpret_cast<amd_queue_t*>(const_cast<hsa_queue_t*>(queue));
}

}  // namespace

void ring_doorbell(amd_signal_t* doorbell) { reinterpret_cast<Queue*>(doorbell->reserved2)->ring(); }

}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_queue_create(hsa_agent_t agent, std::uint32_t size, hsa_queue_type32_t type,
                                          ErrorCallback callback, void* data, std::uint32_t, std::uint32_t,
                                          hsa_queue_t** out) {
  if (size == 0 || (size & (size - 1)) != 0 || out == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *out = (new Queue(*agent_of(agent), size, type, callback, data))->shared();
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_queue_destroy(hsa_queue_t* queue) {
  delete &Queue::of(queue);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API std::uint64_t hsa_queue_load_read_index_relaxed(const hsa_queue_t* queue) {
  return __atomic_load_n(&shared_of(queue)->read_dispatch_id, __ATOMIC_RELAXED);
}
HSA_CPU_API std::uint64_t hsa_queue_load_read_index_scacquire(const hsa_queue_t* queue) {
  return __atomic_load_n(&shared_of(queue)->read_dispatch_id, __ATOMIC_ACQUIRE);
}
HSA_CPU_API std::uint64_t hsa_queue_load_write_index_relaxed(const hsa_queue_t* queue) {
  return __atomic_load_n(&shared_of(queue)->write_dispatch_id, __ATOMIC_RELAXED);
}
HSA_CPU_API std::uint64_t hsa_queue_add_write_index_screlease(const hsa_queue_t* queue, std::uint64_t count) {
  return __atomic_fetch_add(&shared_of(queue)->write_dispatch_id, count, __ATOMIC_ACQ_REL);
}

// Nothing here depends on these.
HSA_CPU_API hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t*, std::uint32_t, const std::uint32_t*) {
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t*, hsa_amd_queue_priority_t) {
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t*, int) { return HSA_STATUS_SUCCESS; }
HSA_CPU_API hsa_status_t hsa_amd_profiling_async_copy_enable(bool) { return HSA_STATUS_SUCCESS; }

HSA_CPU_API hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t, hsa_signal_t signal,
                                                             hsa_amd_profiling_dispatch_time_t* out) {
  *out = {signal_of(signal)->start_ts, signal_of(signal)->end_ts};
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal,
                                                               hsa_amd_profiling_async_copy_time_t* out) {
  *out = {signal_of(signal)->start_ts, signal_of(signal)->end_ts};
  return HSA_STATUS_SUCCESS;
}
