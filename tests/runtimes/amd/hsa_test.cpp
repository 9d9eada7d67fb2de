// Tests of HSA on the CPU, by its C functions, as clr uses them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "abi.h"

// Newer than the header.
extern "C" {
hsa_status_t hsa_amd_vmem_address_reserve(void** out, std::size_t bytes, std::uint64_t hint, std::uint64_t flags);
hsa_status_t hsa_amd_vmem_address_free(void* base, std::size_t bytes);
hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, std::size_t bytes, int type, std::uint64_t flags,
                                        hsa_cpu::VmemHandle* out);
hsa_status_t hsa_amd_vmem_handle_release(hsa_cpu::VmemHandle handle);
hsa_status_t hsa_amd_vmem_map(void* base, std::size_t bytes, std::size_t offset, hsa_cpu::VmemHandle handle,
                              std::uint64_t flags);
hsa_status_t hsa_amd_vmem_unmap(void* base, std::size_t bytes);
hsa_status_t hsa_amd_vmem_set_access(void* base, std::size_t bytes, const hsa_cpu::AccessDescription* wanted,
                                     std::size_t count);
hsa_status_t hsa_amd_vmem_get_access(void* base, hsa_access_permission_t* out, hsa_agent_t agent);
hsa_status_t hsa_amd_vmem_export_shareable_handle(int* file, hsa_cpu::VmemHandle handle, std::uint64_t flags);
hsa_status_t hsa_amd_vmem_import_shareable_handle(int file, hsa_cpu::VmemHandle* out);
hsa_status_t hsa_amd_vmem_retain_alloc_handle(hsa_cpu::VmemHandle* out, void* base);
hsa_status_t hsa_amd_portable_export_dmabuf(const void* base, std::size_t bytes, int* file, std::uint64_t* offset);
hsa_status_t hsa_amd_portable_close_dmabuf(int file);
hsa_status_t hsa_ext_sampler_create_v2(hsa_agent_t agent, const hsa_cpu::SamplerDescription* wanted,
                                       hsa_ext_sampler_t* out);
}

namespace {

#define OK(call) ASSERT_EQ(HSA_STATUS_SUCCESS, (call))

constexpr std::size_t kMiB = 1 << 20;
constexpr std::uint64_t kForever = ~std::uint64_t{0};

std::vector<hsa_agent_t> all_agents() {
  std::vector<hsa_agent_t> found;
  const auto add = [](hsa_agent_t agent, void* list) {
    static_cast<std::vector<hsa_agent_t>*>(list)->push_back(agent);
    return HSA_STATUS_SUCCESS;
  };
  EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_init());
  EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_iterate_agents(add, &found));
  return found;
}
hsa_agent_t gpu(std::size_t index = 0) { return all_agents().at(index + 1); }

hsa_amd_memory_pool_t pool_of(hsa_agent_t agent) {
  hsa_amd_memory_pool_t first{};
  const auto take_first = [](hsa_amd_memory_pool_t pool, void* out) {
    *static_cast<hsa_amd_memory_pool_t*>(out) = pool;
    return HSA_STATUS_INFO_BREAK;
  };
  EXPECT_EQ(HSA_STATUS_INFO_BREAK, hsa_amd_agent_iterate_memory_pools(agent, take_first, &first));
  return first;
}

std::uint64_t available(hsa_agent_t agent) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(HSA_STATUS_SUCCESS,
            hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(hsa_cpu::kMemoryAvail), &bytes));
  return bytes;
}

class Signal {
 public:
  explicit Signal(hsa_signal_value_t value = 1) {
    EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_signal_create(value, 0, nullptr, &handle_));
  }
  ~Signal() { EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_signal_destroy(handle_)); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  operator hsa_signal_t() const { return handle_; }
  void wait_for_zero() const {
    EXPECT_EQ(0, hsa_signal_wait_scacquire(handle_, HSA_SIGNAL_CONDITION_LT, 1, kForever, HSA_WAIT_STATE_BLOCKED));
  }

 private:
  hsa_signal_t handle_{};
};

