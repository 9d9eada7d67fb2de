// device_memory_fixture.h: device memory of a test's own, on the fake runtime of fake_hip.h. Each test decides what is
// pooled by g_decision.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "shim/memory/device_memory.h"
#include "shim/memory/never_address.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {

inline Decision g_decision;
inline Decision fixed_decision(const AllocationRequest& request) {
  Decision decision = g_decision;
  if (request.function == AllocationFunction::kMallocAsync && decision.rule == 0) decision.pool = false;
  return decision;
}

class DeviceMemoryTest : public testing::Test {
 protected:
  DeviceMemoryTest() {
    g_decision = {};
    forget_too_small_memory(0);
    forget_too_small_memory(1);
    forget_vmm(0);
    forget_vmm(1);
    stream_work().device_reset(0);
    stream_work().device_reset(1);
    configure();
  }
  ~DeviceMemoryTest() override {
    EXPECT_TRUE(memory.is_valid());
    forget_vmm(0);
    forget_vmm(1);
    stream_work().device_reset(0);
    stream_work().device_reset(1);
  }
  void configure() { memory.configure(settings, &fixed_decision); }

  hipError_t malloc(void** ptr, std::size_t bytes, AllocationFunction function = AllocationFunction::kMalloc,
                    unsigned flags = 0, hipStream_t stream = nullptr) {
    return memory.pool.allocate({function, bytes, fake::t_device, flags, stream}, ptr);
  }
  char* get(std::size_t bytes) {
    void* ptr = nullptr;
    EXPECT_EQ(malloc(&ptr, bytes), hipSuccess);
    return static_cast<char*>(ptr);
  }
  hipError_t free(void* ptr) { return memory.frees.free(ptr, next().hipFree); }
  void drop(void* ptr) { EXPECT_EQ(free(ptr), hipSuccess); }
  hipStream_t busy_stream() {
    hipStream_t stream = nullptr;
    EXPECT_EQ(next().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
    work_counts().created(stream, fake::t_device);
    enqueue(stream);
    return stream;
  }
  static void enqueue(hipStream_t stream) {
    fake::work(stream);
    work_counts().note_work(stream);
  }
  /// A capture begins on this thread, whose mode allows it calls that a capture forbids.
  void open_relaxed_capture() {
    fake::t_mode = hipStreamCaptureModeRelaxed;
    capture_opened();
    ++fake.hip->captures;
  }
  int count(const char* name) { return fake.hip->count[name]; }
  void use_vmm() { g_decision.backing = BlockBacking::kVmm; }

  fake::Install fake;
  PoolSettings settings;
  DeviceMemory& memory = never_destroyed<DeviceMemory>(stream_work());
  BlockTable& table = memory.table;
};

}  // namespace graphpool
