// runtime_test.cpp: the CUDA runtime on a device: each group of calls once, and the structures that are translated,
// back and forth.
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
hipError_t hipStreamGetDevice(hipStream_t, hipDevice_t*);
hipError_t hipGraphUpload(hipGraphExec_t, hipStream_t);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t, hipGraphNode_t, unsigned);
hipError_t hipUserObjectCreate(void**, void*, hipHostFn_t, unsigned, unsigned);
hipError_t hipGraphRetainUserObject(hipGraph_t, void*, unsigned, unsigned);
}

namespace {

#define HIP_OK(call) ASSERT_EQ(call, hipSuccess) << hipGetErrorName(hipPeekAtLastError())

constexpr char kSource[] = R"(
struct Pair { double first; char second; };
extern "C" __global__ void add(float* out, const float* in, Pair pair, int n) {
  int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
  if (i < n) out[i] = in[i] + float(pair.first) + pair.second;
}
)";
struct Pair {
  double first;
  char second;
};

class Runtime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    int devices = 0;
    if (hipGetDeviceCount(&devices) != hipSuccess) return;
    hiprtcProgram program = nullptr;
    ASSERT_EQ(hiprtcCreateProgram(&program, kSource, "add.hip", 0, nullptr, nullptr), HIPRTC_SUCCESS);
    const hiprtcResult compiled = hiprtcCompileProgram(program, 0, nullptr);
    std::size_t bytes = 0;
    hiprtcGetProgramLogSize(program, &bytes);
    std::string log(bytes, '\0');
    hiprtcGetProgramLog(program, log.data());
    ASSERT_EQ(compiled, HIPRTC_SUCCESS) << log;
    ASSERT_EQ(hiprtcGetCodeSize(program, &bytes), HIPRTC_SUCCESS);
    std::string code(bytes, '\0');
    ASSERT_EQ(hiprtcGetCode(program, code.data()), HIPRTC_SUCCESS);
    hiprtcDestroyProgram(&program);
    HIP_OK(hipModuleLoadData(&module_, code.data()));
    HIP_OK(hipModuleGetFunction(&add_, module_, "add"));
  }
  void SetUp() override {
    if (add_ == nullptr) GTEST_SKIP() << "no device";
    HIP_OK(hipStreamCreate(&stream_));
    HIP_OK(hipMalloc(reinterpret_cast<void**>(&in_), kBytes));
    HIP_OK(hipMalloc(reinterpret_cast<void**>(&out_), kBytes));
    const std::vector<float> ones(kCount, 1.0F);
    HIP_OK(hipMemcpy(in_, ones.data(), kBytes, hipMemcpyHostToDevice));
    HIP_OK(hipMemset(out_, 0, kBytes));
  }
  void TearDown() override {
    if (add_ == nullptr) return;
    HIP_OK(hipFree(in_));
    HIP_OK(hipFree(out_));
    HIP_OK(hipStreamDestroy(stream_));
  }

  hipError_t launch(Pair pair) {
    int n = kCount;
    void* arguments[] = {&out_, &in_, &pair, &n};
    return hipModuleLaunchKernel(add_, (kCount + 63) / 64, 1, 1, 64, 1, 1, 0, stream_, arguments, nullptr);
  }
  float first_out() {
    float value = -1;
    EXPECT_EQ(hipStreamSynchronize(stream_), hipSuccess);
    EXPECT_EQ(hipMemcpy(&value, out_, sizeof value, hipMemcpyDeviceToHost), hipSuccess);
    return value;
  }

  static constexpr int kCount = 1000;
  static constexpr std::size_t kBytes = kCount * sizeof(float);
  static inline hipModule_t module_ = nullptr;
  static inline hipFunction_t add_ = nullptr;
  hipStream_t stream_ = nullptr;
  float *in_ = nullptr, *out_ = nullptr;
};

TEST_F(Runtime, Device) {
  hipDeviceProp_t properties{};
  HIP_OK(hipGetDeviceProperties(&properties, 0));
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(std::string(properties.gcnArchName).substr(0, 3), "sm_");
  EXPECT_GT(properties.totalGlobalMem, std::size_t{1} << 30);
  EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
  int value = 0, device = -1;
  HIP_OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
  EXPECT_EQ(value, properties.multiProcessorCount);
  HIP_OK(hipStreamGetDevice(stream_, &device));
  EXPECT_EQ(device, 0);
}

