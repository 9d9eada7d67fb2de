// A program whose graph names memory that is not its own any more, or never was, in each of the ways that graphpool
// check tells apart; --defect none: it does not. Some defects come with sound uses that look alike: all of them are in
// none.
#include <csignal>

#include "program.h"

using namespace program;

namespace {

constexpr char kSource[] = R"(
struct Work { float* out; int count; };
extern "C" __global__ void add_one(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] + 1;
}
extern "C" __global__ void fill_range(float* begin, float* end) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (begin + i < end) begin[i] = 7;
}
extern "C" __global__ void fill_work(Work work, int number) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < work.count) work.out[i] = static_cast<float>(number);
}
)";
constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);
struct Work {
  float* out;
  int count;
};

/// Its name is what the tests look for, so the call is in it and not its last.
__attribute__((noinline)) float* make_scratch() {
  float* scratch = nullptr;
  CHECK(hipMalloc(reinterpret_cast<void**>(&scratch), kBytes));
  return scratch;
}
__attribute__((noinline)) void drop_scratch(float* scratch) { CHECK(hipFree(scratch)); }

/// Memory that the program maps itself, at an address it keeps.
struct Mapped {
  void* base = nullptr;
  std::size_t bytes = 0;
  hipMemAllocationProp properties{};
  hipMemGenericAllocationHandle_t handle{};

  Mapped() {
    properties.type = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    CHECK(hipMemGetAllocationGranularity(&bytes, &properties, hipMemAllocationGranularityRecommended));
    CHECK(hipMemAddressReserve(&base, bytes, 0, nullptr, 0));
    map();
  }
  __attribute__((noinline)) void map() {
    CHECK(hipMemCreate(&handle, bytes, &properties, 0));
    CHECK(hipMemMap(base, bytes, 0, handle, 0));
    hipMemAccessDesc access{};
    access.location = properties.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    CHECK(hipMemSetAccess(base, bytes, &access, 1));
  }
  __attribute__((noinline)) void unmap() {
    CHECK(hipMemUnmap(base, bytes));
    CHECK(hipMemRelease(handle));
  }
};

/// Frees it in the stream's order, and waits.
__attribute__((noinline)) void drop_async(float* scratch, hipStream_t stream) {
  CHECK(hipFreeAsync(scratch, stream));
  CHECK(hipStreamSynchronize(stream));
}

float* make(const std::string& defect, const std::string& memory, Mapped* mapped, hipStream_t stream) {
  if (memory == "mapped") return static_cast<float*>(mapped->base);
  if (memory == "async") {
    float* scratch = nullptr;
    CHECK(hipMallocAsync(reinterpret_cast<void**>(&scratch), kBytes, stream));
    CHECK(hipStreamSynchronize(stream));
    return scratch;
  }
  if (defect != "other-device" && memory != "peer") return make_scratch();
  CHECK(hipSetDevice(1));
  float* const scratch = make_scratch();
  CHECK(hipSetDevice(0));
  if (memory == "peer") CHECK(hipDeviceEnablePeerAccess(1, 0));
  return scratch;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(
      argc, argv,
      {{"defect", "none"}, {"operation", "kernel"}, {"memory", "malloc"}, {"launches", "3"}, {"killed", "0"}});
  const std::string &defect = options.text("defect"), &operation = options.text("operation");
  const Kernels& kernels = *new Kernels(kSource);  // unloading fails where a launch has
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  const std::string& memory = options.text("memory");
  Mapped* const mapped = memory == "mapped" ? new Mapped : nullptr;
  float *kept = allocate<float>(kCount), *scratch = make(defect, memory, mapped, stream);
  CHECK(hipMemset(kept, 0, kBytes));
  if (defect != "other-device" && memory != "peer") CHECK(hipMemset(scratch, 0, kBytes));
  const auto drop = [&] {
    if (memory == "mapped")
      mapped->unmap();
    else if (memory == "async")
      drop_async(scratch, stream);
    else
      drop_scratch(scratch);
  };
  // The address right behind the allocation is an end, and sound; what is named beyond it is not.
  float* const behind = scratch + kCount;
  const int touched = defect == "none" ? kCount : 0;  // what a kernel would do there is the device's to say
  float* const used = defect == "beyond"    ? behind + 16
                      : defect == "nowhere" ? reinterpret_cast<float*>(0x7000'0000)
                                            : scratch;

  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  launch(kernels.get("add_one"), blocks_for(kCount), dim3(kThreads), stream, static_cast<const float*>(kept), kept,
         kCount);
  if (operation == "kernel")
    launch(kernels.get("add_one"), blocks_for(kCount), dim3(kThreads), stream, static_cast<const float*>(kept), used,
           touched);
  if (operation == "structure")
    launch(kernels.get("fill_work"), blocks_for(kCount), dim3(kThreads), stream, Work{used, touched}, 7);
  if (operation == "copy") CHECK(hipMemcpyAsync(kept, used, kBytes, hipMemcpyDeviceToDevice, stream));
  if (operation == "fill") CHECK(hipMemsetAsync(used, 0, kBytes, stream));
  if (operation == "end")
    launch(kernels.get("fill_range"), blocks_for(kCount), dim3(kThreads), stream, scratch, behind);
  hipGraph_t graph = nullptr;
  CHECK(hipStreamEndCapture(stream, &graph));

  if (defect == "freed-before") drop();
  hipGraphExec_t exec = nullptr;
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  if (defect == "none") CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  if (defect == "freed") drop();
  if (defect == "none") {
    // Other memory at the address that the graph has is what the graph is to work on.
    if (mapped != nullptr) mapped->unmap(), mapped->map();
  }
  if (defect == "used-again") {
    float* const before = scratch;
    drop();
    scratch = make_scratch();
    if (scratch != before) {
      std::fprintf(stderr, "the address was not handed out again\n");
      return 3;
    }
  }
  // What a launch over freed memory does is the runtime's to say.
  for (int i = 0; i < options.number("launches"); ++i) {
    static_cast<void>(hipGraphLaunch(exec, stream));
    if (i + 1 == options.number("killed")) static_cast<void>(raise(SIGKILL));
  }
  static_cast<void>(hipStreamSynchronize(stream));
  std::printf("launched\n");
  return 0;
}