class Queue {
 public:
  explicit Queue(std::uint32_t size = 64, hsa_agent_t agent = gpu()) {
    EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_queue_create(agent, size, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, 0, 0, &queue_));
  }
  ~Queue() { EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_queue_destroy(queue_)); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// As clr submits: a slot is reserved, the packet written, its header last.
  void submit(const void* packet, std::uint16_t type) {
    const std::uint64_t index = hsa_queue_add_write_index_screlease(queue_, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue_) >= queue_->size) std::this_thread::yield();
    auto* const slot = static_cast<char*>(queue_->base_address) + index % queue_->size * 64;
    std::memcpy(slot + 2, static_cast<const char*>(packet) + 2, 62);
    const auto header = static_cast<std::uint16_t>(type << HSA_PACKET_HEADER_TYPE);
    __atomic_store_n(reinterpret_cast<std::uint16_t*>(slot), header, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue_->doorbell_signal, static_cast<hsa_signal_value_t>(index));
  }
  void barrier(hsa_signal_t done, hsa_signal_t after = {0}) {
    hsa_barrier_and_packet_t packet{};
    packet.dep_signal[0] = after;
    packet.completion_signal = done;
    submit(&packet, HSA_PACKET_TYPE_BARRIER_AND);
  }
  std::uint64_t processed() const { return hsa_queue_load_read_index_scacquire(queue_); }

 private:
  hsa_queue_t* queue_ = nullptr;
};

TEST(HsaAgents, the_host_comes_first_and_each_device_has_one_instruction_set) {
  const std::vector<hsa_agent_t> agents = all_agents();
  ASSERT_EQ(3u, agents.size());
  for (std::size_t i = 0; i < agents.size(); ++i) {
    std::uint32_t type = 0;
    OK(hsa_agent_get_info(agents[i], HSA_AGENT_INFO_DEVICE, &type));
    EXPECT_EQ(i == 0 ? HSA_DEVICE_TYPE_CPU : HSA_DEVICE_TYPE_GPU, static_cast<hsa_device_type_t>(type));
  }
  int sets = 0;
  OK(hsa_agent_iterate_isas(
      gpu(),
      [](hsa_isa_t isa, void* count) {
        char name[64];
        ++*static_cast<int*>(count);
        EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name));
        EXPECT_STREQ("amdgcn-amd-amdhsa--gfx906:sramecc-:xnack-", name);
        return HSA_STATUS_SUCCESS;
      },
      &sets));
  EXPECT_EQ(1, sets);
}

TEST(HsaAgents, every_attribute_of_amds_that_has_a_number_is_answered) {
  for (int what = HSA_AMD_AGENT_INFO_CHIP_ID; what <= hsa_cpu::kTimestampFrequency; ++what) {
    if (what == HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS) continue;  // nobody asks
    char room[256];
    EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_agent_get_info(gpu(), static_cast<hsa_agent_info_t>(what), room)) << what;
  }
}

TEST(HsaSignals, who_waits_is_woken_by_a_change) {
  const Signal signal;
  std::thread other([&] { hsa_signal_subtract_relaxed(signal, 1); });
  signal.wait_for_zero();
  other.join();
}

TEST(HsaSignals, a_wait_ends_after_its_time) {
  const Signal signal;
  EXPECT_EQ(1, hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED));
}

TEST(HsaSignals, a_value_stored_past_the_functions_is_seen) {
  const Signal signal;
  volatile hsa_signal_value_t* value = nullptr;
  OK(hsa_amd_signal_value_pointer(signal, &value));
  std::thread other([&] { *value = 0; });
  signal.wait_for_zero();
  other.join();
}

/// The handler takes its time and raises its argument.
bool raise_late(hsa_signal_value_t, void* called) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  static_cast<std::atomic<bool>*>(called)->store(true);
  return false;
}

TEST(HsaSignals, a_handler_that_is_due_at_exit_is_called_before_what_it_uses_is_destroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  static std::atomic<bool> called{false};
  const auto exits = [] {
    std::atexit([] { _exit(called ? 0 : 1); });
    hsa_signal_t signal;
    if (hsa_init() != HSA_STATUS_SUCCESS || hsa_signal_create(1, 0, nullptr, &signal) != HSA_STATUS_SUCCESS) _exit(2);
    if (hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_LT, 1, raise_late, &called) != HSA_STATUS_SUCCESS)
      _exit(3);
    hsa_signal_store_relaxed(signal, 0);
    std::exit(4);
  };
  EXPECT_EXIT(exits(), testing::ExitedWithCode(0), "");
}

