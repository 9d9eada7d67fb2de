// Tests of checked mode: kernels, given in words, and copies that touch what they may not. A process with a finding
// ends with an exit code of its own, so each is a process; and what is right says nothing.
#include "checked.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "agents.h"
#include "gcn/loaded_words.h"
#include "memory.h"

extern "C" {
// Newer than the header.
hsa_status_t hsa_amd_vmem_address_reserve(void** out, std::size_t bytes, std::uint64_t hint, std::uint64_t flags);
hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, std::size_t bytes, int type, std::uint64_t flags,
                                        hsa_cpu::VmemHandle* out);
hsa_status_t hsa_amd_vmem_map(void* base, std::size_t bytes, std::size_t offset, hsa_cpu::VmemHandle handle,
                              std::uint64_t flags);
hsa_status_t hsa_amd_vmem_unmap(void* base, std::size_t bytes);
hsa_status_t hsa_amd_vmem_set_access(void* base, std::size_t bytes, const hsa_cpu::AccessDescription* wanted,
                                     std::size_t count);
// What a library that keeps memory calls.
void hsa_cpu_memory_kept(const void* base, std::size_t bytes);
void hsa_cpu_memory_handed_out(const void* base, std::size_t bytes);
}

namespace hsa_cpu {
namespace {

void ok(hsa_status_t status) {
  if (status == HSA_STATUS_SUCCESS) return;
  std::fprintf(stderr, "a call of HSA failed: %d\n", static_cast<int>(status));
  std::exit(1);
}

Agent& host() { return *agents()[0]; }
Agent& gpu(std::size_t index = 0) { return *agents()[index + 1]; }

char* allocate(std::size_t bytes, Agent& agent = gpu()) {
  void* base = nullptr;
  ok(hsa_amd_memory_pool_allocate({reinterpret_cast<std::uint64_t>(&agent.pools[0])}, bytes, 0, &base));
  return static_cast<char*>(base);
}
void free_memory(char* base) { ok(hsa_amd_memory_pool_free(base)); }
void allow(const void* base, const Agent& agent) {
  const hsa_agent_t handle = handle_of(&agent);
  ok(hsa_amd_agents_allow_access(1, &handle, nullptr, base));
}

// Bodies of kernels: s[4:5] has the address in the first argument, v1 four times the lane's number.
const Words kStore = {0xDC708000, 0x00040001};           // global_store_dword v1, v0, s[4:5]
const Words kLoad = {0xDC508000, 0x02040001};            // global_load_dword v2, v1, s[4:5]
const Words kFlatLoad = {0x7E060204, 0x7E080205,         // v_mov_b32 v3, s4; v_mov_b32 v4, s5
                         0xDC500000, 0x02000003};        // flat_load_dword v2, v[3:4]
const Words kWideFlatLoad = {0x7E060204, 0x7E080205,     //
                             0xDC5C0000, 0x05000003};    // flat_load_dwordx4 v[5:8], v[3:4]
const Words kScalarLoad = {0xC0020202, 0x00000000};      // s_load_dword s8, s[4:5], 0x0
const Words kWideScalarLoad = {0xC00A0202, 0x00000000};  // s_load_dwordx4 s[8:11], s[4:5], 0x0
const Words kScalarStore = {0xC0420202, 0x00000000};     // s_store_dword s8, s[4:5], 0x0
const Words kAtomic = {0xDD088000, 0x00040001};          // global_atomic_add v1, v0, s[4:5]
const Words kBufferStore = {0xBE8600FF, 0x00001000,      // s_mov_b32 s6, 0x1000
                            0xBE8700FF, 0x00020000,      // s_mov_b32 s7, 0x20000
                            0xE0701000, 0x80010001};     // buffer_store_dword v0, v1, s[4:7], 0 offen
const Words kBufferLoad = {0xBE8600FF, 0x00001000,       //
                           0xBE8700FF, 0x00020000,       //
                           0xE0541000, 0x80010201};      // buffer_load_dwordx2 v[2:3], v1, s[4:7], 0 offen
const Words kScalarBufferLoad = {0xBE8600FF, 0x00001000, 0xBE8700FF,
                                 0x00020000, 0xC0220202, 0x00000000};  // s_buffer_load_dword s8, s[4:7], 0x0
const Words kSecondLoad = {0xC0060200, 0x00000008,                     // s_load_dwordx2 s[8:9], s[0:1], 0x8
                           0xDC508000, 0x02080001};                    // global_load_dword v2, v1, s[8:9]

/// Runs it on a device, a lane an item.
void run(const Words& body, const void* first, std::uint32_t items = 64, const Agent& agent = gpu(),
         const void* second = nullptr) {
  Words code = {0xC0060100, 0x00000000,  // s_load_dwordx2 s[4:5], s[0:1], 0x0
                0x24020082};             // v_lshlrev_b32 v1, 2, v0
  code.insert(code.end(), body.begin(), body.end());
  code.push_back(0xBF810000);  // s_endpgm
  char* const arguments = allocate(2 * sizeof(void*), host());
  allow(arguments, agent);
  const void* const values[2] = {first, second};
  std::memcpy(arguments, values, sizeof values);
  ok(Loaded(code).run(items, 64, arguments, &agent));
  free_memory(arguments);
}

void copy(void* to, const Agent& to_agent, const void* from, const Agent& from_agent, std::size_t bytes) {
  hsa_signal_t done{};
  ok(hsa_signal_create(1, 0, nullptr, &done));
  ok(hsa_amd_memory_async_copy(to, handle_of(&to_agent), from, handle_of(&from_agent), bytes, 0, nullptr, done));
  hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, ~std::uint64_t{0}, HSA_WAIT_STATE_BLOCKED);
}

char* mapped(std::size_t bytes, const Agent& access, hsa_access_permission_t permission = HSA_ACCESS_PERMISSION_RW) {
  void* base = nullptr;
  VmemHandle memory{};
  ok(hsa_amd_vmem_handle_create({reinterpret_cast<std::uint64_t>(&gpu().pools[0])}, bytes, 0, 0, &memory));
  ok(hsa_amd_vmem_address_reserve(&base, bytes, 0, 0));
  ok(hsa_amd_vmem_map(base, bytes, 0, memory, 0));
  const AccessDescription wanted{permission, handle_of(&access)};
  ok(hsa_amd_vmem_set_access(base, bytes, &wanted, 1));
  return static_cast<char*>(base);
}

template <typename Function>
[[noreturn]] void as_process(Function function) {
  ok(hsa_init());
  function();
  std::exit(0);
}

/// The text is one of POSIX's extended expressions.
template <typename Function>
void finds(Function function, const std::string& text) {
  EXPECT_EXIT(as_process(function), testing::ExitedWithCode(kFindingsExit), text);
}
template <typename Function>
void silent(Function function) {
  EXPECT_EXIT(as_process(function), testing::ExitedWithCode(0), testing::Eq(""));
}

const Words* const kAll[] = {&kStore,       &kLoad,           &kFlatLoad,        &kWideFlatLoad,
                             &kScalarLoad,  &kWideScalarLoad, &kScalarStore,     &kAtomic,
                             &kBufferStore, &kBufferLoad,     &kScalarBufferLoad};

TEST(CheckedKernels, what_is_right_says_nothing) {
  silent([] {
    char* const memory = allocate(4096);
    for (const Words* body : kAll) run(*body, memory);
    char* const elsewhere = allocate(4096, host());
    allow(elsewhere, gpu());
    run(kSecondLoad, memory, 64, gpu(), elsewhere);
    run(kStore, mapped(4096, gpu()));
    run(kLoad, mapped(4096, gpu(1), HSA_ACCESS_PERMISSION_RO), 64, gpu(1));
    free_memory(memory);
    run(kStore, allocate(4096));
  });
}

TEST(CheckedKernels, beyond_the_end_by_one_element) {
  finds([] { run(kStore, allocate(63 * 4)); },
        "kernel a_kernel: global_store_dword at \\+0xc, lane 63, writes 4 bytes at 0x[0-9a-f]+: beyond the end of an "
        "allocation\n.*allocation [0-9]+: 252 bytes of device 0 at 0x[0-9a-f]+; the access is 0 bytes beyond its end\n"
        ".*allocated by thread [0-9]+ < ");
}

TEST(CheckedKernels, a_wide_access_that_leaves_its_allocation_by_a_byte) {
  finds([] { run(kWideFlatLoad, allocate(15)); }, "flat_load_dwordx4 .*reads 16 bytes .*beyond the end");
  finds([] { run(kWideScalarLoad, allocate(15)); }, "s_load_dwordx4 at \\+0xc reads 16 bytes .*beyond the end");
}

TEST(CheckedKernels, each_kind_of_instruction_is_looked_at) {
  const char* const names[] = {"global_store_dword", "global_load_dword", "flat_load_dword",    "flat_load_dwordx4",
                               "s_load_dword",       "s_load_dwordx4",    "s_store_dword",      "global_atomic_add",
                               "buffer_store_dword", "buffer_load_dword", "s_buffer_load_dword"};
  for (std::size_t i = 0; i < std::size(kAll); ++i)
    finds(
        [i] {
          char* const memory = allocate(4096);
          free_memory(memory);
          run(*kAll[i], memory);
        },
        std::string("kernel a_kernel: ") + names[i] + ".*memory that was freed\n.*\n.*allocated by .*\n.*freed by ");
}

TEST(CheckedKernels, a_stale_pointer_beside_a_good_one) {
  finds(
      [] {
        char* const good = allocate(4096);
        char* const stale = allocate(4096);
        free_memory(stale);
        run(kSecondLoad, good, 64, gpu(), stale);
      },
      "global_load_dword .*memory that was freed");
}

TEST(CheckedKernels, arguments_that_were_freed) {
  finds(
      [] {
        char* const arguments = allocate(16, host());
        allow(arguments, gpu());
        free_memory(arguments);
        const Words code = {0xC0060100, 0x00000000, 0xBF810000};  // s_load_dwordx2 s[4:5], s[0:1], 0x0
        ok(Loaded(code).run(64, 64, arguments, &gpu()));
      },
      "s_load_dwordx2 at \\+0 reads 8 bytes .*memory that was freed");
}

TEST(CheckedKernels, memory_that_nobody_allocated) {
  finds([] { run(kStore, reinterpret_cast<void*>(0x1000)); }, "global_store_dword .*memory that nobody allocated");
  finds([] { run(kLoad, std::calloc(64, 4)); }, "global_load_dword .*memory that nobody allocated");
}

TEST(CheckedKernels, a_device_that_may_not_reach_it) {
  finds([] { run(kStore, allocate(4096), 64, gpu(1)); }, "global_store_dword .*: device 1 has no access to it");
  finds([] { run(kLoad, allocate(4096, host())); }, "global_load_dword .*: device 0 has no access to it");
  silent([] {
    char* const memory = allocate(4096);
    allow(memory, gpu(1));
    run(kStore, memory, 64, gpu(1));
    run(kStore, memory);
  });
  finds(
      [] {
        char* const memory = allocate(4096);
        allow(memory, gpu(1));
        allow(memory, gpu(0));
        run(kStore, memory, 64, gpu(1));
      },
      "device 1 has no access");
}

TEST(CheckedKernels, host_memory_is_theirs_while_it_is_locked) {
  silent([] {
    void* device = nullptr;
    ok(hsa_amd_memory_lock_to_pool(std::calloc(64, 4), 256, nullptr, 0, {0}, 0, &device));
    run(kStore, device);
  });
  finds(
      [] {
        void* const memory = std::calloc(64, 4);
        void* device = nullptr;
        ok(hsa_amd_memory_lock_to_pool(memory, 256, nullptr, 0, {0}, 0, &device));
        ok(hsa_amd_memory_unlock(memory));
        run(kStore, device);
      },
      "memory that was unlocked");
}

TEST(CheckedKernels, mappings) {
  finds([] { run(kStore, mapped(4096, gpu()), 64, gpu(1)); }, "device 1 has no access");
  finds([] { run(kStore, mapped(4096, gpu(), HSA_ACCESS_PERMISSION_RO)); }, "it may only be read");
  finds(
      [] {
        char* const memory = mapped(4096, gpu());
        ok(hsa_amd_vmem_unmap(memory, 4096));
        run(kStore, memory);
      },
      "memory that was unmapped");
}

TEST(CheckedKernels, memory_that_a_library_keeps_is_not_the_programs) {
  finds(
      [] {
        char* const memory = allocate(4096);
        hsa_cpu_memory_kept(memory, 4096);
        run(kStore, memory);
      },
      "memory that is not the program's: the library keeps it\n(.*\n)*.*kept since thread");
  silent([] {
    char* const memory = allocate(4096);
    hsa_cpu_memory_kept(memory, 4096);
    hsa_cpu_memory_handed_out(memory, 4096);
    run(kStore, memory);
  });
  // A part of a chunk has bounds of its own.
  silent([] {
    char* const chunk = allocate(4096);
    hsa_cpu_memory_kept(chunk, 4096);
    hsa_cpu_memory_handed_out(chunk + 1024, 256);
    run(kStore, chunk + 1024);
  });
  finds(
      [] {
        char* const chunk = allocate(4096);
        hsa_cpu_memory_kept(chunk, 4096);
        hsa_cpu_memory_handed_out(chunk + 1024, 252);
        run(kStore, chunk + 1024);
      },
      "lane 63, writes 4 bytes .*the library keeps it");
  finds(
      [] {
        char* const chunk = allocate(4096);
        hsa_cpu_memory_kept(chunk, 4096);
        hsa_cpu_memory_handed_out(chunk + 1024, 256);
        run(kStore, chunk + 1020);
      },
      "lane 0, writes 4 bytes .*the library keeps it");
}

TEST(CheckedKernels, memory_that_goes_while_a_kernel_runs) {
  // Waits until another wave has counted, with an address that is freed meanwhile.
  const Words spin = {0xDC518000, 0x02040001,  // global_load_dword v2, v1, s[4:5] glc
                      0x7E0E0502,              // v_readfirstlane_b32 s7, v2
                      0xBF068007,              // s_cmp_eq_u32 s7, 0
                      0xBF85FFFB};             // s_cbranch_scc1 (the load)
  finds(
      [&] {
        char* const memory = allocate(4096);
        char* const arguments = allocate(16, host());
        allow(arguments, gpu());
        std::memcpy(arguments, &memory, sizeof memory);
        std::memset(memory, 0, 4);
        Words code = {0xC0060100, 0x00000000, 0x24020082};
        code.insert(code.end(), spin.begin(), spin.end());
        code.push_back(0xBF810000);
        std::atomic<bool> stop{false};
        std::thread waits([&] { ok(Loaded(code).run(64, 64, arguments, stop, &gpu())); });
        hsa_cpu_memory_kept(memory, 4096);
        while (findings() == 0) std::this_thread::yield();
        stop = true;
        waits.join();
      },
      "global_load_dword .*the library keeps it");
}

TEST(CheckedCopies, what_is_right_says_nothing) {
  silent([] {
    char* const memory = allocate(4096);
    char* const other = allocate(4096, gpu(1));
    char* const pinned = allocate(4096, host());
    allow(pinned, gpu());
    copy(pinned, host(), memory, gpu(), 4096);
    copy(memory, gpu(), pinned, host(), 4096);
    allow(other, gpu());
    copy(other, gpu(1), memory, gpu(), 4096);
    std::string of_the_host(4096, 'x');
    copy(of_the_host.data(), host(), pinned, host(), 4096);
    ok(hsa_memory_copy(memory, of_the_host.data(), 4096));
  });
}

TEST(CheckedCopies, from_memory_that_was_freed) {
  finds(
      [] {
        char* const memory = allocate(4096);
        char* const pinned = allocate(4096, host());
        allow(pinned, gpu());
        free_memory(memory);
        copy(pinned, host(), memory, gpu(), 4096);
      },
      "copy: hsa_amd_memory_async_copy reads 4096 bytes .*memory that was freed\n.*asked for by thread [0-9]+ < ");
}

TEST(CheckedCopies, beyond_the_end_by_a_byte) {
  finds([] { copy(allocate(4095), gpu(), allocate(4096), gpu(), 4096); },
        "copy: hsa_amd_memory_async_copy writes 4096 bytes .*beyond the end");
}

TEST(CheckedCopies, between_devices_without_access) {
  finds([] { copy(allocate(4096, gpu(1)), gpu(1), allocate(4096), gpu(), 4096); }, "device 1 has no access to it");
}

TEST(CheckedCopies, host_memory_that_is_not_locked) {
  finds([] { copy(std::calloc(1, 4096), host(), allocate(4096), gpu(), 4096); }, "memory that nobody allocated");
}

TEST(CheckedCopies, rows_that_leave_their_memory) {
  finds(
      [] {
        const hsa_pitched_ptr_t to{allocate(4 * 64), 64, 0}, from{allocate(4 * 64), 64, 0};
        const hsa_dim3_t begin{0, 0, 0}, second_row{0, 1, 0}, range{64, 4, 1};
        hsa_signal_t done{};
        ok(hsa_signal_create(1, 0, nullptr, &done));
        ok(hsa_amd_memory_async_copy_rect(&to, &second_row, &from, &begin, &range, handle_of(&gpu()), hsaDeviceToDevice,
                                          0, nullptr, done));
        hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, ~std::uint64_t{0}, HSA_WAIT_STATE_BLOCKED);
      },
      "copy: hsa_amd_memory_async_copy_rect writes 64 bytes .*0 bytes beyond its end");
}

