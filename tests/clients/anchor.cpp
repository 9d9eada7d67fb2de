// What RCCL relies on: the graph that a capture names is the one its end gives, and a user object that it retains lives
// until that graph is destroyed. First with an empty capture, then with operations that were captured before.
#include <dlfcn.h>

#include "client.h"

using namespace program;

using CreateUserObject = hipError_t (*)(void**, void*, hipHostFn_t, unsigned, unsigned);
using RetainUserObject = hipError_t (*)(hipGraph_t, void*, unsigned, unsigned);

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "6"}});
  const auto create = reinterpret_cast<CreateUserObject>(dlsym(RTLD_DEFAULT, "hipUserObjectCreate"));
  const auto retain = reinterpret_cast<RetainUserObject>(dlsym(RTLD_DEFAULT, "hipGraphRetainUserObject"));
  constexpr int kCount = 256;
  const Kernels kernels(kLayerSource);
  const hipFunction_t layer = kernels.get("layer");
  const hipStream_t stream = new_stream();
  float *in = allocate<float>(kCount), *out = allocate<float>(kCount);
  int destroyed = 0;
  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(in, step, kCount, stream);
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    if (step > 0) launch(layer, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(in), kCount);
    hipStreamCaptureStatus status{};
    unsigned long long id = 0;
    hipGraph_t captured = nullptr, graph = nullptr;
    CHECK(hipStreamGetCaptureInfo_v2(stream, &status, &id, &captured, nullptr, nullptr));
    void* object = nullptr;
    constexpr unsigned kNoDestructorSync = 1, kMove = 1;
    CHECK(create(
        &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 1, kNoDestructorSync));
    CHECK(retain(captured, object, 1, kMove));
    CHECK(hipStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
    std::printf("step %d: same graph %d, nodes %zu, destroyed %d", step, captured == graph, nodes, destroyed);
    CHECK(hipGraphDestroy(graph));
    std::printf(", then %d\n", destroyed);
  }
  CHECK(hipFree(out));
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
