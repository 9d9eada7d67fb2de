// staged_memory_fixture.h: device memory of the process that rules stage, on the fake runtime of fake_graphs.h: five
// rules that always do, and one that leaves it open. A test names the rule of each allocation by its number, from 1.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include "shim/hip/process_policy.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/slot_set.h"
#include "shim/memory/vmm.h"
#include "tests/unit/fake_graphs.h"
#include "tests/unit/fills.h"

namespace graphpool {

inline std::uint32_t g_rule_of_allocations = 0;

class StagedMemoryTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kFirstRule = 1, kAlwaysRules = 5, kOpenRule = 6, kTwoSets = 7, kApart = 8;

  StagedMemoryTest() {
    static const bool read = [] {
      setenv("GRAPHPOOL_BUFFERS",
             "[{stage = 'always'}, {stage = 'always'}, {stage = 'always'}, {stage = 'always'}, {stage = 'always'}, "
             "{stage = 'auto'}, {stage = 'always', slots = 2}, {stage = 'always', slots = 2, overlap = true}]",
             1);
      return policy_of_process() != nullptr;
    }();
    EXPECT_TRUE(read);
    forget_devices();
    device_memory().configure({}, [](const AllocationRequest&) {
      Decision decision;
      decision.rule = g_rule_of_allocations;
      return decision;
    });
  }
  ~StagedMemoryTest() override {
    for (void* const memory : memory_) EXPECT_EQ(hipSuccess, device_memory().frees.free(memory, next().hipFree));
    free_retired_slots(-1);
    for (int device = 0; device < fake::kDevices; ++device) device_memory().device_reset(device);
    forget_devices();
  }

  /// Memory of the program that falls under this rule; 0: none.
  char* memory_by(std::uint32_t rule, std::size_t bytes = 4096) {
    g_rule_of_allocations = rule;
    void* made = nullptr;
    EXPECT_EQ(hipSuccess,
              device_memory().pool.allocate({AllocationFunction::kMalloc, bytes, fake::t_device, 0, nullptr}, &made));
    memory_.push_back(made);
    return static_cast<char*>(made);
  }
  static Binding binding_over(const std::vector<char*>& memory) {
    std::vector<std::uint64_t> addresses;
    for (char* const each : memory) addresses.push_back(reinterpret_cast<std::uint64_t>(each));
    return fill_binding(addresses);
  }

  fake::Install fake;
  fake::InstallGraphs graphs;

 private:
  static void forget_devices() {
    for (int device = 0; device < fake::kDevices; ++device) {
      forget_vmm(device);
      stream_work().device_reset(device);
    }
  }

  std::vector<void*> memory_;
};

}  // namespace graphpool