TEST(HsaSignals, a_handler_is_called_until_it_says_that_this_is_enough) {
  const Signal signal, over;
  struct Calls {
    std::atomic<int> count{0};
    hsa_signal_t over;
  } calls;
  calls.over = over;
  const auto handler = [](hsa_signal_value_t, void* argument) {
    auto& seen = *static_cast<Calls*>(argument);
    if (++seen.count < 3) return true;
    hsa_signal_subtract_relaxed(seen.over, 1);
    return false;
  };
  OK(hsa_amd_signal_async_handler(signal, HSA_SIGNAL_CONDITION_LT, 1, handler, &calls));
  hsa_signal_subtract_relaxed(signal, 1);
  over.wait_for_zero();
  EXPECT_EQ(3, calls.count);
}

TEST(HsaQueues, packets_run_in_order_behind_what_they_wait_for) {
  Queue queue;
  const Signal gate, first, second;
  queue.barrier(first, gate);
  queue.barrier(second);
  EXPECT_EQ(1, hsa_signal_load_relaxed(first));
  EXPECT_EQ(1, hsa_signal_load_relaxed(second));
  hsa_signal_subtract_relaxed(gate, 1);
  second.wait_for_zero();
  EXPECT_EQ(0, hsa_signal_load_relaxed(first));
}

TEST(HsaQueues, several_threads_fill_a_small_ring_many_times) {
  constexpr int kThreads = 4, kPackets = 500;
  Queue queue(64);
  const Signal done(kThreads * kPackets);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kPackets; ++k) queue.barrier(done);
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.wait_for_zero();
  EXPECT_EQ(static_cast<std::uint64_t>(kThreads * kPackets), queue.processed());
}

TEST(HsaQueues, a_barrier_of_alternatives_needs_one) {
  Queue queue;
  const Signal never, one, done;
  hsa_barrier_or_packet_t packet{};
  packet.dep_signal[0] = never;
  packet.dep_signal[3] = one;
  packet.completion_signal = done;
  queue.submit(&packet, HSA_PACKET_TYPE_BARRIER_OR);
  EXPECT_EQ(1, hsa_signal_load_relaxed(done));
  hsa_signal_subtract_relaxed(one, 1);
  done.wait_for_zero();
}

TEST(HsaQueues, a_barrier_of_a_value_compares_under_its_mask) {
  Queue queue;
  const Signal value(0x10), done;
  hsa_amd_barrier_value_packet_t packet{};
  packet.header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
  packet.signal = value;
  packet.value = 3;
  packet.mask = 0xf;
  packet.cond = HSA_SIGNAL_CONDITION_EQ;
  packet.completion_signal = done;
  queue.submit(&packet, HSA_PACKET_TYPE_VENDOR_SPECIFIC);
  EXPECT_EQ(1, hsa_signal_load_relaxed(done));
  hsa_signal_store_relaxed(value, 0x23);
  done.wait_for_zero();
}

TEST(HsaQueues, the_completion_of_a_packet_has_times) {
  Queue queue;
  const Signal done;
  queue.barrier(done);
  done.wait_for_zero();
  hsa_amd_profiling_dispatch_time_t times{};
  OK(hsa_amd_profiling_get_dispatch_time(gpu(), done, &times));
  EXPECT_NE(0u, times.start);
  EXPECT_LE(times.start, times.end);
}

TEST(HsaMemory, a_device_has_what_the_environment_says_and_gets_it_back) {
  const std::uint64_t before = available(gpu());
  EXPECT_EQ(std::uint64_t{1} << 30, before);
  void *half = nullptr, *too_much = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 600 * kMiB, 0, &half));
  EXPECT_EQ(before - 600 * kMiB, available(gpu()));
  EXPECT_EQ(std::uint64_t{1} << 30, available(gpu(1)));
  EXPECT_EQ(HSA_STATUS_ERROR_OUT_OF_RESOURCES, hsa_amd_memory_pool_allocate(pool_of(gpu()), 600 * kMiB, 0, &too_much));
  OK(hsa_amd_memory_pool_free(half));
  EXPECT_EQ(before, available(gpu()));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_amd_memory_pool_allocate(pool_of(gpu()), 0, 0, &too_much));
}