TEST_F(Runtime, LaunchByPointersAndByBuffer) {
  HIP_OK(launch({2.5, 1}));
  EXPECT_EQ(first_out(), 4.5F);
  struct {
    float *out, *in;
    Pair pair;
    int n;
  } packed{out_, in_, {10, 0}, kCount};
  std::size_t bytes = sizeof packed;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   HIP_LAUNCH_PARAM_END};
  HIP_OK(hipModuleLaunchKernel(add_, 16, 1, 1, 64, 1, 1, 0, stream_, nullptr, extra));
  EXPECT_EQ(first_out(), 11.0F);
}

TEST_F(Runtime, PointersAreTold) {
  hipPointerAttribute_t attributes{};
  HIP_OK(hipPointerGetAttributes(&attributes, in_ + 3));
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, in_ + 3);
  int version = 0;
  HIP_OK(hipRuntimeGetVersion(&version));
  EXPECT_EQ(attributes.memoryType, version < 60000000 ? 1 : 2);
  int on_stack = 0;
  EXPECT_EQ(hipPointerGetAttributes(&attributes, &on_stack), hipErrorInvalidValue);
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  HIP_OK(hipMemGetAddressRange(&base, &bytes, in_ + 3));
  EXPECT_EQ(base, in_);
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(hipMemcpy(out_, in_, kBytes + 1, hipMemcpyDeviceToDevice), hipErrorInvalidValue) << "past the end";
}

TEST_F(Runtime, Capture) {
  HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  HIP_OK(hipMemsetAsync(out_, 3, kBytes, stream_));
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  HIP_OK(hipStreamGetCaptureInfo_v2(stream_, &status, &id, &graph, &nodes, &count));
  EXPECT_EQ(status, hipStreamCaptureStatusActive);
  ASSERT_EQ(count, 1U);
  const hipGraphNode_t fill = nodes[0];
  HIP_OK(launch({2, 3}));
  HIP_OK(hipStreamGetCaptureInfo_v2(stream_, &status, &id, &graph, &nodes, &count));
  ASSERT_EQ(count, 1U);
  const hipGraphNode_t kernel = nodes[0];
  HIP_OK(hipMemcpyAsync(in_, out_, kBytes, hipMemcpyDeviceToDevice, stream_));
  HIP_OK(hipStreamGetCaptureInfo_v2(stream_, &status, &id, &graph, &nodes, &count));
  const hipGraphNode_t copy = nodes[0];
  HIP_OK(hipStreamEndCapture(stream_, &graph));

  int version = 0;
  HIP_OK(hipRuntimeGetVersion(&version));
  hipGraphNodeType type{};
  HIP_OK(hipGraphNodeGetType(kernel, &type));
  EXPECT_EQ(static_cast<int>(type), version < 60000000 ? 1 : 0);
  hipKernelNodeParams params{};
  HIP_OK(hipGraphKernelNodeGetParams(kernel, &params));
  EXPECT_EQ(params.func, static_cast<void*>(add_));
  EXPECT_EQ(params.gridDim.x, 16U);
  EXPECT_EQ(params.blockDim.x, 64U);
  ASSERT_NE(params.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<float**>(params.kernelParams[0]), out_);
  EXPECT_EQ(*static_cast<int*>(params.kernelParams[3]), kCount);
  hipMemsetParams memset{};
  HIP_OK(hipGraphMemsetNodeGetParams(fill, &memset));
  EXPECT_EQ(memset.dst, out_);
  EXPECT_EQ(memset.elementSize, 1U);
  EXPECT_EQ(memset.width, kBytes);
  EXPECT_EQ(memset.height, 1U);
  hipMemcpy3DParms box{};
  HIP_OK(hipGraphMemcpyNodeGetParams(copy, &box));
  EXPECT_EQ(box.dstPtr.ptr, in_);
  EXPECT_EQ(box.srcPtr.ptr, out_);
  EXPECT_EQ(box.extent.width, kBytes);
  EXPECT_EQ(box.kind, hipMemcpyDeviceToDevice);

  hipGraphExec_t exec = nullptr;
  HIP_OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphUpload(exec, stream_));
  HIP_OK(hipGraphLaunch(exec, stream_));
  EXPECT_EQ(first_out(), 6.0F);
  HIP_OK(hipGraphLaunch(exec, stream_));
  EXPECT_EQ(first_out(), 11.0F) << "the first launch left its result in the input";

  Pair other{100, 0};
  int n = kCount;
  void* arguments[] = {&out_, &in_, &other, &n};
  params.kernelParams = arguments;
  HIP_OK(hipGraphExecKernelNodeSetParams(exec, kernel, &params));
  HIP_OK(hipGraphLaunch(exec, stream_));
  EXPECT_EQ(first_out(), 111.0F);
  hipGraphNode_t error_node = nullptr;
  hipGraphExecUpdateResult result{};
  HIP_OK(hipGraphExecUpdate(exec, graph, &error_node, &result));
  EXPECT_EQ(result, hipGraphExecUpdateSuccess);
  HIP_OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, in_, out_, 4, hipMemcpyDeviceToDevice));
  HIP_OK(hipGraphNodeSetEnabled(exec, kernel, 0));
  HIP_OK(hipGraphLaunch(exec, stream_));
  HIP_OK(hipStreamSynchronize(stream_));
  HIP_OK(hipGraphExecDestroy(exec));
  HIP_OK(hipGraphDestroy(graph));
}

