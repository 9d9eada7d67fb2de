// PyTorch's expandable segments, and engines that put their memory to sleep: addresses are reserved once, and what is
// mapped there is released and mapped anew before each capture. `--copies 1`: a fill and a copy of that memory are
// captured too.
#include "client.h"

using namespace program;

/// A range of addresses with memory that can be exchanged.
class Segment {
 public:
  Segment() {
    properties_.type = hipMemAllocationTypePinned;
    properties_.location.type = hipMemLocationTypeDevice;
    CHECK(hipMemAddressReserve(&address_, kBytes, 0, nullptr, 0));
    map();
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() {
    unmap();
    CHECK(hipMemAddressFree(address_, kBytes));
  }
  void remap() {
    CHECK(hipDeviceSynchronize());
    unmap();
    map();
  }
  float* address() const { return static_cast<float*>(address_); }

 private:
  static constexpr std::size_t kBytes = std::size_t{20} << 20;
  void map() {
    CHECK(hipMemCreate(&handle_, kBytes, &properties_, 0));
    CHECK(hipMemMap(address_, kBytes, 0, handle_, 0));
    hipMemAccessDesc access{};
    access.location = properties_.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    CHECK(hipMemSetAccess(address_, kBytes, &access, 1));
  }
  void unmap() {
    CHECK(hipMemUnmap(address_, kBytes));
    CHECK(hipMemRelease(handle_));
  }
  hipMemAllocationProp properties_{};
  hipMemGenericAllocationHandle_t handle_{};
  void* address_ = nullptr;
};

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "40"}, {"copies", "1"}});
  constexpr int kCount = 256;
  const Kernels kernels(kLayerSource);
  const hipFunction_t layer = kernels.get("layer");
  const hipStream_t stream = new_stream();
  float* in = allocate<float>(kCount);
  Segment segment;
  float *out = segment.address(), *copy = out + 4096;
  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(in, step, kCount, stream);
    if (step != 0) segment.remap();
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < 4; ++i) {
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(i == 0 ? in : out),
             kCount);
    }
    if (options.number("copies") != 0) {
      CHECK(hipMemsetAsync(copy, 0, kCount * sizeof(float), stream));
      CHECK(hipMemcpyAsync(copy, out, kCount * sizeof(float), hipMemcpyDeviceToDevice, stream));
    } else {
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, copy, static_cast<const float*>(out), kCount);
    }
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    print_step(step, copy, kCount);
  }
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