TEST(CheckedCopies, by_the_host) {
  finds(
      [] {
        char* const memory = allocate(4096);
        free_memory(memory);
        static_cast<void>(hsa_memory_copy(memory, "text", 4));
      },
      "copy: hsa_memory_copy writes 4 bytes .*memory that was freed");
}

TEST(CheckedHost, what_it_dies_of_is_told) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer ends a process that runs into a fault";
#endif
  EXPECT_EXIT(as_process([] {
                char* const memory = allocate(4096);
                free_memory(memory);
                *reinterpret_cast<volatile char*>(memory) = 1;
              }),
              testing::KilledBySignal(SIGSEGV), "the host: the processor writes 1 bytes .*memory that was freed");
}

TEST(CheckedMode, a_place_is_told_once_for_an_allocation) {
  finds(
      [] {
        char* const memory = allocate(252);
        for (int i = 0; i < 5; ++i) run(kStore, memory);
      },
      "^hsa on the cpu: checked: [^\n]*\n(hsa on the cpu:     [^\n]*\n)*hsa on the cpu: checked: 1 findings; the "
      "process "
      "ends with 86\n$");
}

TEST(CheckedMode, addresses_that_were_freed_are_not_handed_out_at_once) {
  silent([] {
    char* const memory = allocate(4096);
    free_memory(memory);
    for (int i = 0; i < 100; ++i)
      if (allocate(4096) == memory) std::exit(1);
  });
}

}  // namespace
}  // namespace hsa_cpu
