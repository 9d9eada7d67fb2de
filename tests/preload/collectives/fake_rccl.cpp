// fake_rccl.cpp: librccl as far as it matters to graphs: sums of ints over the devices of one process.
//
// What it does to HIP is what RCCL does: the communicator has memory and a kernel on its device; a collective asks
// whether its stream is capturing. If so, the graph is given a user object that stands for the collective's plan, a
// host node is added by handle and made what the capture goes on from, and a kernel follows; else both are enqueued.
// Kernels of all ranks wait for each other. ncclCommDestroy waits until the user objects of its plans are gone, as
// graphs that hold them may be launched.
#include <hip/hiprtc.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rccl.h"

extern "C" {  // newer than the oldest header
hipError_t hipUserObjectCreate(void** object, void* pointer, hipHostFn_t destroy, unsigned references, unsigned flags);
hipError_t hipGraphRetainUserObject(hipGraph_t graph, void* object, unsigned count, unsigned flags);
}

namespace {

constexpr int kMostRanks = 8;
constexpr std::size_t kMostInts = 4096;

/// Pinned memory of all ranks, which their kernels see. Each rank writes its own part and counts its collectives.
struct Channel {
  int entered[kMostRanks], left[kMostRanks];
  int data[kMostRanks][kMostInts];
};

constexpr const char* kSource = R"(
  struct Channel { int entered[8], left[8]; int data[8][4096]; };
  __device__ void meet(int* counts, int rank, int ranks, int round) {
    __atomic_store_n(&counts[rank], round, __ATOMIC_SEQ_CST);
    for (int other = 0; other < ranks; ++other)
      while (__atomic_load_n(&counts[other], __ATOMIC_SEQ_CST) < round) {}
  }
  extern "C" __global__ void ncclDevKernel_AllReduce(const int* send, int* receive, int count, Channel* channel, int rank, int ranks) {
    int round = channel->entered[rank] + 1;
    for (int i = 0; i < count; ++i) channel->data[rank][i] = send[i];
    meet(channel->entered, rank, ranks, round);
    for (int i = 0; i < count; ++i) {
      unsigned sum = 0;
      for (int other = 0; other < ranks; ++other) sum += (unsigned)channel->data[other][i];
      receive[i] = (int)sum;
    }
    meet(channel->left, rank, ranks, round);
  }
)";

struct Group {
  Channel* channel = nullptr;
  ~Group() { static_cast<void>(hipHostFree(channel)); }
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int device = 0, rank = 0, ranks = 0;
  hipModule_t module = nullptr;
  hipFunction_t kernel = nullptr;
  std::atomic<int> plans{0};              ///< that graphs hold
  std::atomic<unsigned long> proxied{0};  ///< runs of the host function
};

namespace {

/// A captured collective: lives as long as a graph or an executable graph holds it.
struct Plan {
  ncclComm* comm;
};

void drop_plan(void* user) {
  auto* const plan = static_cast<Plan*>(user);
  --plan->comm->plans;
  delete plan;
}
/// What RCCL gives its proxy thread to do; it must not run for a communicator that is gone.
void proxy(void* user) { ++static_cast<ncclComm*>(user)->proxied; }

class OnDevice {
 public:
  explicit OnDevice(int device) {
    static_cast<void>(hipGetDevice(&before_));
    static_cast<void>(hipSetDevice(device));
  }
  ~OnDevice() { static_cast<void>(hipSetDevice(before_)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

std::vector<char> compile() {
  hiprtcProgram program = nullptr;
  std::vector<char> code;
  std::size_t bytes = 0;
  if (hiprtcCreateProgram(&program, kSource, "all_reduce.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return code;
  if (hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_SUCCESS &&
      hiprtcGetCodeSize(program, &bytes) == HIPRTC_SUCCESS) {
    code.resize(bytes);
    if (hiprtcGetCode(program, code.data()) != HIPRTC_SUCCESS) code.clear();
  }
  static_cast<void>(hiprtcDestroyProgram(&program));
  return code;
}

/// Into a capture: the plan and the host node are the graph's.
hipError_t prepare_captured(ncclComm& comm, hipStream_t stream, hipGraph_t graph, const hipGraphNode_t* last,
                            std::size_t count) {
  void* object = nullptr;
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  auto* const plan = new Plan{&comm};
  ++comm.plans;
  hipError_t result = hipUserObjectCreate(&object, plan, drop_plan, 1, kNoDestructorSync);
  if (result != hipSuccess) {
    drop_plan(plan);
    return result;
  }
  result = hipGraphRetainUserObject(graph, object, 1, kMove);
  if (result != hipSuccess) return result;
  const hipHostNodeParams params{proxy, &comm};
  hipGraphNode_t node = nullptr;
  result = hipGraphAddHostNode(&node, graph, last, count, &params);
  if (result != hipSuccess) return result;
  return hipStreamUpdateCaptureDependencies(stream, &node, 1, hipStreamSetCaptureDependencies);
}

}  // namespace

extern "C" {

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr || count < 1 || count > kMostRanks) return ncclInvalidArgument;
  const std::vector<char> code = compile();
  if (code.empty()) return ncclInternalError;
  const auto group = std::make_shared<Group>();
  if (hipHostMalloc(reinterpret_cast<void**>(&group->channel), sizeof(Channel), hipHostMallocPortable) != hipSuccess)
    return ncclUnhandledCudaError;
  std::memset(static_cast<void*>(group->channel), 0, sizeof(Channel));
  for (int rank = 0; rank < count; ++rank) {
    auto comm = std::make_unique<ncclComm>();
    comm->group = group;
    comm->device = devices == nullptr ? rank : devices[rank];
    comm->rank = rank;
    comm->ranks = count;
    const OnDevice scope(comm->device);
    if (hipModuleLoadData(&comm->module, code.data()) != hipSuccess ||
        hipModuleGetFunction(&comm->kernel, comm->module, "ncclDevKernel_AllReduce") != hipSuccess)
      return ncclUnhandledCudaError;
    comms[rank] = comm.release();
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, hipStream_t stream) {
  if (comm == nullptr || type != ncclInt || op != ncclSum || count > kMostInts) return ncclInvalidArgument;
  const OnDevice scope(comm->device);
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* last = nullptr;
  std::size_t last_count = 0;
  hipError_t result = hipStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &last, &last_count);
  if (result != hipSuccess || status == hipStreamCaptureStatusInvalidated) return ncclUnhandledCudaError;
  result = status == hipStreamCaptureStatusActive ? prepare_captured(*comm, stream, graph, last, last_count)
                                                  : hipLaunchHostFunc(stream, proxy, comm);
  if (result != hipSuccess) return ncclUnhandledCudaError;
  int ints = static_cast<int>(count);
  void* args[] = {&send, &receive, &ints, &comm->group->channel, &comm->rank, &comm->ranks};
  result = hipModuleLaunchKernel(comm->kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
  return result == hipSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  constexpr auto kPatience = std::chrono::seconds(30);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (; comm->plans != 0; std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() < end) continue;
    std::fprintf(stderr, "rccl: rank %d is destroyed, but %d collectives are still held by graphs\n", comm->rank,
                 comm->plans.load());
    return ncclInternalError;
  }
  const OnDevice scope(comm->device);
  const hipError_t result = hipModuleUnload(comm->module);
  delete comm;
  return result == hipSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

int fakeRcclHeld(ncclComm_t comm) { return comm->plans; }
unsigned long fakeRcclProxied(ncclComm_t comm) { return comm->proxied; }

}  // extern "C"
