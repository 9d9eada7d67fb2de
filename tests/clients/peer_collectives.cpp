#include "peer_collectives.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client.h"

// For the host and for the kernel.
#define DEVICE_TYPES(...) \
  __VA_ARGS__             \
  constexpr char kTypes[] = #__VA_ARGS__;

namespace peers {

// Meeting: one block's, in memory of its device; the other rank writes it.
// Place: a rank's.
// Arguments: as RCCL's, 4 KiB with what the kernel does inside.
DEVICE_TYPES(
    struct Meeting {
      const float* in;
      unsigned entered;
      unsigned left;
      char rest[112];
    };
    struct Place {
      Meeting* own;
      Meeting* other;
      unsigned patience;
      int gave_up;
      unsigned turns[16];
    };
    struct Work {
      const float* in;
      float* out;
      long long count;
    };
    struct Arguments {
      Place* place;
      unsigned long long channels;
      long long kind;
      void* buffer;
      Work work;
      char rest[4040];
    };)

namespace {

// Volatile words are read and written where they are, for the whole system; the fences order all else around them.
constexpr char kKernel[] = R"(
#ifdef __CUDACC_RTC__
#define PAUSE()
#else
#define PAUSE() __builtin_amdgcn_s_sleep(1)
#endif
__device__ bool wait_for(const unsigned* word, unsigned turn, unsigned patience) {
  for (unsigned i = 0; i < patience; ++i) {
    if ((int)(*(const volatile unsigned*)word - turn) >= 0) return true;
    PAUSE();
  }
  return false;
}
extern "C" __global__ void ncclDevKernel_AllReduce(const Arguments arguments) {
  __shared__ const float* theirs;
  __shared__ int met;
  Place* const place = arguments.place;
  Meeting* const own = place->own + blockIdx.x;
  Meeting* const other = place->other + blockIdx.x;
  const Work work = arguments.work;
  const unsigned turn = place->turns[blockIdx.x] + 1;
  if (threadIdx.x == 0) {
    met = 0;
    if (*(volatile int*)&place->gave_up == 0) {
      *(const float* volatile*)&other->in = work.in;
      __threadfence_system();
      *(volatile unsigned*)&other->entered = turn;
      met = wait_for(&own->entered, turn, place->patience);
      __threadfence_system();
      theirs = *(const float* volatile*)&own->in;
      if (met == 0) *(volatile int*)&place->gave_up = 1;
    }
  }
  __syncthreads();
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < work.count; i += gridDim.x * blockDim.x)
    work.out[i] = met == 0 ? work.in[i] : work.in[i] + theirs[i];
  __syncthreads();
  if (threadIdx.x == 0 && met != 0) {
    place->turns[blockIdx.x] = turn;
    __threadfence_system();
    *(volatile unsigned*)&other->left = turn;
    if (!wait_for(&own->left, turn, place->patience)) *(volatile int*)&place->gave_up = 1;
  }
}
)";

constexpr unsigned kMostBlocks = sizeof(Place::turns) / sizeof(unsigned), kMostThreads = 256;
constexpr int kDevices = 2;
static_assert(sizeof(Arguments) == 4096);

// Newer than the oldest header.
using CreateUserObject = hipError_t (*)(void**, void*, hipHostFn_t, unsigned, unsigned);
using RetainUserObject = hipError_t (*)(hipGraph_t, void*, unsigned, unsigned);

template <typename Function>
Function look_up(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

/// Zeroed memory of the current device that its peers see.
template <typename Element>
Element* shared(std::size_t count) {
  void* made = nullptr;
  CHECK(hipExtMallocWithFlags(&made, count * sizeof(Element), hipDeviceMallocFinegrained));
  CHECK(hipMemset(made, 0, count * sizeof(Element)));
  return static_cast<Element*>(made);
}

int on_device(int device) {
  CHECK(hipSetDevice(device));
  return device;
}

}  // namespace

struct Plan {
  Communicator* communicator = nullptr;
  Plan* next = nullptr;  ///< of those dropped
  Arguments arguments{};
};

bool reach_each_other(int count) {
  int there = 0;
  if (hipGetDeviceCount(&there) != hipSuccess || there < count) return false;
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int reaches = 1;
      if (from != to) CHECK(hipDeviceCanAccessPeer(&reaches, from, to));
      if (reaches == 0) return false;
    }
  }
  return true;
}

Communicator::Communicator(int device, int patience)
    : device_(on_device(device)),
      kernels_((std::string(kTypes) + kKernel).c_str()),
      kernel_(kernels_.get("ncclDevKernel_AllReduce")) {
  for (int peer = 0; peer < kDevices && reach_each_other(kDevices); ++peer) {
    const hipError_t enabled = peer == device ? hipSuccess : hipDeviceEnablePeerAccess(peer, 0);
    if (enabled == hipErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(hipGetLastError());
    } else {
      CHECK(enabled);
    }
  }
  place_ = shared<Place>(1);
  meetings_ = shared<Meeting>(kMostBlocks);
  const auto limit = static_cast<unsigned>(patience);
  CHECK(hipMemcpy(&place_->patience, &limit, sizeof limit, hipMemcpyHostToDevice));
  CHECK(hipMemcpy(&place_->own, &meetings_, sizeof meetings_, hipMemcpyHostToDevice));
  CHECK(hipEventCreateWithFlags(&scratch_, hipEventDisableTiming));
  order_ = program::new_stream();
  CHECK(hipDeviceSynchronize());
}

