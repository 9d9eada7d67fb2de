// Copies and fills: contents, bounds, kinds, boxes, errors; what other devices may touch.
#include <cstring>
#include <numeric>

#include "support.h"

namespace {

std::vector<unsigned char> read_back(const void* pointer, std::size_t bytes) {
  std::vector<unsigned char> result(bytes);
  EXPECT_EQ(hipMemcpy(result.data(), pointer, bytes, hipMemcpyDeviceToHost), hipSuccess);
  return result;
}

class Copies : public testing::Test {
 protected:
  void SetUp() override {
    a_ = device_bytes(1000);
    b_ = device_bytes(1000);
    HIP_OK(hipMemset(a_, 1, 1000));
    HIP_OK(hipMemset(b_, 2, 1000));
  }
  void TearDown() override {
    HIP_OK(hipFree(a_));
    HIP_OK(hipFree(b_));
  }
  char *a_ = nullptr, *b_ = nullptr;
};

TEST_F(Copies, MoveBytes) {
  std::vector<unsigned char> host(1000);
  std::iota(host.begin(), host.end(), static_cast<unsigned char>(0));
  HIP_OK(hipMemcpy(a_, host.data(), 1000, hipMemcpyHostToDevice));
  HIP_OK(hipMemcpyDtoD(b_, a_, 1000));
  EXPECT_EQ(read_back(b_, 1000), host);
  HIP_OK(hipMemcpyAsync(a_, b_ + 10, 100, hipMemcpyDefault, nullptr));
  HIP_OK(hipDeviceSynchronize());
  EXPECT_EQ(read_back(a_, 100), std::vector<unsigned char>(host.begin() + 10, host.begin() + 110));
  unsigned char two[2] = {};
  HIP_OK(hipMemcpyDtoH(two, b_ + 3, 2));
  EXPECT_EQ(two[1], 4);
  HIP_OK(hipMemcpyWithStream(two, b_ + 4, 2, hipMemcpyDeviceToHost, nullptr));
  EXPECT_EQ(two[1], 5);
}

TEST_F(Copies, BoundsAreThoseOfTheAllocation) {
  char host[2000] = {};
  EXPECT_EQ(hipMemcpy(a_, host, 1001, hipMemcpyHostToDevice), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpy(a_ + 999, host, 2, hipMemcpyHostToDevice), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpyAsync(host, a_ + 1, 1000, hipMemcpyDeviceToHost, nullptr), hipErrorInvalidValue);
  EXPECT_EQ(hipMemset(a_, 0, 1001), hipErrorInvalidValue);
  EXPECT_EQ(hipMemsetD32(a_, 0, 251), hipErrorInvalidValue);
  EXPECT_EQ(hipMemset2D(a_, 100, 0, 100, 11), hipErrorInvalidValue);
  HIP_OK(hipMemset2D(a_, 100, 0, 100, 10));
  EXPECT_EQ(hipMemset(host, 0, 10), hipErrorInvalidValue) << "not the device's";
  EXPECT_EQ(hipMemcpy(nullptr, a_, 1, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  HIP_OK(hipMemcpy(nullptr, nullptr, 0, hipMemcpyDeviceToHost));
  HIP_OK(hipMemset(nullptr, 0, 0));
  EXPECT_EQ(hipMemcpy(host, host + 8, 1, hipMemcpyHostToDevice), hipErrorInvalidValue);
  HIP_OK(hipMemcpy(host, host + 8, 1, hipMemcpyHostToHost));
  EXPECT_EQ(hipMemcpy(host, a_, 1, static_cast<hipMemcpyKind>(7)), hipErrorInvalidMemcpyDirection);
}

TEST_F(Copies, FreedMemoryIsRefused) {
  char* gone = device_bytes(64);
  HIP_OK(hipFree(gone));
  char host[64];
  EXPECT_EQ(hipMemcpy(host, gone, 64, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_EQ(hipMemset(gone, 0, 64), hipErrorInvalidValue);
}

TEST_F(Copies, Boxes) {
  HIP_OK(hipMemcpy2D(a_ + 5, 50, b_, 20, 10, 3, hipMemcpyDeviceToDevice));
  const auto bytes = read_back(a_, 200);
  EXPECT_EQ(bytes[4], 1);
  EXPECT_EQ(bytes[5], 2);
  EXPECT_EQ(bytes[14], 2);
  EXPECT_EQ(bytes[15], 1);
  EXPECT_EQ(bytes[105], 2);
  EXPECT_EQ(bytes[155], 1);
  EXPECT_EQ(hipMemcpy2D(a_, 5, b_, 20, 10, 3, hipMemcpyDeviceToDevice), hipErrorInvalidPitchValue);

  hipMemcpy3DParms params{};
  params.srcPtr = {b_, 10, 10, 5};
  params.dstPtr = {a_, 20, 20, 7};
  params.dstPos = {1, 1, 1};
  params.extent = {4, 2, 2};
  params.kind = hipMemcpyDeviceToDevice;
  HIP_OK(hipMemset(a_, 1, 1000));
  HIP_OK(hipMemcpy3D(&params));
  const auto box = read_back(a_, 1000);
  int moved = 0;
  for (const unsigned char byte : box) moved += byte == 2;
  EXPECT_EQ(moved, 16);
  EXPECT_EQ(box[(1 * 7 + 1) * 20 + 1], 2);
  EXPECT_EQ(box[(2 * 7 + 2) * 20 + 4], 2);

  HIP_OK(hipMemset3D({a_, 10, 10, 5}, 7, {3, 2, 2}));
  EXPECT_EQ(read_back(a_ + (1 * 5 + 1) * 10 + 2, 1)[0], 7);
}

TEST_F(Copies, FillsOfElements) {
  HIP_OK(hipMemsetD16(a_ + 1, 0x1234, 3));
  EXPECT_EQ(read_back(a_, 8), std::vector<unsigned char>({1, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 1}));
  HIP_OK(hipMemsetD32Async(a_, 0x01020304, 1, nullptr));
  EXPECT_EQ(read_back(a_, 5), std::vector<unsigned char>({4, 3, 2, 1, 0x12}));
}

TEST(Peers, CodesAreHips) {
  int count = 0, can = 0;
  HIP_OK(hipGetDeviceCount(&count));
  ASSERT_GE(count, 2);
  HIP_OK(hipSetDevice(0));
  HIP_OK(hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  HIP_OK(hipDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  EXPECT_EQ(hipDeviceCanAccessPeer(&can, 0, count), hipErrorInvalidDevice);
  EXPECT_EQ(hipDeviceEnablePeerAccess(0, 0), hipErrorInvalidDevice);
  EXPECT_EQ(hipDeviceEnablePeerAccess(1, 1), hipErrorInvalidValue);
  EXPECT_EQ(hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
  HIP_OK(hipDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  HIP_OK(hipDeviceDisablePeerAccess(1));
  EXPECT_EQ(hipSetDevice(count), hipErrorInvalidDevice);
}

TEST(Peers, CopiesNeedNoAccessButFillsDo) {
  HIP_OK(hipSetDevice(1));
  char* far = device_bytes(100);
  HIP_OK(hipMemset(far, 3, 100));
  HIP_OK(hipSetDevice(0));
  char* near = device_bytes(100);
  HIP_OK(hipMemcpy(near, far, 100, hipMemcpyDeviceToDevice));
  HIP_OK(hipMemcpyPeer(far, 1, near, 0, 100));
  EXPECT_EQ(hipMemcpyPeer(far, 77, near, 0, 100), hipErrorInvalidDevice);
  HIP_OK(hipDeviceEnablePeerAccess(1, 0));
  HIP_OK(hipMemset(far, 4, 100));
  HIP_OK(hipDeviceDisablePeerAccess(1));
  EXPECT_EQ(hipMemset(far, 5, 100), hipErrorIllegalAddress);
  EXPECT_EQ(hipMemset(near, 5, 100), hipErrorIllegalAddress) << "sticky";
  EXPECT_EQ(hipDeviceSynchronize(), hipErrorIllegalAddress);
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 8), hipErrorIllegalAddress);
  HIP_OK(hipDeviceReset());
  HIP_OK(hipMalloc(&pointer, 8));
  HIP_OK(hipFree(pointer));
  EXPECT_EQ(hipFree(near), hipErrorInvalidValue) << "gone with the reset";
  HIP_OK(hipFree(far));
}

}  // namespace