TEST(HsaMemory, twenty_thousand_blocks_need_no_descriptor_each) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  void* first = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 4096, 0, &first));
  const auto before = descriptors();
  std::vector<void*> blocks(20000);
  for (void*& block : blocks) OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 4096, 0, &block));
  EXPECT_EQ(before, descriptors());
  for (void* block : blocks) OK(hsa_amd_memory_pool_free(block));
  OK(hsa_amd_memory_pool_free(first));
}

TEST(HsaMemory, a_pointer_inside_is_known_to_the_byte) {
  char* base = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu(1)), 1000, 0, reinterpret_cast<void**>(&base)));
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  OK(hsa_amd_pointer_info(base + 999, &info, nullptr, nullptr, nullptr));
  EXPECT_EQ(HSA_EXT_POINTER_TYPE_HSA, info.type);
  EXPECT_EQ(base, info.agentBaseAddress);
  EXPECT_EQ(1000u, info.sizeInBytes);
  EXPECT_EQ(gpu(1).handle, info.agentOwner.handle);
  OK(hsa_amd_pointer_info(base + 1000, &info, nullptr, nullptr, nullptr));
  EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info.type);
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION, hsa_amd_memory_pool_free(base + 1));
  OK(hsa_amd_memory_pool_free(base));
}

TEST(HsaMemory, another_process_writes_to_it) {
  int to_child[2], to_parent[2];
  ASSERT_EQ(0, pipe(to_child));
  ASSERT_EQ(0, pipe(to_parent));
  // The child makes no call before it is a program of its own, as far as HSA goes.
  const pid_t child = fork();
  if (child == 0) {
    hsa_amd_ipc_memory_t handle;
    int* memory = nullptr;
    const bool done =
        read(to_child[0], &handle, sizeof handle) == sizeof handle && hsa_init() == HSA_STATUS_SUCCESS &&
        hsa_amd_ipc_memory_attach(&handle, 4096, 0, nullptr, reinterpret_cast<void**>(&memory)) == HSA_STATUS_SUCCESS;
    if (done) memory[5] += 1;
    _exit(done && write(to_parent[1], "x", 1) == 1 ? 0 : 1);
  }
  int* memory = nullptr;
  void* other = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 8192, 0, &other));
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 4096, 0, reinterpret_cast<void**>(&memory)));
  memory[5] = 41;
  hsa_amd_ipc_memory_t handle{};
  OK(hsa_amd_ipc_memory_create(memory, 4096, &handle));
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), write(to_child[1], &handle, sizeof handle));
  close(to_parent[1]);
  char answer = 0;
  EXPECT_EQ(1, read(to_parent[0], &answer, 1));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(0, status);
  EXPECT_EQ(42, memory[5]);
  OK(hsa_amd_memory_pool_free(memory));
  OK(hsa_amd_memory_pool_free(other));
  for (const int file : {to_child[0], to_child[1], to_parent[0]}) close(file);
}

TEST(HsaMemory, a_copy_waits_for_its_signals) {
  char *from = nullptr, *to = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 4096, 0, reinterpret_cast<void**>(&from)));
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu(1)), 4096, 0, reinterpret_cast<void**>(&to)));
  const Signal gate, late, early;
  std::memset(from, 1, 4096);
  OK(hsa_amd_memory_async_copy(to, gpu(1), from, gpu(), 1024, 1, reinterpret_cast<const hsa_signal_t*>(&gate), late));
  OK(hsa_amd_memory_async_copy(to + 2048, gpu(1), from, gpu(), 1024, 0, nullptr, early));
  early.wait_for_zero();
  EXPECT_EQ(0, to[0]);
  EXPECT_EQ(1, to[2048]);
  hsa_signal_subtract_relaxed(gate, 1);
  late.wait_for_zero();
  EXPECT_EQ(1, to[1023]);
  EXPECT_EQ(0, to[1024]);
  OK(hsa_amd_memory_pool_free(to));
  OK(hsa_amd_memory_pool_free(from));
}