Communicator::~Communicator() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (reclaim(); plans_ != 0; reclaim()) {
    if (std::chrono::steady_clock::now() > end) {
      std::fprintf(stderr, "device %d: graphs still hold %d all-reduces\n", device_, plans_);
      std::exit(1);
    }
    std::this_thread::yield();
  }
  if (captured_order_ != nullptr) CHECK(hipStreamDestroy(captured_order_));
  CHECK(hipStreamDestroy(order_));
  CHECK(hipEventDestroy(scratch_));
  CHECK(hipFree(meetings_));
  CHECK(hipFree(place_));
}

void Communicator::connect(Communicator& first, Communicator& second) {
  for (const auto& [from, to] : {std::pair{&first, &second}, std::pair{&second, &first}}) {
    CHECK(hipSetDevice(from->device_));
    CHECK(hipMemcpy(&from->place_->other, &to->meetings_, sizeof to->meetings_, hipMemcpyHostToDevice));
    CHECK(hipDeviceSynchronize());
  }
}

void Communicator::all_reduce(float* out, const float* in, int count, hipStream_t stream) {
  hipStreamCaptureStatus status{};
  unsigned long long capture = 0;
  hipGraph_t graph = nullptr;
  CHECK(hipStreamGetCaptureInfo_v2(stream, &status, &capture, &graph, nullptr, nullptr));
  const bool captured = status == hipStreamCaptureStatusActive;
  reclaim();
  if (captured) {
    begin_captured(stream, capture);
  } else {
    CHECK(hipEventRecord(scratch_, order_));
    CHECK(hipStreamWaitEvent(stream, scratch_, 0));
  }
  auto* const plan = new Plan{this, nullptr, {}};
  ++plans_;
  plan->arguments.place = place_;
  plan->arguments.work = {in, out, count};
  const unsigned threads = std::min(kMostThreads, static_cast<unsigned>(count));
  const unsigned blocks = std::min(kMostBlocks, program::blocks_for(count, threads).x);
  plan->arguments.channels = (1ULL << blocks) - 1;
  if (captured) retain(graph, plan);
  void* arguments[] = {&plan->arguments};
  CHECK(hipModuleLaunchKernel(kernel_, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr));
  if (captured) {
    end_captured(stream);
  } else {
    drop(plan);
    CHECK(hipEventRecord(scratch_, stream));
    CHECK(hipStreamWaitEvent(order_, scratch_, 0));
  }
}

bool Communicator::gave_up(hipStream_t stream) const {
  int found = 0;
  CHECK(hipMemcpyAsync(&found, &place_->gave_up, sizeof found, hipMemcpyDeviceToHost, stream));
  CHECK(hipStreamSynchronize(stream));
  return found != 0;
}

/// The capture's order of all-reduces becomes part of it without what it was forked from.
void Communicator::begin_captured(hipStream_t stream, unsigned long long capture) {
  if (capture != capture_) {
    capture_ = capture;
    hipEvent_t fork = nullptr;
    {
      const program::Relaxed relaxed;
      if (captured_order_ == nullptr) captured_order_ = program::new_stream();
      CHECK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
    }
    CHECK(hipEventRecord(fork, stream));
    CHECK(hipStreamWaitEvent(captured_order_, fork, 0));
    CHECK(hipEventDestroy(fork));
    CHECK(hipStreamUpdateCaptureDependencies(captured_order_, nullptr, 0, hipStreamSetCaptureDependencies));
  }
  CHECK(hipEventRecord(scratch_, captured_order_));
  CHECK(hipStreamWaitEvent(stream, scratch_, 0));
}

/// The order goes on from where the stream is: by a temporary stream that waits for it.
void Communicator::end_captured(hipStream_t stream) {
  CHECK(hipEventRecord(scratch_, stream));
  const program::Relaxed relaxed;
  const hipStream_t temporary = program::new_stream();
  CHECK(hipStreamWaitEvent(temporary, scratch_, 0));
  hipStreamCaptureStatus status{};
  const hipGraphNode_t* tips = nullptr;
  std::size_t count = 0;
  CHECK(hipStreamGetCaptureInfo_v2(temporary, &status, nullptr, nullptr, &tips, &count));
  std::vector<hipGraphNode_t> nodes(tips, tips + count);
  CHECK(hipStreamUpdateCaptureDependencies(captured_order_, nodes.data(), count, hipStreamSetCaptureDependencies));
  CHECK(hipStreamDestroy(temporary));
}

void Communicator::retain(hipGraph_t graph, Plan* plan) {
  static const auto create = look_up<CreateUserObject>("hipUserObjectCreate");
  static const auto retain_in = look_up<RetainUserObject>("hipGraphRetainUserObject");
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  void* object = nullptr;
  CHECK(create(&object, plan, drop, 1, kNoDestructorSync));
  CHECK(retain_in(graph, object, 1, kMove));
}

void Communicator::drop(void* plan) {
  auto* const dropped = static_cast<Plan*>(plan);
  std::atomic<Plan*>& all = dropped->communicator->dropped_;
  dropped->next = all.load();
  while (!all.compare_exchange_weak(dropped->next, dropped)) {
  }
}

/// Frees the plans that nothing holds any more.
void Communicator::reclaim() {
  for (Plan* each = dropped_.exchange(nullptr); each != nullptr; --plans_) delete std::exchange(each, each->next);
}

}  // namespace peers