TEST_F(Runtime, CaptureAsCommunicationLibrariesDo) {
  hipStream_t own = nullptr, temporary = nullptr;
  hipEvent_t scratch = nullptr;
  HIP_OK(hipStreamCreateWithFlags(&own, hipStreamNonBlocking));
  HIP_OK(hipEventCreateWithFlags(&scratch, hipEventDisableTiming));
  HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
  HIP_OK(launch({2, 0}));
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  hipGraph_t graph = nullptr, ended = nullptr;
  HIP_OK(hipStreamGetCaptureInfo_v2(stream_, &status, &id, &graph, nullptr, nullptr));
  ASSERT_EQ(status, hipStreamCaptureStatusActive);
  HIP_OK(hipEventRecord(scratch, stream_));
  HIP_OK(hipStreamWaitEvent(own, scratch, 0));
  HIP_OK(hipStreamUpdateCaptureDependencies(own, nullptr, 0, hipStreamSetCaptureDependencies));
  HIP_OK(hipEventRecord(scratch, own)) << "where the capture has no node";
  HIP_OK(hipStreamWaitEvent(stream_, scratch, 0));
  void* object = nullptr;
  std::atomic<int> dropped{0};
  const hipHostFn_t drop = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  HIP_OK(hipUserObjectCreate(&object, &dropped, drop, 1, 1));
  HIP_OK(hipGraphRetainUserObject(graph, object, 1, 1));
  HIP_OK(launch({3, 0}));
  HIP_OK(hipEventRecord(scratch, stream_));
  HIP_OK(hipStreamCreateWithFlags(&temporary, hipStreamNonBlocking));
  HIP_OK(hipStreamWaitEvent(temporary, scratch, 0));
  const hipGraphNode_t* tips = nullptr;
  std::size_t count = 0;
  HIP_OK(hipStreamGetCaptureInfo_v2(temporary, &status, nullptr, nullptr, &tips, &count));
  ASSERT_EQ(count, 1U);
  hipGraphNode_t tip = tips[0];
  HIP_OK(hipStreamUpdateCaptureDependencies(own, &tip, 1, hipStreamSetCaptureDependencies));
  HIP_OK(hipStreamDestroy(temporary));
  HIP_OK(launch({4, 0}));
  HIP_OK(hipStreamEndCapture(stream_, &ended));
  EXPECT_EQ(ended, graph);
  std::size_t nodes = 0;
  HIP_OK(hipGraphGetNodes(ended, nullptr, &nodes));
  EXPECT_EQ(nodes, 3U);
  hipGraphExec_t exec = nullptr;
  HIP_OK(hipGraphInstantiate(&exec, ended, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(exec, stream_));
  EXPECT_EQ(first_out(), 5.0F);
  HIP_OK(hipGraphDestroy(ended));
  EXPECT_EQ(dropped, 0) << "the exec holds it, too";
  HIP_OK(hipGraphExecDestroy(exec));
  for (int wait = 0; wait < 1000 && dropped == 0; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(dropped, 1);
  HIP_OK(hipEventDestroy(scratch));
  HIP_OK(hipStreamDestroy(own));
}

TEST_F(Runtime, AKernelReadsAPeersMemory) {
  int devices = 0, reaches = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  HIP_OK(hipDeviceCanAccessPeer(&reaches, 0, 1));
  if (reaches == 0) GTEST_SKIP() << "no device that reaches another";
  float* peer = nullptr;
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipMalloc(reinterpret_cast<void**>(&peer), kBytes));
  const std::vector<float> sevens(kCount, 7.0F);
  HIP_OK(hipMemcpy(peer, sevens.data(), kBytes, hipMemcpyHostToDevice));
  HIP_OK(hipDeviceSynchronize());
  HIP_OK(hipSetDevice(0));
  HIP_OK(hipDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  Pair pair{1, 0};
  int n = kCount;
  void* arguments[] = {&out_, &peer, &pair, &n};
  HIP_OK(hipModuleLaunchKernel(add_, 16, 1, 1, 64, 1, 1, 0, stream_, arguments, nullptr));
  EXPECT_EQ(first_out(), 8.0F);
  HIP_OK(hipDeviceDisablePeerAccess(1));
  HIP_OK(hipFree(peer));
}

TEST_F(Runtime, GraphByHand) {
  hipGraph_t graph = nullptr;
  hipGraphNode_t fill = nullptr, kernel = nullptr, copy = nullptr;
  HIP_OK(hipGraphCreate(&graph, 0));
  hipMemsetParams memset{};
  memset.dst = in_, memset.elementSize = 4, memset.value = 0x40000000, memset.width = kCount, memset.height = 1;
  HIP_OK(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &memset));
  Pair pair{1, 1};
  int n = kCount;
  void* arguments[] = {&out_, &in_, &pair, &n};
  hipKernelNodeParams params{};
  params.func = add_, params.gridDim = dim3(16), params.blockDim = dim3(64), params.kernelParams = arguments;
  HIP_OK(hipGraphAddKernelNode(&kernel, graph, &fill, 1, &params));
  float result = 0;
  HIP_OK(hipGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, &result, out_, sizeof result, hipMemcpyDeviceToHost));
  hipGraphExec_t exec = nullptr;
  HIP_OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(exec, stream_));
  HIP_OK(hipStreamSynchronize(stream_));
  EXPECT_EQ(result, 4.0F);
  hipMemcpy3DParms box{};
  HIP_OK(hipGraphMemcpyNodeGetParams(copy, &box));
  EXPECT_EQ(box.kind, hipMemcpyDeviceToHost);
  HIP_OK(hipGraphExecDestroy(exec));
  HIP_OK(hipGraphDestroy(graph));
}

