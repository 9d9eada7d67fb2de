// Allocations, host and managed memory, pointer queries, pools, out of memory, memory of other processes.
#include <cstring>
#include <set>

#include "support.h"

namespace {

TEST(Memory, AllocatesAndFrees) {
  void* pointer = &pointer;
  HIP_OK(hipMalloc(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  HIP_OK(hipFree(nullptr));
  EXPECT_EQ(hipMalloc(nullptr, 1), hipErrorInvalidValue);
  char* bytes = device_bytes(100);
  EXPECT_EQ(hipFree(bytes + 100), hipErrorInvalidValue);
  HIP_OK(hipFree(bytes));
  EXPECT_EQ(hipFree(bytes), hipErrorInvalidValue);
  int local = 0;
  EXPECT_EQ(hipFree(&local), hipErrorInvalidValue);
}

TEST(Memory, AnyAddressOfAnAllocationFreesIt) {
  constexpr std::size_t kBytes = 3 * 4096 - 100;
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  std::size_t before = 0, now = 0, total = 0;
  HIP_OK(hipMemGetInfo(&before, &total));
  const auto is_gone = [&](void* memory) {
    char byte = 0;
    HIP_OK(hipStreamSynchronize(stream));
    HIP_OK(hipMemGetInfo(&now, &total));
    EXPECT_EQ(now, before);
    EXPECT_EQ(hipFree(memory), hipErrorInvalidValue);
    EXPECT_EQ(hipMemcpy(&byte, memory, 1, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  };
  for (const std::size_t inside : {std::size_t{1}, std::size_t{4096}, kBytes - 1}) {
    for (hipError_t (*free)(void*) : {hipFree, hipHostFree, hipFreeHost}) {
      char* const bytes = device_bytes(kBytes);
      EXPECT_EQ(free(bytes + kBytes), hipErrorInvalidValue) << "one past its end";
      HIP_OK(free(bytes + inside));
      is_gone(bytes);
      void* host = nullptr;
      HIP_OK(hipHostMalloc(&host, kBytes, 0));
      HIP_OK(free(static_cast<char*>(host) + inside));
      EXPECT_EQ(hipHostFree(host), hipErrorInvalidValue);
      void* ordered = nullptr;
      HIP_OK(hipMallocAsync(&ordered, kBytes, stream));
      HIP_OK(free(static_cast<char*>(ordered) + inside));
      is_gone(ordered);
    }
    for (const bool pooled : {false, true}) {
      void* memory = nullptr;
      HIP_OK(pooled ? hipMallocAsync(&memory, kBytes, stream) : hipMalloc(&memory, kBytes));
      EXPECT_EQ(hipFreeAsync(static_cast<char*>(memory) + kBytes, stream), hipErrorInvalidValue);
      HIP_OK(hipFreeAsync(static_cast<char*>(memory) + inside, stream));
      EXPECT_EQ(hipFreeAsync(memory, stream), hipErrorInvalidValue);
      is_gone(memory);
    }
  }
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Memory, EachAllocationHasABufferIdOfItsOwn) {
  const auto id_of = [](void* pointer) {
    unsigned id = 0, same = 0;
    EXPECT_EQ(hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer), hipSuccess);
    hipPointer_attribute wanted = HIP_POINTER_ATTRIBUTE_BUFFER_ID;
    void* places[] = {&same};
    EXPECT_EQ(hipDrvPointerGetAttributes(1, &wanted, places, pointer), hipSuccess);
    EXPECT_EQ(id, same);
    EXPECT_NE(id, 0u);
    return id;
  };
  std::set<unsigned> ids;
  for (int round = 0; round < 4; ++round) {
    char* const bytes = device_bytes(100);
    void* host = nullptr;
    HIP_OK(hipHostMalloc(&host, 100, 0));
    EXPECT_TRUE(ids.insert(id_of(bytes)).second);
    EXPECT_FALSE(ids.insert(id_of(bytes + 99)).second);
    EXPECT_TRUE(ids.insert(id_of(host)).second);
    HIP_OK(hipFree(bytes));
    HIP_OK(hipHostFree(host));
    unsigned id = 1;
    EXPECT_EQ(hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, bytes), hipErrorInvalidValue);
    EXPECT_EQ(id, 0u);
    hipPointer_attribute wanted = HIP_POINTER_ATTRIBUTE_BUFFER_ID;
    void* places[] = {&id};
    id = 1;
    HIP_OK(hipDrvPointerGetAttributes(1, &wanted, places, bytes));
    EXPECT_EQ(id, 0u);
  }
}

TEST(Memory, FreshMemoryIsPoisonedAndFreedMemoryFaults) {
  char* bytes = device_bytes(5000);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]), 0xCD);
  EXPECT_EQ(static_cast<unsigned char>(bytes[4999]), 0xCD);
  HIP_OK(hipFree(bytes));
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        char* gone = device_bytes(10);
        (void)hipFree(gone);
        *static_cast<volatile char*>(gone) = 1;
      },
      "");
}

