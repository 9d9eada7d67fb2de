// Virtual memory management: aliases, access, HIP's error codes and its rules by version.
#include <csignal>
#include <cstring>

#include "support.h"

namespace {

constexpr std::size_t kBytes = 64 * 1024;

/// hipMemAllocationProp as HIP lays it out from 5.6 on.
struct NewProperties {
  int type, handle_type, location_type, location;
  void* win32;
  unsigned char flags[4];
};

hipMemAllocationProp properties(int device, int handle_type = hipMemHandleTypeNone) {
  int version = 0;
  EXPECT_EQ(hipRuntimeGetVersion(&version), hipSuccess);
  hipMemAllocationProp result{};
  if (version >= 50600000) {
    const NewProperties layout{hipMemAllocationTypePinned, handle_type, hipMemLocationTypeDevice, device, nullptr, {}};
    std::memcpy(&result, &layout, sizeof layout);
  } else {
    result.type = hipMemAllocationTypePinned;
    result.requestedHandleType = static_cast<hipMemAllocationHandleType>(handle_type);
    result.location = {hipMemLocationTypeDevice, device};
  }
  return result;
}

hipMemGenericAllocationHandle_t create(int device, std::size_t bytes = kBytes, int handle_type = hipMemHandleTypeNone) {
  const hipMemAllocationProp wanted = properties(device, handle_type);
  hipMemGenericAllocationHandle_t handle = nullptr;
  EXPECT_EQ(hipMemCreate(&handle, bytes, &wanted, 0), hipSuccess);
  return handle;
}

char* reserve(std::size_t bytes = kBytes) {
  void* pointer = nullptr;
  EXPECT_EQ(hipMemAddressReserve(&pointer, bytes, 0, nullptr, 0), hipSuccess);
  return static_cast<char*>(pointer);
}

hipError_t give_access(void* pointer, int device, std::size_t bytes = kBytes,
                       hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite) {
  const hipMemAccessDesc access{{hipMemLocationTypeDevice, device}, flags};
  return hipMemSetAccess(pointer, bytes, &access, 1);
}

TEST(DISABLED_Vmm, UnmapsWhatHipFreeHasTakenApart) {
  char* const place = reserve();
  HIP_OK(hipMemMap(place, kBytes, 0, create(0), 0));
  HIP_OK(hipFree(place + 100));
  EXPECT_EQ(hipFree(place), hipErrorInvalidValue);
  (void)hipMemUnmap(place, kBytes);
}

TEST(Vmm, HipFreeTakesAMappingApart) {
  EXPECT_EQ(run_child("DISABLED_Vmm.UnmapsWhatHipFreeHasTakenApart", {}), 128 + SIGABRT);
}

TEST(DISABLED_Vmm, UnmapsWhatNobodyReserved) {
  char* const place = reserve();
  HIP_OK(hipMemAddressFree(place, kBytes));
  EXPECT_EQ(hipMemUnmap(place, kBytes), hipErrorInvalidValue);
}

TEST(Vmm, WhatNobodyReservedCannotBeUnmappedBySomeVersions) {
  EXPECT_EQ(run_child("DISABLED_Vmm.UnmapsWhatNobodyReserved", {{"CPUHIP_VERSION", "50731921"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Vmm.UnmapsWhatNobodyReserved", {{"CPUHIP_VERSION", "60443484"}}), 128 + SIGABRT);
}

TEST(Vmm, OneHandleAtTwoAddresses) {
  std::size_t granularity = 0, free_before = 0, free_now = 0, total = 0;
  const hipMemAllocationProp wanted = properties(0);
  HIP_OK(hipMemGetAllocationGranularity(&granularity, &wanted, hipMemAllocationGranularityMinimum));
  EXPECT_EQ(kBytes % granularity, 0u);
  HIP_OK(hipMemGetInfo(&free_before, &total));
  const auto handle = create(0);
  HIP_OK(hipMemGetInfo(&free_now, &total));
  EXPECT_EQ(free_now, free_before - kBytes);
  char *one = reserve(), *two = reserve();
  for (char* place : {one, two}) {
    HIP_OK(hipMemMap(place, kBytes, 0, handle, 0));
    HIP_OK(give_access(place, 0));
  }
  HIP_OK(hipMemset(one, 6, kBytes));
  char last = 0;
  HIP_OK(hipMemcpy(&last, two + kBytes - 1, 1, hipMemcpyDeviceToHost));
  EXPECT_EQ(last, 6);
  HIP_OK(hipMemRelease(handle)) << "a mapping keeps the memory";
  HIP_OK(hipMemUnmap(one, kBytes));
  HIP_OK(hipMemset(two, 7, kBytes));
  EXPECT_EQ(hipMemAddressFree(two, kBytes), hipErrorInvalidValue) << "still mapped";
  HIP_OK(hipMemUnmap(two, kBytes));
  for (char* place : {one, two}) HIP_OK(hipMemAddressFree(place, kBytes));
  HIP_OK(hipMemGetInfo(&free_now, &total));
  EXPECT_EQ(free_now, free_before);
}

TEST(Vmm, CodesAreHips) {
  hipMemAllocationProp wanted = properties(0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  EXPECT_EQ(hipMemCreate(&handle, kBytes + 1, &wanted, 0), hipErrorInvalidValue);
  EXPECT_EQ(hipMemCreate(&handle, kBytes, &wanted, 1), hipErrorInvalidValue);
  EXPECT_EQ(hipMemCreate(&handle, kBytes, nullptr, 0), hipErrorInvalidValue);
  wanted = properties(0, hipMemHandleTypeWin32);
  EXPECT_EQ(hipMemCreate(&handle, kBytes, &wanted, 0), hipErrorNotSupported);
  wanted = properties(0);
  EXPECT_EQ(hipMemCreate(&handle, std::size_t{1} << 40, &wanted, 0), hipErrorOutOfMemory);
  void* pointer = nullptr;
  EXPECT_EQ(hipMemAddressReserve(&pointer, kBytes, 3, nullptr, 0), hipErrorInvalidValue);
  EXPECT_EQ(hipMemAddressReserve(&pointer, 5, 0, nullptr, 0), hipErrorInvalidValue);
  char* place = reserve();
  handle = create(0);
  EXPECT_EQ(hipMemMap(place, kBytes, 4096, handle, 0), hipErrorInvalidValue) << "no offsets";
  EXPECT_EQ(hipMemMap(place, 2 * kBytes, 0, handle, 0), hipErrorInvalidValue);
  EXPECT_EQ(hipMemMap(place, kBytes / 2, 0, handle, 0), hipErrorInvalidValue) << "whole reservations before 6.2";
  EXPECT_EQ(give_access(place, 0), hipErrorInvalidValue) << "nothing mapped";
  EXPECT_EQ(hipMemUnmap(place, kBytes), hipErrorInvalidValue);
  HIP_OK(hipMemMap(place, kBytes, 0, handle, 0));
  EXPECT_EQ(hipMemMap(place, kBytes, 0, handle, 0), hipErrorInvalidValue);
  EXPECT_EQ(give_access(place, 99), hipErrorInvalidValue);
  hipIpcMemHandle_t ipc;
  EXPECT_EQ(hipIpcGetMemHandle(&ipc, place), hipErrorInvalidValue);
  hipMemGenericAllocationHandle_t same = nullptr;
  HIP_OK(hipMemRetainAllocationHandle(&same, place + 5));
  EXPECT_EQ(same, handle);
  HIP_OK(hipMemUnmap(place, kBytes));
  HIP_OK(hipMemRelease(handle));
  EXPECT_EQ(hipMemRelease(handle), hipErrorInvalidValue);
  HIP_OK(hipMemAddressFree(place, kBytes));
  EXPECT_EQ(hipMemAddressFree(place, kBytes), hipErrorInvalidValue);
}

TEST(Vmm, OnlyDevicesWithAccessMayTouch) {
  HIP_OK(hipSetDevice(0));
  const auto handle = create(0);
  char* place = reserve();
  HIP_OK(hipMemMap(place, kBytes, 0, handle, 0));
  HIP_OK(give_access(place, 1));
  unsigned long long flags = 9;
  const hipMemLocation first{hipMemLocationTypeDevice, 0}, second{hipMemLocationTypeDevice, 1};
  HIP_OK(hipMemGetAccess(&flags, &first, place));
  EXPECT_EQ(flags, 0u);
  HIP_OK(hipMemGetAccess(&flags, &second, place));
  EXPECT_EQ(flags, 3u);
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipMemset(place, 1, kBytes));
  HIP_OK(give_access(place, 1, kBytes, hipMemAccessFlagsProtRead));
  EXPECT_EQ(hipMemset(place, 1, kBytes), hipErrorIllegalAddress) << "may only be read";
  HIP_OK(hipDeviceReset());
  HIP_OK(hipSetDevice(0));
  char byte = 0;
  EXPECT_EQ(hipMemcpy(&byte, place, 1, hipMemcpyDeviceToHost), hipErrorIllegalAddress) << "copies need access too";
  HIP_OK(hipDeviceReset());
  HIP_OK(hipMemUnmap(place, kBytes));
  HIP_OK(hipMemRelease(handle));
  HIP_OK(hipMemAddressFree(place, kBytes));
}

TEST(Vmm, WithoutAccessNobodyTouches) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        char* place = reserve();
        (void)hipMemMap(place, kBytes, 0, create(0), 0);
        *static_cast<volatile char*>(place) = 1;
      },
      "");
}

TEST(Vmm, MemoryIsExportedByDescriptor) {
  const auto handle = create(0, kBytes, hipMemHandleTypePosixFileDescriptor);
  int descriptor = -1;
  HIP_OK(hipMemExportToShareableHandle(&descriptor, handle, hipMemHandleTypePosixFileDescriptor, 0));
  hipMemGenericAllocationHandle_t imported = nullptr;
  HIP_OK(hipMemImportFromShareableHandle(&imported, &descriptor, hipMemHandleTypePosixFileDescriptor));
  close(descriptor);
  char *one = reserve(), *two = reserve();
  HIP_OK(hipMemMap(one, kBytes, 0, handle, 0));
  HIP_OK(hipMemMap(two, kBytes, 0, imported, 0));
  HIP_OK(give_access(one, 0));
  HIP_OK(give_access(two, 0));
  HIP_OK(hipMemset(one, 8, kBytes));
  HIP_OK(hipDeviceSynchronize());
  EXPECT_EQ(two[100], 8);
  for (char* place : {one, two}) {
    HIP_OK(hipMemUnmap(place, kBytes));
    HIP_OK(hipMemAddressFree(place, kBytes));
  }
  HIP_OK(hipMemRelease(handle));
  HIP_OK(hipMemRelease(imported));
  const auto closed = create(0);
  EXPECT_EQ(hipMemExportToShareableHandle(&descriptor, closed, hipMemHandleTypePosixFileDescriptor, 0),
            hipErrorInvalidValue);
  HIP_OK(hipMemRelease(closed));
}

TEST(DISABLED_Six, Parts) {
  char* place = reserve(2 * kBytes);
  const auto first = create(0), second = create(0);
  HIP_OK(hipMemMap(place, kBytes, 0, first, 0));
  HIP_OK(hipMemMap(place + kBytes, kBytes, 0, second, 0));
  HIP_OK(give_access(place, 0, 2 * kBytes));
  EXPECT_EQ(give_access(place, 0, kBytes / 2), hipErrorInvalidValue) << "whole mappings only";
  HIP_OK(hipMemset(place + kBytes - 8, 3, 16)) << "neighbours are one range";
  int value = 0;
  constexpr auto kVmmAttribute = static_cast<hipDeviceAttribute_t>(hipDeviceAttributeMemoryPoolsSupported + 1);
  HIP_OK(hipDeviceGetAttribute(&value, kVmmAttribute, 0));
  EXPECT_EQ(value, 1);
  HIP_OK(hipMemUnmap(place, 2 * kBytes));
  HIP_OK(hipMemRelease(first));
  HIP_OK(hipMemRelease(second));
  HIP_OK(hipMemAddressFree(place, 2 * kBytes));
}

TEST(DISABLED_Off, NotSupported) {
  void* pointer = nullptr;
  EXPECT_EQ(hipMemAddressReserve(&pointer, kBytes, 0, nullptr, 0), hipErrorNotSupported);
}

TEST(Vmm, FollowsTheVersion) {
  int value = 0;
  constexpr auto kVmmAttribute = static_cast<hipDeviceAttribute_t>(hipDeviceAttributeMemoryPoolsSupported + 1);
  EXPECT_EQ(hipDeviceGetAttribute(&value, kVmmAttribute, 0), hipErrorInvalidValue) << "5.2 does not know it";
  EXPECT_EQ(run_child("DISABLED_Six.Parts", {{"CPUHIP_VERSION", "60241133"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Off.NotSupported", {{"CPUHIP_VMM", "0"}}), 0);
}

}  // namespace
