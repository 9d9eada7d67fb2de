// graph_support.h: what the tests of captures and graphs share: HIP functions newer than the oldest header, checks,
// streams and memory that go away by themselves, gates that hold a stream.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../cpuhip_statistics.h"
#include "common/graph_abi.h"

extern "C" {
hipError_t hipStreamBeginCaptureToGraph(hipStream_t, hipGraph_t, const hipGraphNode_t*, const void*, size_t,
                                        hipStreamCaptureMode);
hipError_t hipStreamBeginCapture_spt(hipStream_t, hipStreamCaptureMode);
hipError_t hipStreamEndCapture_spt(hipStream_t, hipGraph_t*);
hipError_t hipStreamIsCapturing_spt(hipStream_t, hipStreamCaptureStatus*);
hipError_t hipGraphLaunch_spt(hipGraphExec_t, hipStream_t);
hipError_t hipGraphUpload(hipGraphExec_t, hipStream_t);
hipError_t hipGraphExecGetFlags(hipGraphExec_t, unsigned long long*);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t*, hipGraph_t, hipfront::InstantiateParams*);
hipError_t hipGraphDebugDotPrint(hipGraph_t, const char*, unsigned);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t, hipGraphNode_t, unsigned);
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t, hipGraphNode_t, unsigned*);
hipError_t hipUserObjectCreate(hipUserObject_t*, void*, hipHostFn_t, unsigned, unsigned);
hipError_t hipUserObjectRetain(hipUserObject_t, unsigned);
hipError_t hipUserObjectRelease(hipUserObject_t, unsigned);
hipError_t hipGraphRetainUserObject(hipGraph_t, hipUserObject_t, unsigned, unsigned);
hipError_t hipGraphReleaseUserObject(hipGraph_t, hipUserObject_t, unsigned);
hipError_t hipGraphAddMemAllocNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t,
                                   hipfront::MemAllocNodeParams*);
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t, hipfront::MemAllocNodeParams*);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, void*);
hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t, void*);
hipError_t hipDeviceGetGraphMemAttribute(int, int, void*);
hipError_t hipDeviceSetGraphMemAttribute(int, int, void*);
hipError_t hipDeviceGraphMemTrim(int);
hipError_t hipGraphAddNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, hipfront::NodeParams*);
hipError_t hipGraphNodeSetParams(hipGraphNode_t, hipfront::NodeParams*);
hipError_t hipGraphExecNodeSetParams(hipGraphExec_t, hipGraphNode_t, hipfront::NodeParams*);
hipError_t hipGraphKernelNodeCopyAttributes(hipGraphNode_t, hipGraphNode_t);
hipError_t hipDrvGraphAddMemcpyNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const HIP_MEMCPY3D*,
                                    hipCtx_t);
hipError_t hipDrvGraphMemcpyNodeGetParams(hipGraphNode_t, HIP_MEMCPY3D*);
hipError_t hipDrvGraphAddMemsetNode(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t, const void*, hipCtx_t);
}

namespace graph_test {

#define ASSERT_HIP(call) ASSERT_EQ(hipSuccess, (call))
#define EXPECT_HIP(call) EXPECT_EQ(hipSuccess, (call))

inline cpuhip_statistics_t statistics() {
  using Function = void (*)(cpuhip_statistics_t*);
  static const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cpuhip_statistics"));
  cpuhip_statistics_t now = {};
  if (function == nullptr) {
    ADD_FAILURE() << "cpuhip_statistics is not exported";
  } else {
    function(&now);
  }
  return now;
}

inline int version() {
  int version = 0;
  EXPECT_HIP(hipRuntimeGetVersion(&version));
  return version;
}

/// What hipGraphDebugDotPrint writes. The file is this process's own: the same test runs several times at once.
inline std::string debug_dot(hipGraph_t graph, unsigned flags) {
  const std::string path = testing::TempDir() + "cpuhip_debug_dot." + std::to_string(getpid());
  EXPECT_HIP(hipGraphDebugDotPrint(graph, path.c_str(), flags));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  return text.str();
}

class TestStream {
 public:
  explicit TestStream(unsigned flags = hipStreamNonBlocking) { EXPECT_HIP(hipStreamCreateWithFlags(&stream_, flags)); }
  ~TestStream() {
    if (stream_ != nullptr) {
      EXPECT_HIP(hipStreamDestroy(stream_));
    }
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator hipStream_t() const { return stream_; }
  hipStream_t release() { return std::exchange(stream_, nullptr); }

 private:
  hipStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  TestEvent() { EXPECT_HIP(hipEventCreateWithFlags(&event_, hipEventDisableTiming)); }
  ~TestEvent() { EXPECT_HIP(hipEventDestroy(event_)); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator hipEvent_t() const { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

/// Device memory, filled with zeroes.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    EXPECT_HIP(hipMalloc(&data_, bytes));
    clear();
  }
  ~Buffer() { EXPECT_HIP(hipFree(data_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  unsigned char* data() const { return static_cast<unsigned char*>(data_); }
  void clear() const {
    EXPECT_HIP(hipMemset(data_, 0, bytes_));
    EXPECT_HIP(hipDeviceSynchronize());
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> out(bytes_);
    EXPECT_HIP(hipMemcpy(out.data(), data_, bytes_, hipMemcpyDeviceToHost));
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// A host function that waits until it is opened.
struct Gate {
  std::atomic<bool> open{false}, entered{false};
  static void wait(void* gate) {
    auto* const self = static_cast<Gate*>(gate);
    self->entered = true;
    while (!self->open) std::this_thread::yield();
  }
};

template <typename Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 10000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

inline void count_up(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

inline hipStreamCaptureStatus status(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  EXPECT_HIP(hipStreamIsCapturing(stream, &status));
  return status;
}

inline std::vector<hipGraphNode_t> nodes_of(hipGraph_t graph) {
  std::size_t count = 0;
  EXPECT_HIP(hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  if (count > 0) {
    EXPECT_HIP(hipGraphGetNodes(graph, nodes.data(), &count));
  }
  return nodes;
}
inline std::size_t edge_count(hipGraph_t graph) {
  std::size_t count = 0;
  EXPECT_HIP(hipGraphGetEdges(graph, nullptr, nullptr, &count));
  return count;
}

}  // namespace graph_test
