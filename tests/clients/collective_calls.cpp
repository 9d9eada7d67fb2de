// What RCCL makes inside a capture, for one communicator and one rank: `--api 21` as 2.21 does, `--api 27` as 2.27; the
// collective is a kernel that reads its plan's work from device memory. `--proxy 1`: host nodes for the network's
// threads, as 2.21 adds them. `--update 1`: one exec, updated each step.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "client.h"

using namespace program;

constexpr char kSource[] = R"(
struct Work { float* data; int count; };
extern "C" __global__ void collective(void* communicator, unsigned long long channels, Work* work) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < work->count) work->data[i] = work->data[i] * 2;
}
)";

struct Work {
  float* data;
  int count;
};

/// A captured collective: what its graph keeps alive.
struct Plan {
  Work* work = nullptr;
};

std::atomic<int> plans_alive{0};
std::atomic<int> callbacks{0};
// A runtime may call the destructors of user objects on a thread of its own, and later.
std::mutex ended_mutex;
std::deque<Plan*> ended;

using CreateUserObject = hipError_t (*)(void**, void*, hipHostFn_t, unsigned, unsigned);
using RetainUserObject = hipError_t (*)(hipGraph_t, void*, unsigned, unsigned);

class Communicator {
 public:
  Communicator(bool newer, bool proxy, hipFunction_t kernel) : newer_(newer), proxy_(proxy), kernel_(kernel) {
    create_ = reinterpret_cast<CreateUserObject>(dlsym(RTLD_DEFAULT, "hipUserObjectCreate"));
    retain_ = reinterpret_cast<RetainUserObject>(dlsym(RTLD_DEFAULT, "hipGraphRetainUserObject"));
    CHECK(hipEventCreateWithFlags(&scratch_, hipEventDisableTiming));
    memory_ = allocate<char>(256);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Frees the plans of graphs that are gone.
  void reclaim() {
    std::deque<Plan*> plans;
    {
      const std::scoped_lock guard(ended_mutex);
      plans = std::exchange(ended, {});
    }
    for (const Plan* const plan : plans) {
      const Relaxed relaxed;
      CHECK(hipFree(plan->work));
      delete plan;
    }
  }

  void all_reduce(float* data, int count, hipStream_t user, bool first) {
    hipStreamCaptureStatus status{};
    unsigned long long id = 0;
    hipGraph_t graph = nullptr;
    CHECK(hipStreamGetCaptureInfo_v2(user, &status, &id, &graph, nullptr, nullptr));
    if (newer_) {
      acquire_newer(user, first);
    } else {
      acquire_older(user, graph);
    }
    Plan* const plan = retain_plan(graph);
    upload(plan, {data, count});
    launch(kernel_, blocks_for(count), dim3(kThreads), user, static_cast<void*>(memory_), 1ULL, plan->work);
    release(user);
  }

  /// The capturing stream goes on behind all collectives.
  void join(hipStream_t user) {
    if (!newer_) return;
    CHECK(hipEventRecord(scratch_, own_));
    CHECK(hipStreamWaitEvent(user, scratch_, 0));
  }

  void destroy() {
    reclaim();
    CHECK(hipEventDestroy(scratch_));
    if (own_ != nullptr) CHECK(hipStreamDestroy(own_));
    CHECK(hipFree(memory_));
  }

 private:
  void acquire_older(hipStream_t user, hipGraph_t graph) {
    CHECK(hipStreamUpdateCaptureDependencies(user, nullptr, 0, hipStreamAddCaptureDependencies));
    if (!proxy_) return;
    const hipHostNodeParams params{[](void*) { ++callbacks; }, nullptr};
    hipGraphNode_t node = nullptr;
    CHECK(hipGraphAddHostNode(&node, graph, nullptr, 0, &params));
    CHECK(hipStreamUpdateCaptureDependencies(user, &node, 1, hipStreamAddCaptureDependencies));
  }
  void acquire_newer(hipStream_t user, bool first) {
    if (first) {
      if (own_ == nullptr) own_ = new_stream();
      hipEvent_t fork = nullptr;
      CHECK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
      CHECK(hipEventRecord(fork, user));
      CHECK(hipStreamWaitEvent(own_, fork, 0));
      CHECK(hipEventDestroy(fork));
      CHECK(hipStreamUpdateCaptureDependencies(own_, nullptr, 0, hipStreamSetCaptureDependencies));
    }
    CHECK(hipEventRecord(scratch_, own_));
    CHECK(hipStreamWaitEvent(user, scratch_, 0));
  }
  Plan* retain_plan(hipGraph_t graph) {
    auto* const plan = new Plan;
    void* object = nullptr;
    constexpr unsigned kNoDestructorSync = 1, kMove = 1;
    ++plans_alive;
    const hipHostFn_t drop = [](void* pointer) {
      const std::scoped_lock guard(ended_mutex);
      ended.push_back(static_cast<Plan*>(pointer));
      --plans_alive;
    };
    CHECK(create_(&object, plan, drop, 1, kNoDestructorSync));
    CHECK(retain_(graph, object, 1, kMove));
    return plan;
  }
  static void upload(Plan* plan, const Work& work) {
    const Relaxed relaxed;
    CHECK(hipExtMallocWithFlags(reinterpret_cast<void**>(&plan->work), sizeof work, hipDeviceMallocDefault));
    const hipStream_t side = new_stream();
    CHECK(hipMemcpyAsync(plan->work, &work, sizeof work, hipMemcpyHostToDevice, side));
    CHECK(hipStreamSynchronize(side));
    CHECK(hipStreamDestroy(side));
  }
  void release(hipStream_t user) {
    hipStreamCaptureStatus status{};
    const hipGraphNode_t* tips = nullptr;
    std::size_t count = 0;
    if (!newer_) {
      CHECK(hipStreamGetCaptureInfo_v2(user, &status, nullptr, nullptr, &tips, &count));
      return;
    }
    // The own stream goes on from where the user's is: by a temporary stream that waits for it.
    CHECK(hipEventRecord(scratch_, user));
    const hipStream_t temporary = new_stream();
    CHECK(hipStreamWaitEvent(temporary, scratch_, 0));
    CHECK(hipStreamGetCaptureInfo_v2(temporary, &status, nullptr, nullptr, &tips, &count));
    std::vector<hipGraphNode_t> nodes(tips, tips + count);
    CHECK(hipStreamUpdateCaptureDependencies(own_, nodes.data(), count, hipStreamSetCaptureDependencies));
    CHECK(hipStreamDestroy(temporary));
  }

  bool newer_, proxy_;
  hipFunction_t kernel_;
  CreateUserObject create_ = nullptr;
  RetainUserObject retain_ = nullptr;
  hipEvent_t scratch_ = nullptr;
  hipStream_t own_ = nullptr;
  char* memory_ = nullptr;
};

/// All graphs are gone: so are their plans, now or soon.
void wait_for_plans() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (plans_alive != 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "20"}, {"api", "21"}, {"proxy", "0"}, {"layers", "3"}, {"update", "0"}});
  constexpr int kCount = 256;
  const bool update = options.number("update") != 0;
  const Kernels layers(kLayerSource), collectives(kSource);
  const hipFunction_t layer = layers.get("layer");
  const hipStream_t stream = new_stream();
  float* in = allocate<float>(kCount);
  Communicator communicator(options.number("api") >= 27, options.number("proxy") != 0, collectives.get("collective"));
  hipGraphExec_t exec = nullptr;
  for (int step = 0; step < options.number("steps"); ++step) {
    float *hidden = allocate<float>(kCount), *out = allocate<float>(kCount);
    upload_input(in, step, kCount, stream);
    communicator.reclaim();
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int i = 0; i < options.number("layers"); ++i) {
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, hidden, static_cast<const float*>(i == 0 ? in : out),
             kCount);
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(hidden), kCount);
      communicator.all_reduce(out, kCount, stream, i == 0);
    }
    communicator.join(stream);
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    if (update && exec != nullptr) {
      hipGraphNode_t where = nullptr;
      hipGraphExecUpdateResult result{};
      CHECK(hipGraphExecUpdate(exec, graph, &where, &result));
    } else {
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    }
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    print_step(step, out, kCount);
    if (!update) CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipFree(out));
    CHECK(hipFree(hidden));
  }
  if (update) CHECK(hipGraphExecDestroy(exec));
  wait_for_plans();
  std::printf("plans alive %d, callbacks %d\n", plans_alive.load(), callbacks.load());
  communicator.destroy();
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
