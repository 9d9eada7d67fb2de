// A device that touches an address where nothing is: who is told, and how it ends.
#include "faults.h"

#include <gtest/gtest.h>

#include <csignal>

#include "agents.h"
#include "gcn/loaded_words.h"

namespace hsa_cpu {
namespace {

const Words kStore = {0xC0060100, 0x00000000,  // s_load_dwordx2 s[4:5], s[0:1], 0x0
                      0xBF8CC07F, 0x7E020280,  // s_waitcnt lgkmcnt(0); v_mov_b32 v1, 0
                      0xDC708000, 0x00040001,  // global_store_dword v1, v0, s[4:5]
                      0xBF810000};             // s_endpgm

const Agent& device() {
  EXPECT_EQ(HSA_STATUS_SUCCESS, hsa_init());
  return *agents().at(1);
}

/// Runs a kernel that writes there.
bool writes(std::uint64_t address, std::uint64_t& fault) {
  bool done = false;
  const bool returned =
      run_as_device([&] { done = Loaded(kStore).run(1, 64, &address, &device()) == HSA_STATUS_SUCCESS; }, fault);
  EXPECT_EQ(returned, done);
  return returned;
}

TEST(Faults, a_kernel_is_left_where_it_touches_nothing) {
  device();
  std::uint32_t there = 7;
  std::uint64_t fault = 0;
  EXPECT_FALSE(writes(0x1000, fault));
  EXPECT_EQ(0x1000u, fault);
  EXPECT_TRUE(writes(reinterpret_cast<std::uint64_t>(&there), fault));
  EXPECT_EQ(0u, there);
  EXPECT_FALSE(writes(0x2000, fault));
  EXPECT_EQ(0x2000u, fault);
}

TEST(Faults, one_inside_another_goes_on_in_the_inner_one) {
  device();
  std::uint64_t inner = 0, outer = 0;
  EXPECT_FALSE(run_as_device(
      [&] {
        EXPECT_FALSE(run_as_device([] { *reinterpret_cast<volatile int*>(0x3000) = 1; }, inner));
        *reinterpret_cast<volatile int*>(0x4000) = 1;
      },
      outer));
  EXPECT_EQ(0x3000u, inner);
  EXPECT_EQ(0x4000u, outer);
}

using FaultsDeathTest = testing::Test;

/// What a fault of the host does to a process without devices: a sanitizer has a handler of its own, which ends it.
bool ends_as_by_a_fault(int status) {
#ifdef __SANITIZE_ADDRESS__
  return testing::ExitedWithCode(1)(status);
#else
  return testing::KilledBySignal(SIGSEGV)(status);
#endif
}

TEST(FaultsDeathTest, the_hosts_own_end_the_process_as_they_did) {
  device();
  EXPECT_EXIT((*reinterpret_cast<volatile int*>(0x5000) = 1), ends_as_by_a_fault, "");
}

hsa_status_t take(const hsa_amd_event_t* event, void* data) {
  EXPECT_EQ(HSA_AMD_GPU_MEMORY_FAULT_EVENT, event->event_type);
  EXPECT_EQ(handle_of(&device()).handle, event->memory_fault.agent.handle);
  *static_cast<std::uint64_t*>(data) = event->memory_fault.virtual_address;
  return HSA_STATUS_SUCCESS;
}
hsa_status_t refuse(const hsa_amd_event_t*, void*) { return HSA_STATUS_ERROR; }

TEST(FaultsDeathTest, one_that_nobody_takes_ends_the_process) {
  const Agent& agent = device();
  EXPECT_EXIT(tell_fault(agent, 0x6000, "kernel a_kernel"), testing::KilledBySignal(SIGABRT),
              "device 0 touches 0x6000, where nothing is: kernel a_kernel");
  EXPECT_EXIT(
      (static_cast<void>(hsa_amd_register_system_event_handler(&refuse, nullptr)), tell_fault(agent, 0x7000, "it")),
      testing::KilledBySignal(SIGABRT), "touches 0x7000");
}

TEST(FaultsDeathTest, who_has_asked_is_told) {
  const Agent& agent = device();
  EXPECT_EXIT(
      {
        std::uint64_t told = 0;
        static_cast<void>(hsa_amd_register_system_event_handler(&refuse, nullptr));
        static_cast<void>(hsa_amd_register_system_event_handler(&take, &told));
        tell_fault(agent, 0x8000, "it");
        _exit(told == 0x8000 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ARGUMENT, hsa_amd_register_system_event_handler(nullptr, nullptr));
}

}  // namespace
}  // namespace hsa_cpu