TEST(HsaMemory, a_part_of_a_pitched_box_is_copied) {
  std::vector<char> from(4 * 64, 0), to(4 * 32, 0);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i);
  const hsa_pitched_ptr_t source{from.data(), 64, 4 * 64}, target{to.data(), 32, 4 * 32};
  const hsa_dim3_t from_at{8, 1, 0}, to_at{4, 0, 0}, range{16, 2, 1};
  const Signal done;
  OK(hsa_amd_memory_async_copy_rect(&target, &to_at, &source, &from_at, &range, gpu(), hsaDeviceToDevice, 0, nullptr,
                                    done));
  done.wait_for_zero();
  EXPECT_EQ(0, to[3]);
  EXPECT_EQ(from[64 + 8], to[4]);
  EXPECT_EQ(from[128 + 8 + 15], to[32 + 4 + 15]);
  EXPECT_EQ(0, to[32 + 4 + 16]);
}

TEST(HsaVirtualMemory, memory_keeps_its_bytes_wherever_it_is_mapped) {
  constexpr std::size_t kBytes = 2 * kMiB;
  const std::uint64_t before = available(gpu());
  void *first = nullptr, *second = nullptr;
  OK(hsa_amd_vmem_address_reserve(&first, 2 * kBytes, 0, 0));
  OK(hsa_amd_vmem_address_reserve(&second, kBytes, 0, 0));
  hsa_cpu::VmemHandle handle{};
  OK(hsa_amd_vmem_handle_create(pool_of(gpu()), kBytes, 0, 0, &handle));
  EXPECT_EQ(before - kBytes, available(gpu()));
  const hsa_cpu::AccessDescription access{HSA_ACCESS_PERMISSION_RW, gpu()};
  const auto map = [&](void* base) {
    EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_amd_vmem_map(base, kBytes, 0, handle, 0));
    EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_amd_vmem_set_access(base, kBytes, &access, 1));
  };
  map(static_cast<char*>(first) + kBytes);
  std::strcpy(static_cast<char*>(first) + kBytes, "kept");
  hsa_access_permission_t told{};
  OK(hsa_amd_vmem_get_access(static_cast<char*>(first) + kBytes + 5, &told, gpu()));
  EXPECT_EQ(HSA_ACCESS_PERMISSION_RW, told);
  hsa_cpu::VmemHandle again{};
  OK(hsa_amd_vmem_retain_alloc_handle(&again, static_cast<char*>(first) + kBytes));
  EXPECT_EQ(handle.handle, again.handle);
  OK(hsa_amd_vmem_handle_release(again));
  OK(hsa_amd_vmem_unmap(static_cast<char*>(first) + kBytes, kBytes));
  map(second);
  EXPECT_STREQ("kept", static_cast<char*>(second));
  // Released, it lives as long as it is mapped.
  OK(hsa_amd_vmem_handle_release(handle));
  EXPECT_EQ(before - kBytes, available(gpu()));
  OK(hsa_amd_vmem_unmap(second, kBytes));
  EXPECT_EQ(before, available(gpu()));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION, hsa_amd_vmem_handle_release({0}));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION, hsa_amd_vmem_unmap(second, kBytes));
  OK(hsa_amd_vmem_address_free(first, 2 * kBytes));
  OK(hsa_amd_vmem_address_free(second, kBytes));
}

TEST(HsaVirtualMemory, a_descriptor_stands_for_the_memory) {
  constexpr std::size_t kBytes = 2 * kMiB;
  hsa_cpu::VmemHandle handle{}, imported{};
  OK(hsa_amd_vmem_handle_create(pool_of(gpu(1)), kBytes, 0, 0, &handle));
  int file = -1;
  OK(hsa_amd_vmem_export_shareable_handle(&file, handle, 0));
  OK(hsa_amd_vmem_import_shareable_handle(file, &imported));
  close(file);
  const hsa_cpu::AccessDescription access{HSA_ACCESS_PERMISSION_RW, gpu(1)};
  int* both[2] = {};
  for (const int i : {0, 1}) {
    OK(hsa_amd_vmem_address_reserve(reinterpret_cast<void**>(&both[i]), kBytes, 0, 0));
    OK(hsa_amd_vmem_map(both[i], kBytes, 0, i == 0 ? handle : imported, 0));
    OK(hsa_amd_vmem_set_access(both[i], kBytes, &access, 1));
  }
  both[0][100] = 7;
  EXPECT_EQ(7, both[1][100]);
  for (int* const base : both) {
    OK(hsa_amd_vmem_unmap(base, kBytes));
    OK(hsa_amd_vmem_address_free(base, kBytes));
  }
  OK(hsa_amd_vmem_handle_release(imported));
  OK(hsa_amd_vmem_handle_release(handle));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_amd_vmem_import_shareable_handle(STDIN_FILENO, &imported));
}