TEST_F(Runtime, OneMemoryAtTwoAddresses) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, 0};
  int version = 0;
  HIP_OK(hipRuntimeGetVersion(&version));
  if (version >= 50600000) GTEST_SKIP() << "compiled for the layout before HIP 5.6";
  std::size_t bytes = 0;
  HIP_OK(hipMemGetAllocationGranularity(&bytes, &properties, hipMemAllocationGranularityMinimum));
  void *first = nullptr, *second = nullptr;
  HIP_OK(hipMemAddressReserve(&first, bytes, 0, nullptr, 0));
  HIP_OK(hipMemAddressReserve(&second, bytes, 0, nullptr, 0));
  hipMemGenericAllocationHandle_t handle{};
  HIP_OK(hipMemCreate(&handle, bytes, &properties, 0));
  hipMemAccessDesc access{{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite};
  for (void* place : {first, second}) {
    HIP_OK(hipMemMap(place, bytes, 0, handle, 0));
    HIP_OK(hipMemSetAccess(place, bytes, &access, 1));
  }
  unsigned long long flags = 0;
  HIP_OK(hipMemGetAccess(&flags, &access.location, first));
  EXPECT_EQ(flags, static_cast<unsigned long long>(hipMemAccessFlagsProtReadWrite));
  HIP_OK(hipMemset(first, 7, 16));
  unsigned char value = 0;
  HIP_OK(hipMemcpy(&value, second, 1, hipMemcpyDeviceToHost));
  EXPECT_EQ(value, 7);
  for (void* place : {first, second}) {
    HIP_OK(hipMemUnmap(place, bytes));
    HIP_OK(hipMemAddressFree(place, bytes));
  }
  HIP_OK(hipMemRelease(handle));
}