TEST(Memory, AFreedAddressDoesNotComeBackAtOnce) {
  std::set<char*> seen;
  for (int round = 0; round < 60; ++round) {
    char* bytes = device_bytes(4096);
    EXPECT_TRUE(seen.insert(bytes).second);
    HIP_OK(hipFree(bytes));
  }
}

TEST(DISABLED_Reuse, AtOnce) {
  char* first = device_bytes(4096);
  HIP_OK(hipFree(first));
  EXPECT_EQ(device_bytes(4096), first);
}

TEST(DISABLED_Reuse, Comes) {  // exit status: whether any address of many came back
  std::set<char*> seen;
  bool again = false;
  for (int round = 0; round < 300; ++round) {
    char* bytes = device_bytes(4096);
    again |= !seen.insert(bytes).second;
    HIP_OK(hipFree(bytes));
  }
  EXPECT_EQ(again, std::getenv("EXPECT_REUSE") != nullptr);
}

TEST(Memory, ReuseOfAddressesIsASwitch) {
  EXPECT_EQ(run_child("DISABLED_Reuse.AtOnce", {{"CPUHIP_REUSE", "once"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Reuse.Comes", {{"CPUHIP_REUSE", "never"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Reuse.Comes", {{"CPUHIP_REUSE", "late"}, {"EXPECT_REUSE", "1"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Reuse.Comes", {{"CPUHIP_REUSE", "random"}, {"EXPECT_REUSE", "1"}}), 0);
}

TEST(Memory, AnswersAboutPointers) {
  char* bytes = device_bytes(1000);
  hipDeviceptr_t base = nullptr;
  std::size_t size = 0;
  HIP_OK(hipMemGetAddressRange(&base, &size, bytes + 999));
  EXPECT_EQ(base, bytes);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(hipMemGetAddressRange(&base, &size, bytes + 1000), hipErrorNotFound);
  HIP_OK(hipMemPtrGetInfo(bytes, &size));
  EXPECT_EQ(size, 1000u);
  hipPointerAttribute_t attributes;
  HIP_OK(hipPointerGetAttributes(&attributes, bytes + 5));
  EXPECT_EQ(attributes.memoryType, hipMemoryTypeDevice);
  EXPECT_EQ(attributes.devicePointer, bytes + 5);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(hipPointerGetAttributes(&attributes, &attributes), hipErrorInvalidValue);
  void* start = nullptr;
  HIP_OK(hipPointerGetAttribute(&start, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, bytes + 7));
  EXPECT_EQ(start, bytes);
  HIP_OK(hipFree(bytes));
}

TEST(Memory, HostMemory) {
  void* pointer = nullptr;
  HIP_OK(hipHostMalloc(&pointer, 64, hipHostMallocMapped));
  hipPointerAttribute_t attributes;
  HIP_OK(hipPointerGetAttributes(&attributes, pointer));
  EXPECT_EQ(attributes.memoryType, hipMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pointer);
  void* device_pointer = nullptr;
  HIP_OK(hipHostGetDevicePointer(&device_pointer, pointer, 0));
  EXPECT_EQ(device_pointer, pointer);
  unsigned flags = 0;
  HIP_OK(hipHostGetFlags(&flags, pointer));
  EXPECT_EQ(flags, unsigned{hipHostMallocMapped});
  HIP_OK(hipHostFree(pointer));
  EXPECT_EQ(hipHostMalloc(&pointer, 64, 0x1000), hipErrorInvalidValue);

  std::vector<char> own(4096);
  HIP_OK(hipHostRegister(own.data(), own.size(), hipHostRegisterDefault));
  EXPECT_EQ(hipHostRegister(own.data() + 1, 8, hipHostRegisterDefault), hipErrorHostMemoryAlreadyRegistered);
  HIP_OK(hipPointerGetAttributes(&attributes, own.data() + 100));
  HIP_OK(hipHostUnregister(own.data()));
  EXPECT_EQ(hipHostUnregister(own.data()), hipErrorHostMemoryNotRegistered);
}

TEST(Memory, ManagedPitchedAndSignalMemory) {
  void* pointer = nullptr;
  EXPECT_EQ(hipMallocManaged(&pointer, 0, hipMemAttachGlobal), hipErrorInvalidValue);
  HIP_OK(hipMallocManaged(&pointer, 64, hipMemAttachGlobal));
  hipPointerAttribute_t attributes;
  HIP_OK(hipPointerGetAttributes(&attributes, pointer));
  EXPECT_EQ(attributes.isManaged, 1);
  HIP_OK(hipMemAdvise(pointer, 64, hipMemAdviseSetReadMostly, 0));
  HIP_OK(hipMemPrefetchAsync(pointer, 64, 0, nullptr));
  EXPECT_EQ(hipMemPrefetchAsync(pointer, 65, 0, nullptr), hipErrorInvalidValue);
  HIP_OK(hipFree(pointer));

  std::size_t pitch = 0;
  HIP_OK(hipMallocPitch(&pointer, &pitch, 100, 10));
  EXPECT_EQ(pitch, 256u);
  HIP_OK(hipFree(pointer));

  EXPECT_EQ(hipExtMallocWithFlags(&pointer, 16, hipMallocSignalMemory), hipErrorInvalidValue);
  HIP_OK(hipExtMallocWithFlags(&pointer, 8, hipMallocSignalMemory));
  EXPECT_EQ(*static_cast<std::uint64_t*>(pointer), 0u);
  HIP_OK(hipFree(pointer));
}

TEST(DISABLED_Budget, IsKept) {
  std::size_t free_bytes = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  EXPECT_EQ(total, 1u << 20);
  EXPECT_EQ(free_bytes, total);
  char* bytes = device_bytes(1000);
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  EXPECT_EQ(free_bytes, total - 4096);
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, total), hipErrorOutOfMemory);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(hipMalloc(&pointer, ~std::size_t{0}), hipErrorOutOfMemory);
  HIP_OK(hipFree(bytes));
  HIP_OK(hipMalloc(&pointer, total));
  EXPECT_EQ(hipGetLastError(), hipSuccess);
}

TEST(Memory, TheDeviceHasABudget) { EXPECT_EQ(run_child("DISABLED_Budget.IsKept", {{"CPUHIP_MEMORY", "1048576"}}), 0); }

TEST(DISABLED_SharedBudget, Second) {
  std::size_t free_bytes = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  EXPECT_EQ(total, 1u << 20);
  EXPECT_EQ(free_bytes, 256u << 10) << "the other process has the rest";
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 512 << 10), hipErrorOutOfMemory);
  HIP_OK(hipMalloc(&pointer, 256 << 10));
}

TEST(DISABLED_SharedBudget, First) {
  void *kept = nullptr, *freed = nullptr;
  HIP_OK(hipMalloc(&kept, 768 << 10));
  HIP_OK(hipMalloc(&freed, 256 << 10));
  HIP_OK(hipFree(freed));
  EXPECT_EQ(run_child("DISABLED_SharedBudget.Second", {}), 0);
  std::size_t free_bytes = 0, total = 0;
  HIP_OK(hipMemGetInfo(&free_bytes, &total));
  EXPECT_EQ(free_bytes, 256u << 10) << "what the other process had came back when it ended";
}

TEST(Memory, ProcessesMayShareTheBudget) {
  const TemporaryFile shared("shared_budget");
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(
        run_child("DISABLED_SharedBudget.First", {{"CPUHIP_MEMORY", "1048576"}, {"CPUHIP_SHARED", shared.path()}}), 0);
}

TEST(DISABLED_Six, PointerTypes) {
  char* bytes = device_bytes(16);
  hipPointerAttribute_t attributes;
  HIP_OK(hipPointerGetAttributes(&attributes, bytes));
  EXPECT_EQ(static_cast<int>(attributes.memoryType), 2);
}

TEST(Memory, TypesFollowTheVersion) {
  EXPECT_EQ(run_child("DISABLED_Six.PointerTypes", {{"CPUHIP_VERSION", "60032830"}}), 0);
}

TEST(Pools, AllocateInStreamOrder) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  hipMemPool_t pool;
  HIP_OK(hipDeviceGetDefaultMemPool(&pool, 0));
  void* first = nullptr;
  HIP_OK(hipMallocAsync(&first, 5000, stream));
  std::uint64_t used = 0;
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 8192u);
  Gate gate(stream);
  HIP_OK(hipFreeAsync(first, stream));
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 8192u) << "the stream has not come to the free yet";
  gate.open();
  HIP_OK(hipStreamSynchronize(stream));
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReservedMemCurrent, &used));
  EXPECT_EQ(used, 0u) << "the release threshold is 0";
  char* classic = device_bytes(64);
  HIP_OK(hipFreeAsync(classic, stream));
  HIP_OK(hipStreamSynchronize(stream));
  EXPECT_EQ(hipFree(classic), hipErrorInvalidValue);
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Pools, WhatIsFreedTwiceIsRefusedWhereverTheStreamIs) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  for (const bool held : {false, true}) {
    char* const classic = device_bytes(64);
    void* ordered = nullptr;
    HIP_OK(hipMallocAsync(&ordered, 64, stream));
    {
      Gate gate(stream);
      if (!held) {
        gate.open();
        HIP_OK(hipStreamSynchronize(stream));
      }
      for (void* const memory : {static_cast<void*>(classic), ordered}) {
        HIP_OK(hipFreeAsync(memory, stream));
        if (!held) {
          HIP_OK(hipStreamSynchronize(stream));
        }
        ASSERT_EQ(hipFreeAsync(memory, stream), hipErrorInvalidValue);
        EXPECT_EQ(hipFree(memory), hipErrorInvalidValue);
      }
    }
    HIP_OK(hipStreamSynchronize(stream));
  }
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Pools, KeepMemoryUpToTheThreshold) {
  const hipMemPoolProps props{
      hipMemAllocationTypePinned, hipMemHandleTypeNone, {hipMemLocationTypeDevice, 0}, nullptr, {}};
  hipMemPool_t pool;
  HIP_OK(hipMemPoolCreate(&pool, &props));
  std::uint64_t threshold = 1 << 20, reserved = 0;
  HIP_OK(hipMemPoolSetAttribute(pool, hipMemPoolAttrReleaseThreshold, &threshold));
  void* first = nullptr;
  HIP_OK(hipMallocFromPoolAsync(&first, 4096, pool, nullptr));
  HIP_OK(hipFreeAsync(first, nullptr));
  HIP_OK(hipStreamSynchronize(nullptr));
  void* again = nullptr;
  HIP_OK(hipMallocFromPoolAsync(&again, 4096, pool, nullptr));
  EXPECT_EQ(again, first);
  HIP_OK(hipFree(again));
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT_EQ(reserved, 4096u);
  HIP_OK(hipMemPoolTrimTo(pool, 0));
  HIP_OK(hipMemPoolGetAttribute(pool, hipMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT_EQ(reserved, 0u);
  HIP_OK(hipMemPoolDestroy(pool));
  EXPECT_EQ(hipMallocFromPoolAsync(&again, 4096, pool, nullptr), hipErrorInvalidValue);
}

TEST(DISABLED_Ipc, Other) {
  hipIpcMemHandle_t handle;
  ASSERT_EQ(read(std::atoi(std::getenv("IPC_FD")), &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  void* pointer = nullptr;
  HIP_OK(hipIpcOpenMemHandle(&pointer, handle, hipIpcMemLazyEnablePeerAccess));
  char bytes[4];
  HIP_OK(hipMemcpy(bytes, pointer, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(std::memcmp(bytes, "\5\5\5\5", 4), 0);
  HIP_OK(hipMemset(pointer, 9, 100));
  EXPECT_EQ(hipFree(pointer), hipErrorInvalidValue);
  HIP_OK(hipIpcCloseMemHandle(pointer));
  EXPECT_EQ(hipIpcCloseMemHandle(pointer), hipErrorInvalidValue);
}

TEST(Ipc, MemoryIsSharedWithAnotherProcess) {
  char* bytes = device_bytes(100);
  HIP_OK(hipMemset(bytes, 5, 100));
  hipIpcMemHandle_t handle;
  HIP_OK(hipIpcGetMemHandle(&handle, bytes));
  void* pointer = nullptr;
  EXPECT_EQ(hipIpcOpenMemHandle(&pointer, handle, 0), hipErrorInvalidContext) << "not in the process that made it";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  EXPECT_EQ(run_child("DISABLED_Ipc.Other", {{"IPC_FD", std::to_string(ends[0])}}), 0);
  char last = 0;
  HIP_OK(hipMemcpy(&last, bytes + 99, 1, hipMemcpyDeviceToHost));
  EXPECT_EQ(last, 9);
  EXPECT_EQ(hipIpcGetMemHandle(&handle, &last), hipErrorInvalidValue);
  HIP_OK(hipFree(bytes));
}

}  // namespace