TEST(HsaDmabuf, a_descriptor_stands_for_the_whole_allocation_and_keeps_it) {
  constexpr std::size_t kBytes = 3 * 4096;
  int* memory = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu(1)), kBytes - 100, 0, reinterpret_cast<void**>(&memory)));
  memory[1025] = 5;
  int file = -1;
  std::uint64_t offset = 0;
  OK(hsa_amd_portable_export_dmabuf(memory + 1024, 4096, &file, &offset));
  EXPECT_EQ(4096u, offset);
  hsa_agent_t mapped_by = gpu();
  std::size_t bytes = 0;
  int* mapped = nullptr;
  OK(hsa_amd_interop_map_buffer(1, &mapped_by, file, 0, &bytes, reinterpret_cast<void**>(&mapped), nullptr, nullptr));
  EXPECT_EQ(kBytes, bytes);
  EXPECT_NE(memory, mapped);
  EXPECT_EQ(5, mapped[1025]);
  mapped[0] = 6;
  EXPECT_EQ(6, memory[0]);
  // The memory lives for who has it mapped, and is nobody else's.
  OK(hsa_amd_memory_pool_free(memory));
  int* next = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu(1)), kBytes, 0, reinterpret_cast<void**>(&next)));
  std::memset(next, 1, kBytes);
  EXPECT_EQ(5, mapped[1025]);
  OK(hsa_amd_interop_unmap_buffer(mapped));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_amd_interop_unmap_buffer(mapped));
  OK(hsa_amd_portable_close_dmabuf(file));
  OK(hsa_amd_memory_pool_free(next));
}

TEST(HsaDmabuf, what_is_no_devices_memory_is_refused) {
  int* memory = nullptr;
  OK(hsa_amd_memory_pool_allocate(pool_of(gpu()), 4096, 0, reinterpret_cast<void**>(&memory)));
  int file = -1, own = 0;
  std::uint64_t offset = 0;
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(&own, 4, &file, &offset));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION, hsa_amd_portable_export_dmabuf(memory + 1, 4096, &file, &offset));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_amd_portable_export_dmabuf(memory, 0, &file, &offset));
  std::size_t bytes = 0;
  void* mapped = nullptr;
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT,
            hsa_amd_interop_map_buffer(0, nullptr, STDIN_FILENO, 0, &bytes, &mapped, nullptr, nullptr));
  OK(hsa_amd_memory_pool_free(memory));
}

TEST(HsaCode, what_is_no_code_object_is_refused) {
  const char text[] = "this is no ELF image, but it is long enough to have a header of sixty-four bytes in it";
  hsa_code_object_reader_t reader{};
  hsa_executable_t executable{};
  OK(hsa_code_object_reader_create_from_memory(text, sizeof text, &reader));
  OK(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR, nullptr, &executable));
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_CODE_OBJECT,
            hsa_executable_load_agent_code_object(executable, gpu(), reader, nullptr, nullptr));
  hsa_executable_symbol_t symbol{};
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_SYMBOL_NAME,
            hsa_executable_get_symbol_by_name(executable, "nothing.kd", nullptr, &symbol));
  OK(hsa_executable_destroy(executable));
  OK(hsa_code_object_reader_destroy(reader));
}

TEST(HsaImages, pixels_lie_in_rows_of_whole_lines) {
  hsa_ext_image_descriptor_t wanted{};
  wanted.geometry = HSA_EXT_IMAGE_GEOMETRY_2D;
  wanted.width = 100;
  wanted.height = 10;
  wanted.format = {HSA_EXT_IMAGE_CHANNEL_TYPE_FLOAT, HSA_EXT_IMAGE_CHANNEL_ORDER_R};
  hsa_ext_image_data_info_t info{};
  OK(hsa_ext_image_data_get_info(gpu(), &wanted, HSA_ACCESS_PERMISSION_RW, &info));
  EXPECT_EQ(10u * 512, info.size);
  wanted.format = {HSA_EXT_IMAGE_CHANNEL_TYPE_UNSIGNED_INT8, HSA_EXT_IMAGE_CHANNEL_ORDER_RGBA};
  wanted.depth = 3;
  OK(hsa_ext_image_data_get_info(gpu(), &wanted, HSA_ACCESS_PERMISSION_RW, &info));
  EXPECT_EQ(3u * 10 * 512, info.size);
}