TEST_F(Runtime, StreamOrderedMemoryAndSignals) {
  void* pointer = nullptr;
  HIP_OK(hipMallocAsync(&pointer, kBytes, stream_));
  HIP_OK(hipMemsetAsync(pointer, 1, kBytes, stream_));
  HIP_OK(hipFreeAsync(pointer, stream_));
  HIP_OK(hipMalloc(&pointer, kBytes));
  HIP_OK(hipFreeAsync(pointer, stream_)) << "memory of hipMalloc";
  HIP_OK(hipStreamSynchronize(stream_));
  hipMemPool_t pool = nullptr;
  HIP_OK(hipDeviceGetDefaultMemPool(&pool, 0));
  HIP_OK(hipMemPoolTrimTo(pool, 0));

  HIP_OK(hipExtMallocWithFlags(&pointer, 8, hipMallocSignalMemory));
  HIP_OK(hipStreamWriteValue64(stream_, pointer, 41, 0));
  HIP_OK(hipStreamWaitValue64(stream_, pointer, 41, hipStreamWaitValueGte, UINT64_MAX));
  HIP_OK(hipStreamSynchronize(stream_));
  EXPECT_EQ(*static_cast<volatile std::uint64_t*>(pointer), 41U) << "the host reads it";
  HIP_OK(hipFree(pointer));
}

TEST_F(Runtime, EventsAndHostFunctions) {
  hipEvent_t start = nullptr, stop = nullptr;
  HIP_OK(hipEventCreateWithFlags(&start, hipEventReleaseToSystem));
  HIP_OK(hipEventCreate(&stop));
  HIP_OK(hipEventRecord(start, stream_));
  HIP_OK(launch({1, 1}));
  HIP_OK(hipEventRecord(stop, stream_));
  HIP_OK(hipEventSynchronize(stop));
  float ms = -1;
  HIP_OK(hipEventElapsedTime(&ms, start, stop));
  EXPECT_GE(ms, 0);
  int calls = 0;
  HIP_OK(hipLaunchHostFunc(
      stream_, [](void* data) { ++*static_cast<int*>(data); }, &calls));
  HIP_OK(hipStreamAddCallback(
      stream_, [](hipStream_t, hipError_t, void* data) { ++*static_cast<int*>(data); }, &calls, 0));
  HIP_OK(hipStreamSynchronize(stream_));
  EXPECT_EQ(calls, 2);
  HIP_OK(hipEventDestroy(start));
  HIP_OK(hipEventDestroy(stop));
}

TEST_F(Runtime, Errors) {
  EXPECT_EQ(hipFree(in_ + 4), hipErrorInvalidValue);
  EXPECT_EQ(hipStreamDestroy(nullptr), hipErrorInvalidHandle);
  EXPECT_EQ(hipSetDevice(1000), hipErrorInvalidDevice);
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, SIZE_MAX / 2), hipErrorOutOfMemory);
  EXPECT_EQ(hipGetLastError(), hipErrorOutOfMemory);
  hipGraph_t graph = nullptr;
  HIP_OK(hipFree(nullptr));
  HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipFree(nullptr), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
  HIP_OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipStreamSynchronize(stream_), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(hipStreamEndCapture(stream_, &graph), hipErrorStreamCaptureInvalidated);
}

}  // namespace