TEST(HsaImages, a_region_goes_into_an_image_and_out_of_it) {
  hsa_ext_image_descriptor_t wanted{};
  wanted.geometry = HSA_EXT_IMAGE_GEOMETRY_3D;
  wanted.width = 20;
  wanted.height = 5;
  wanted.depth = 3;
  wanted.format = {HSA_EXT_IMAGE_CHANNEL_TYPE_UNSIGNED_INT16, HSA_EXT_IMAGE_CHANNEL_ORDER_RG};
  hsa_ext_image_data_info_t info{};
  OK(hsa_ext_image_data_get_info(gpu(), &wanted, HSA_ACCESS_PERMISSION_RW, &info));
  std::vector<std::uint32_t> memory(info.size / 4, 0);
  hsa_ext_image_t image{};
  OK(hsa_ext_image_create(gpu(), &wanted, memory.data(), HSA_ACCESS_PERMISSION_RW, &image));
  std::vector<std::uint32_t> in(2 * 3 * 8), out(2 * 3 * 4, 0);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint32_t>(i + 1);
  const hsa_ext_image_region_t region{{7, 1, 1}, {4, 3, 2}};
  OK(hsa_ext_image_import(gpu(), in.data(), 8 * 4, 3 * 8 * 4, image, &region));
  constexpr std::size_t kRow = 64, kSlice = 5 * kRow;  // in pixels: rows of 256 bytes
  EXPECT_EQ(in[0], memory[kSlice + kRow + 7]);
  EXPECT_EQ(in[3 * 8 + 2 * 8 + 3], memory[2 * kSlice + 3 * kRow + 10]);
  EXPECT_EQ(0u, memory[2 * kSlice + 3 * kRow + 11]);
  OK(hsa_ext_image_export(gpu(), image, out.data(), 0, 0, &region));
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t x = 0; x < 4; ++x) EXPECT_EQ(in[row * 8 + x], out[row * 4 + x]) << row << " " << x;
  const hsa_ext_image_region_t beyond{{17, 0, 0}, {4, 1, 1}};
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_ext_image_export(gpu(), image, out.data(), 0, 0, &beyond));
  OK(hsa_ext_image_destroy(gpu(), image));
}

TEST(HsaImages, samplers_are_made_by_either_description) {
  hsa_ext_sampler_t first{}, second{};
  const hsa_ext_sampler_descriptor_t old{HSA_EXT_SAMPLER_COORDINATE_MODE_UNNORMALIZED,
                                         HSA_EXT_SAMPLER_FILTER_MODE_NEAREST,
                                         HSA_EXT_SAMPLER_ADDRESSING_MODE_CLAMP_TO_EDGE};
  const hsa_cpu::SamplerDescription newer{
      old.coordinate_mode, old.filter_mode, {old.address_mode, old.address_mode, old.address_mode}};
  OK(hsa_ext_sampler_create(gpu(), &old, &first));
  OK(hsa_ext_sampler_create_v2(gpu(), &newer, &second));
  EXPECT_NE(0u, first.handle);
  EXPECT_NE(first.handle, second.handle);
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_ext_sampler_create(gpu(), nullptr, &first));
  OK(hsa_ext_sampler_destroy(gpu(), first));
  OK(hsa_ext_sampler_destroy(gpu(), second));
}

TEST(HsaJournal, says_what_reached_a_device) {
  Queue queue(64, gpu(1));
  const Signal barrier, copy;
  queue.barrier(barrier);
  char bytes[77] = {};
  OK(hsa_amd_memory_async_copy(bytes, all_agents()[0], bytes, gpu(1), sizeof bytes, 0, nullptr, copy));
  barrier.wait_for_zero();
  copy.wait_for_zero();
  std::ifstream journal(std::getenv("HSACPU_JOURNAL"));
  int barriers = 0, copies = 0;
  for (std::string line; std::getline(journal, line);) {
    barriers += line.starts_with("barrier device=1");
    copies += line == "copy bytes=77 from=2 to=0";
  }
  EXPECT_LE(1, barriers);
  EXPECT_LE(1, copies);
}

}  // namespace
