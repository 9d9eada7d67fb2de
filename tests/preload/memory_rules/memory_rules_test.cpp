// memory_rules_test.cpp: the rules about memory, each test named after its rule. Plain HIP: the same tests run natively
// and under the library with classic and VMM memory; what is expected of the journal is expected under the library
// only.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <thread>

#include "bounds.h"
#include "memory_calls.h"
#include "tests/preload/graphs/captures.h"

namespace {

using namespace captures;
using namespace memory_calls;
using namespace memory_rules;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

bool is_set(const char* name, const char* value) {
  const char* const found = std::getenv(name);
  return found != nullptr && std::strcmp(found, value) == 0;
}
bool vmm() { return under_library() && is_set("GRAPHPOOL_POOL_BACKING", "vmm"); }
/// Stream-ordered allocations are pooled.
bool ordered() {
  const char* const rules = std::getenv("GRAPHPOOL_BUFFERS");
  return under_library() && rules != nullptr && std::strstr(rules, "hipMallocAsync") != nullptr;
}
bool staged() { return std::getenv("GRAPHPOOL_BUFFERS") != nullptr && !ordered(); }
/// Allocations of this size are really freed (set by meson.build for all runs).
std::size_t large_bytes() { return std::strtoull(std::getenv("GRAPHPOOL_POOL_LARGE"), nullptr, 10); }

int first_byte(const char* memory) {
  char value = -1;
  EXPECT_EQ(hipSuccess, hipMemcpy(&value, memory, 1, hipMemcpyDeviceToHost));
  return value;
}

/// A kernel that keeps a stream busy until it is let go; after kPatience somebody else lets go, and says so.
class Busy {
 public:
  explicit Busy(hipStream_t stream) {
    EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&flag_), sizeof(int), 0));
    *flag_ = 0;
    EXPECT_EQ(hipSuccess, kernels().spin(stream, flag_));
    watchdog_ = std::thread([this] {
      for (auto end = std::chrono::steady_clock::now() + kPatience; std::chrono::steady_clock::now() < end;) {
        if (done_.load()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      stuck_ = true;
      let_go();
    });
  }
  ~Busy() {
    let_go();
    done_ = true;
    watchdog_.join();
    EXPECT_EQ(hipSuccess, hipHostFree(flag_));
  }
  void let_go() { __atomic_store_n(flag_, 1, __ATOMIC_RELEASE); }
  bool busy() const { return __atomic_load_n(flag_, __ATOMIC_ACQUIRE) == 0; }
  /// Nobody let go in time: a call waited for the kernel.
  bool stuck() const { return stuck_.load(); }

 private:
  static constexpr std::chrono::seconds kPatience{60};
  int* flag_ = nullptr;
  std::atomic<bool> stuck_{false}, done_{false};
  std::thread watchdog_;
};

/// A module of one kernel and one variable.
std::vector<char> code_object() {
  const char* const source = "extern \"C\" __global__ void noop() {} __device__ int number = 1;";
  return compiled_code(source);
}

class MemoryRules : public ::testing::Test {
 protected:
  void TearDown() override {
    OK(hipSetDevice(0));
    OK(hipDeviceSynchronize());
    static_cast<void>(hipGetLastError());
  }
};

// --- 15: out of memory shows where it always did ---

TEST_F(MemoryRules, rule_15_what_fits_natively_fits_and_what_does_not_fails_in_its_own_call) {
  std::size_t free = 0, total = 0;
  OK(hipMemGetInfo(&free, &total));
  const std::size_t half = free / 2 / kMiB * kMiB;
  // Sizes that natively fit one after another, each of which leaves memory kept that the next one needs.
  for (const std::size_t bytes : {half, half - kMiB, half / 2, half + 2 * kMiB}) {
    OK(hipFree(allocate(6 * kMiB)));
    char* const pointer = allocate(bytes);
    OK(hipMemset(pointer + bytes - 1, 1, 1));
    OK(hipFree(pointer));
  }
  OK(hipFree(allocate(6 * kMiB)));
  OK(hipFree(allocate(free / kMiB * kMiB)));
  EXPECT_EQ(free, free_bytes());
  char* const first = allocate(half);
  void* second = &second;
  EXPECT_EQ(hipErrorOutOfMemory, hipMalloc(&second, half + 2 * kMiB));
  EXPECT_EQ(hipErrorOutOfMemory, hipGetLastError());
  OK(hipFree(first));
  EXPECT_EQ(free, free_bytes());
}

TEST_F(MemoryRules, rule_15_a_launch_allocates_nothing) {
  const Stream stream;
  for (int i = 0; i < 4; ++i) {
    const Buffer moving;
    const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, moving.get(), kCount, 3)); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    const Since made({"hipMalloc", "hipMallocAsync", "hipMemCreate", "hipMemMap", "hipGraphInstantiate",
                      "hipGraphInstantiateWithFlags", "hipStreamCreateWithFlags"});
    OK(hipGraphLaunch(exec, stream));
    for (const char* name : {"hipMalloc", "hipMallocAsync", "hipMemCreate", "hipMemMap", "hipGraphInstantiate",
                             "hipGraphInstantiateWithFlags", "hipStreamCreateWithFlags"})
      EXPECT_EQ(0, made[name]) << name;
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(mixed(0, 3), moving.value());
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
}

TEST_F(MemoryRules, rule_15_a_graph_is_instantiated_although_no_memory_is_left) {
  // Where buffers are staged there is none for slots: the graph then works on the program's own memory.
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  if (version >= 60'000'000) GTEST_SKIP() << "an exec takes memory of the device";
  const Stream stream;
  const Buffer buffer;
  std::vector<void*> ballast;
  void* pointer = nullptr;
  for (std::size_t bytes = free_bytes(); bytes >= 4 * kKiB; bytes /= 2)
    while (hipMalloc(&pointer, bytes) == hipSuccess) ballast.push_back(pointer);
  static_cast<void>(hipGetLastError());
  for (int i = 0; i < 3; ++i) step(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, i)); });
  EXPECT_EQ(mixed(mixed(mixed(0, 0), 1), 2), buffer.value());
  for (void* each : ballast) OK(hipFree(each));
}

// --- 16: the library waits only where HIP would ---

TEST_F(MemoryRules, rule_16_malloc_does_not_wait_for_a_running_kernel) {
  const Stream stream;
  std::vector<void*> made;
  {
    Busy busy(stream);
    for (const std::size_t bytes : {4 * kKiB, 300 * kKiB, kMiB, 3 * kMiB, 9 * kMiB}) made.push_back(allocate(bytes));
    EXPECT_FALSE(busy.stuck()) << "hipMalloc waited";
    EXPECT_TRUE(busy.busy());
  }
  for (void* each : made) OK(hipFree(each));
}

TEST_F(MemoryRules, rule_16_a_free_returns_when_the_work_of_the_device_is_done) {
  const Stream stream;
  for (int round = 0; round < 2; ++round) {
    char* const memory = allocate(64 * kKiB);
    Busy busy(stream);
    std::atomic<bool> freed{false};
    std::thread other([&] {
      call_waits(freed);
      busy.let_go();
    });
    OK(hipFree(memory));
    EXPECT_FALSE(busy.busy()) << "hipFree returned while a kernel of the device was running";
    freed = true;
    other.join();
  }
}

TEST_F(MemoryRules, rule_16_frees_in_stream_order_do_not_wait) {
  const Stream stream;
  constexpr std::size_t kBytes = 3 * kMiB;  // several pass the limit of what is kept
  const std::size_t free = free_bytes();
  const Since since({"hipFree", "hipMemUnmap"});
  std::vector<void*> blocks(6);
  for (void*& block : blocks) OK(hipMallocAsync(&block, kBytes, stream));
  std::vector<char*> plain;
  for (int i = 0; i < 6; ++i) plain.push_back(allocate(kBytes));
  {
    Busy busy(stream);
    for (void* block : blocks) OK(hipFreeAsync(block, stream));
    for (char* block : plain) OK(hipFreeAsync(block, stream));
    void* again = nullptr;
    OK(hipMallocAsync(&again, kBytes, stream));
    OK(hipFreeAsync(again, stream));
    EXPECT_FALSE(busy.stuck()) << "a call in stream order waited";
    EXPECT_EQ(0, since["hipFree"] + since["hipMemUnmap"]);
  }
  OK(hipStreamSynchronize(stream));
  OK(hipDeviceSynchronize());
  EXPECT_EQ(free, free_bytes());
  // What passed the limit has gone back where the program waited.
  if (ordered() || vmm()) {
    EXPECT_LT(1, since["hipFree"] + since["hipMemUnmap"]);
  }
}

// --- 17: synchronising for a free does not invalidate captures ---

TEST_F(MemoryRules, rule_17_a_free_beside_a_capture_leaves_it_alone) {
  const Stream capturing, working;
  const Buffer captured;
  for (int round = 0; round < 4; ++round) {
    char* const memory = allocate(64 * kKiB);
    OK(hipMemsetAsync(memory, round, 64 * kKiB, working));
    hipGraph_t graph = nullptr;
    // The thread's own capture: others may allocate and free, as natively.
    OK(hipStreamBeginCapture(capturing, hipStreamCaptureModeThreadLocal));
    OK(kernels().mix(capturing, captured.get(), kCount, 5));
    std::thread other([&] {
      OK(hipMemsetAsync(memory, 7, 64 * kKiB, working));
      OK(hipFree(memory));
      char* const again = allocate(64 * kKiB);
      OK(hipFree(again));
    });
    other.join();
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    OK(hipStreamIsCapturing(capturing, &status));
    EXPECT_EQ(hipStreamCaptureStatusActive, status);
    OK(hipStreamEndCapture(capturing, &graph));
    std::size_t nodes = 0;
    OK(hipGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(1u, nodes);
    OK(hipGraphDestroy(graph));
  }
}

TEST_F(MemoryRules, rule_17_what_was_only_captured_is_nothing_a_free_waits_for) {
  const Stream stream;
  const Buffer buffer;
  for (const bool destroyed : {false, true}) {
    char* const memory = allocate(28 * kKiB);
    OK(hipDeviceSynchronize());
    hipStream_t forked = nullptr;
    hipEvent_t event = nullptr;
    OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    const hipGraph_t graph = capture(stream, [&] {
      OK(hipStreamCreateWithFlags(&forked, hipStreamNonBlocking));
      OK(kernels().mix(stream, buffer.get(), kCount, 1));
      OK(hipEventRecord(event, stream));
      OK(hipStreamWaitEvent(forked, event, 0));
      OK(kernels().mix(forked, buffer.get(), kCount, 2));
      OK(hipEventRecord(event, forked));
      OK(hipStreamWaitEvent(stream, event, 0));
      if (destroyed) OK(hipStreamDestroy(forked));
    });
    const Since since({"hipFree", "hipMalloc", "hipEventRecord"});
    OK(hipFree(memory));
    if (under_library()) {
      EXPECT_EQ(0, since["hipFree"]);
      EXPECT_EQ(0, since["hipMalloc"]);
      EXPECT_EQ(0, since["hipEventRecord"]);
      EXPECT_EQ(memory, allocate(28 * kKiB));
      OK(hipFree(memory));
    }
    if (!destroyed) OK(hipStreamDestroy(forked));
    OK(hipEventDestroy(event));
    OK(hipGraphDestroy(graph));
  }
}

TEST_F(MemoryRules, rule_17_a_wait_that_a_capturing_stream_performs_at_once_is_waited_for_by_frees) {
  const Stream elsewhere;
  hipEvent_t event = nullptr;
  OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  Busy busy(elsewhere);
  OK(hipEventRecord(event, elsewhere));
  OK(hipSetDevice(1));
  const Stream stream;
  char* const memory = allocate(28 * kKiB);
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  OK(hipStreamWaitEvent(stream, event, 0));
  OK(hipMemsetAsync(memory, 1, kKiB, stream));
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphDestroy(graph));
  std::atomic<bool> freed{false};
  std::thread other([&] {
    call_waits(freed);
    busy.let_go();
  });
  OK(hipFree(memory));
  EXPECT_FALSE(busy.busy()) << "hipFree returned while a stream of the device was waiting";
  freed = true;
  other.join();
  OK(hipEventDestroy(event));
}

// --- 18: no library lock across a call that can wait ---

/// What HIP answers to hipMalloc and hipFree in a thread of this mode while a capture of that mode is open.
hipError_t answer_in_capture(hipStreamCaptureMode thread, hipStreamCaptureMode capture, bool own) {
  const bool refused = thread != hipStreamCaptureModeRelaxed &&
                       ((own && capture != hipStreamCaptureModeRelaxed) ||
                        (thread == hipStreamCaptureModeGlobal && capture == hipStreamCaptureModeGlobal));
  return refused ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

/// A capture of this thread or of another one, open while it lives.
class OpenCapture {
 public:
  OpenCapture(hipStream_t stream, int* memory, hipStreamCaptureMode mode, bool own) : stream_(stream) {
    const auto begin = [stream, memory, mode] {
      EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream, mode));
      EXPECT_EQ(hipSuccess, kernels().mix(stream, memory, kCount, 1));
    };
    if (own) {
      begin();
      return;
    }
    other_ = std::thread([this, begin] {
      begin();
      begun_ = true;
      while (!over_) std::this_thread::yield();
      ended_ = hipStreamEndCapture(stream_, &graph_);
    });
    while (!begun_) std::this_thread::yield();
  }
  ~OpenCapture() { EXPECT_TRUE(over_); }
  OpenCapture(const OpenCapture&) = delete;
  OpenCapture& operator=(const OpenCapture&) = delete;

  hipError_t end() {
    over_ = true;
    if (other_.joinable())
      other_.join();
    else
      ended_ = hipStreamEndCapture(stream_, &graph_);
    if (ended_ == hipSuccess) {
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph_));
    }
    static_cast<void>(hipGetLastError());
    return ended_;
  }

 private:
  hipStream_t stream_;
  hipGraph_t graph_ = nullptr;
  hipError_t ended_ = hipSuccess;
  std::atomic<bool> begun_{false}, over_{false};
  std::thread other_;
};

TEST_F(MemoryRules, rule_08_what_no_capture_forbids_is_served_as_if_there_were_none) {
  constexpr std::size_t kBytes = 20 * kKiB;  // of no other test
  constexpr hipStreamCaptureMode kModes[] = {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal,
                                             hipStreamCaptureModeRelaxed};
  const Stream stream;
  const Buffer buffer;
  for (const hipStreamCaptureMode thread_mode : kModes)
    for (const hipStreamCaptureMode capture_mode : kModes)
      for (const bool own : {true, false})
        for (const bool frees : {false, true}) {
          SCOPED_TRACE(testing::Message() << "thread " << thread_mode << " capture " << capture_mode << " own " << own
                                          << " frees " << frees);
          char* const memory = allocate(kBytes);
          if (!frees) OK(hipFree(memory));
          const Since since({"hipMalloc", "hipFree"});
          OpenCapture capture(stream, buffer.get(), capture_mode, own);
          hipStreamCaptureMode mode = thread_mode;
          OK(hipThreadExchangeStreamCaptureMode(&mode));
          const hipError_t expected = answer_in_capture(thread_mode, capture_mode, own);
          void* made = memory;
          EXPECT_EQ(expected, frees ? hipFree(memory) : hipMalloc(&made, kBytes));
          OK(hipThreadExchangeStreamCaptureMode(&mode));
          EXPECT_EQ(expected == hipSuccess ? hipSuccess : hipErrorStreamCaptureInvalidated, capture.end());
          if (under_library() && expected == hipSuccess) {
            if (!vmm()) {
              EXPECT_EQ(0, since[frees ? "hipFree" : "hipMalloc"]);
            }
            if (frees) made = allocate(kBytes);
            EXPECT_EQ(memory, made);
            if (frees) OK(hipFree(made));
          } else if (frees && expected != hipSuccess) {
            OK(hipFree(memory));
          }
          if (!frees && expected == hipSuccess) OK(hipFree(made));
        }
}

TEST_F(MemoryRules, rule_17_a_free_in_a_capture_waits_for_the_devices_work_and_keeps_the_memory) {
  const Stream captured, stream;
  const Buffer buffer;
  for (const bool own : {true, false}) {
    char* const memory = allocate(24 * kKiB);
    OpenCapture capture(captured, buffer.get(), hipStreamCaptureModeGlobal, own);
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    {
      Busy busy(stream);
      std::atomic<bool> freed{false};
      std::thread other([&] {
        call_waits(freed);
        busy.let_go();
      });
      OK(hipFree(memory));
      EXPECT_FALSE(busy.busy()) << "hipFree returned while a kernel of the device was running";
      freed = true;
      other.join();
      char* const again = allocate(24 * kKiB);
      if (under_library()) {
        EXPECT_EQ(memory, again);
      }
      OK(hipFree(again));
    }
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(hipSuccess, capture.end());
  }
}

TEST_F(MemoryRules, rule_18_while_one_thread_waits_in_a_free_others_allocate_ask_and_launch) {
  const Stream waited_for, other;
  const Buffer buffer;
  char* const memory = allocate(64 * kKiB);
  char* const kept = allocate(32 * kKiB);
  OK(hipFree(kept));
  Busy busy(waited_for);
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    OK(hipFree(memory));
    freed = true;
  });
  EXPECT_TRUE(call_waits(freed));
  char* const again = allocate(32 * kKiB);
  char* const fresh = allocate(100 * kKiB);
  EXPECT_GT(free_bytes(), 0u);
  hipPointerAttribute_t attributes{};
  OK(hipPointerGetAttributes(&attributes, fresh));
  OK(kernels().mix(other, buffer.get(), kCount, 1));
  hipStream_t made = nullptr;
  OK(hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
  OK(hipMemsetAsync(fresh, 1, 100 * kKiB, made));
  void* ordered = nullptr;
  OK(hipMallocAsync(&ordered, 8 * kKiB, made));
  OK(hipFreeAsync(ordered, made));
  OK(hipStreamSynchronize(made));
  EXPECT_FALSE(busy.stuck()) << "a call waited for the thread that is in hipFree";
  EXPECT_FALSE(freed.load());
  busy.let_go();
  freeing.join();
  OK(hipStreamDestroy(made));
  OK(hipFree(again));
  OK(hipFree(fresh));
}

// --- 21: memory is classic by default; what left the process is not handed out again ---

TEST_F(MemoryRules, rule_21_program_visible_memory_is_classic_unless_a_rule_says_vmm) {
  const Since since({"hipMalloc"});
  char* const memory = allocate(5000 * kKiB);
  OK(hipMemset(memory, 1, 5000 * kKiB));
  OK(hipFree(memory));
  if (!under_library() || staged()) return;  // slots are VMM memory
  EXPECT_EQ(vmm(), calls("hipMemCreate") > 0);
  EXPECT_EQ(vmm() ? 0 : 1, since["hipMalloc"]);
}

TEST_F(MemoryRules, rule_21_memory_whose_handle_left_the_process_is_really_freed) {
  char* const memory = allocate(70 * kKiB);
  hipIpcMemHandle_t handle;
  const hipError_t exported = hipIpcGetMemHandle(&handle, memory);
  if (vmm()) {
    EXPECT_EQ(hipErrorInvalidValue, exported);
    EXPECT_EQ(hipErrorInvalidValue, hipGetLastError());
    OK(hipFree(memory));
    return;
  }
  OK(exported);
  const Since since({"hipMalloc", "hipFree"});
  OK(hipFree(memory));
  EXPECT_EQ(1, since["hipFree"]);
  char* const again = allocate(70 * kKiB);
  EXPECT_EQ(1, since["hipMalloc"]);
  EXPECT_NE(memory, again);  // the runtime hands freed addresses out late
  OK(hipFree(again));
}

/// The other process of the next test: adds 1 to each int of memory that it is told of, in graphs.
TEST_F(MemoryRules, DISABLED_another_process) {
  hipIpcMemHandle_t handle;
  ASSERT_EQ(static_cast<ssize_t>(sizeof handle), read(std::atoi(std::getenv("IPC_FD")), &handle, sizeof handle));
  int* memory = nullptr;
  OK(hipIpcOpenMemHandle(reinterpret_cast<void**>(&memory), handle, hipIpcMemLazyEnablePeerAccess));
  const Stream stream;
  const Buffer own;
  for (int i = 0; i < 3; ++i) {
    step(stream, [&] {
      OK(kernels().mix(stream, memory, kCount, i));
      OK(hipMemcpyAsync(own.get(), memory, kCount * 4, hipMemcpyDeviceToDevice, stream));
    });
  }
  EXPECT_EQ(mixed(mixed(mixed(5, 0), 1), 2), own.value());
  EXPECT_EQ(hipErrorInvalidValue, hipFree(memory)) << "it is another process's";
  OK(hipIpcCloseMemHandle(memory));
  EXPECT_EQ(hipErrorInvalidValue, hipIpcCloseMemHandle(memory));
}

TEST_F(MemoryRules, rule_21_another_process_works_on_memory_that_was_handed_out_again) {
  constexpr std::size_t kBytes = 70 * kKiB;
  OK(hipFree(allocate(kBytes)));
  char* const memory = allocate(kBytes);
  OK(hipMemsetD32(memory, 5, kCount));
  hipIpcMemHandle_t handle;
  const hipError_t exported = hipIpcGetMemHandle(&handle, memory);
  if (!vmm()) {
    OK(exported);
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    ASSERT_EQ(static_cast<ssize_t>(sizeof handle), write(ends[1], &handle, sizeof handle));
    const std::string journal = std::string(std::getenv("CPUHIP_JOURNAL")) + "_other", fd = std::to_string(ends[0]);
    const pid_t child = fork();
    if (child == 0) {
      setenv("IPC_FD", fd.c_str(), 1);
      setenv("CPUHIP_JOURNAL", journal.c_str(), 1);
      execl("/proc/self/exe", "other", "--gtest_filter=*another_process", "--gtest_also_run_disabled_tests",
            "--gtest_brief=1", nullptr);
      _exit(127);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    std::vector<int> values(kCount);
    OK(hipMemcpy(values.data(), memory, kCount * 4, hipMemcpyDeviceToHost));
    for (const int value : values) EXPECT_EQ(mixed(mixed(mixed(5, 0), 1), 2), value);
    close(ends[0]);
    close(ends[1]);
  }
  static_cast<void>(hipGetLastError());
  OK(hipFree(memory));
}

// --- 22: bounds are those of a separate allocation ---

TEST_F(MemoryRules, rule_22_parts_of_chunks_are_aligned_and_never_share_a_page) {
  std::vector<std::pair<std::uintptr_t, std::size_t>> ranges;
  for (const std::size_t bytes : {std::size_t{1}, 4 * kKiB, 4 * kKiB + 1, 100 * kKiB, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB})
    ranges.emplace_back(reinterpret_cast<std::uintptr_t>(allocate(bytes)), bytes);
  for (const auto& [base, bytes] : ranges) {
    EXPECT_EQ(0u, base % (4 * kKiB));
    if (vmm() && !is_set("CPUHIP_VERSION", "50221153") && bytes >= 2 * kMiB) {
      EXPECT_EQ(0u, base % (2 * kMiB));
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const std::uintptr_t end = ranges[i - 1].first + ranges[i - 1].second;
    EXPECT_LE((end + 4 * kKiB - 1) / (4 * kKiB), ranges[i].first / (4 * kKiB));
  }
  for (const auto& [base, bytes] : ranges) OK(hipFree(reinterpret_cast<void*>(base)));
}

TEST_F(MemoryRules, rule_22_copies_and_fills_beyond_a_block_get_the_bounds_error) {
  constexpr std::size_t kBytes = 64 * kKiB;
  const Stream stream;
  // Neighbours on both sides, and an operand that is large enough.
  char* const before = allocate(kBytes);
  char* const block = allocate(kBytes);
  char* const after = allocate(kBytes);
  char* const other = allocate(4 * kMiB);
  std::vector<char> host(4 * kMiB);
  OK(hipMemset(other, 0, 4 * kMiB));
  for (const Touch& touch : touches()) {
    EXPECT_EQ(hipSuccess, touch.call(block, other, host.data(), kBytes, stream)) << touch.name;
    EXPECT_EQ(hipSuccess, touch.call(block + kBytes / 2, other, host.data(), kBytes / 2, stream)) << touch.name;
    for (const std::size_t over : {std::size_t{256}, kBytes, 2 * kMiB})
      EXPECT_EQ(hipErrorInvalidValue, touch.call(block, other, host.data(), kBytes + over, stream))
          << touch.name << " " << over << " bytes over the end";
    EXPECT_EQ(hipErrorInvalidValue, touch.call(block + kBytes - 256, other, host.data(), 512, stream)) << touch.name;
  }
  OK(hipStreamSynchronize(stream));
  OK(hipDeviceSynchronize());
  for (char* each : {before, block, after, other}) OK(hipFree(each));
}

TEST_F(MemoryRules, rule_22_values_are_written_and_awaited_where_they_begin_in_a_block) {
  constexpr std::size_t kBytes = 4 * kKiB - 3;  // the last value of 4 bytes ends behind it, the last of 8 too
  const Stream stream;
  char* const before = allocate(kBytes);
  char* const block = allocate(kBytes);
  char* const after = allocate(kBytes);
  for (char* const each : {before, block, after}) OK(hipMemset(each, 0, kBytes));
  char *const last = block + 4 * kKiB - 4, *const last_wide = block + 4 * kKiB - 8;
  EXPECT_EQ(hipSuccess, hipStreamWriteValue32(stream, last, 0x07, 0));
  EXPECT_EQ(hipSuccess, hipStreamWaitValue32(stream, last, 0x07, hipStreamWaitValueEq, 0xff));
  EXPECT_EQ(hipSuccess, hipStreamWriteValue64(stream, last_wide, 0x0807, 0));
  EXPECT_EQ(hipSuccess, hipStreamWaitValue64(stream, last_wide, 0x0807, hipStreamWaitValueEq, 0xffff));
  OK(hipStreamSynchronize(stream));
  char bytes[5] = {};
  OK(hipMemcpy(bytes, last_wide, sizeof bytes, hipMemcpyDeviceToHost));
  EXPECT_EQ(7, bytes[0]);
  EXPECT_EQ(8, bytes[1]);
  char* const unaligned = last - 2;
  EXPECT_EQ(hipErrorInvalidValue, hipStreamWriteValue32(stream, unaligned, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamWriteValue64(stream, unaligned, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamWaitValue32(stream, unaligned, 0, hipStreamWaitValueEq, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamWaitValue64(stream, unaligned, 0, hipStreamWaitValueEq, 0));
  static_cast<void>(hipGetLastError());
  for (char* const each : {before, block, after}) OK(hipFree(each));
}

TEST_F(MemoryRules, rule_22_behind_the_end_of_a_block_there_is_nothing) {
  for (const std::size_t bytes : {60 * kKiB, 60 * kKiB + 256}) {
    char* const block = allocate(bytes);
    int unknown = 0;
    hipDeviceptr_t base = nullptr;
    std::size_t size = 0;
    hipPointerAttribute_t attributes{};
    EXPECT_EQ(hipSuccess, hipMemGetAddressRange(&base, &size, block + bytes - 1));
    EXPECT_EQ(block, base);
    EXPECT_EQ(bytes, size);
    EXPECT_EQ(hipMemGetAddressRange(&base, &size, &unknown), hipMemGetAddressRange(&base, &size, block + bytes));
    EXPECT_EQ(hipPointerGetAttributes(&attributes, &unknown), hipPointerGetAttributes(&attributes, block + bytes));
    static_cast<void>(hipGetLastError());
    OK(hipFree(block));
  }
}

TEST_F(MemoryRules, rule_22_a_block_that_was_freed_is_no_operand) {
  const Stream stream;
  char* const other = allocate(kMiB);
  std::vector<char> host(kMiB);
  OK(hipMemset(other, 0, kMiB));
  char* const block = allocate(64 * kKiB);
  OK(hipMemset(block, 0, 64 * kKiB));
  OK(hipFree(block));
  for (const Touch& touch : touches()) {
    EXPECT_EQ(hipErrorInvalidValue, touch.call(block, other, host.data(), 512, stream)) << touch.name;
  }
  OK(hipFree(other));
}

// --- 23: copies between devices ---

TEST_F(MemoryRules, rule_23_copies_between_devices_work_without_enabling_peers) {
  constexpr std::size_t kBytes = 100 * kKiB;
  char* memory[2] = {};
  hipStream_t streams[2] = {};
  for (int device : {0, 1}) {
    OK(hipSetDevice(device));
    memory[device] = allocate(kBytes);
    OK(hipStreamCreate(&streams[device]));
    OK(hipMemset(memory[device], 10 + device, kBytes));
    OK(hipDeviceSynchronize());
  }
  const auto byte = [&](int device, std::size_t at) {
    char value = 0;
    EXPECT_EQ(hipSuccess, hipMemcpy(&value, memory[device] + at, 1, hipMemcpyDeviceToHost));
    return static_cast<int>(value);
  };
  for (int current : {0, 1}) {
    const int from = 1 - current;
    OK(hipSetDevice(from));
    OK(hipMemset(memory[from], 20 + current, kBytes));
    OK(hipDeviceSynchronize());
    OK(hipSetDevice(current));
    OK(hipMemcpy(memory[current], memory[from], 100, hipMemcpyDeviceToDevice));
    OK(hipMemcpyPeer(memory[current] + 100, current, memory[from] + 100, from, 100));
    OK(hipMemcpyPeerAsync(memory[current] + 200, current, memory[from] + 200, from, 100, streams[current]));
    OK(hipMemcpyAsync(memory[current] + 300, memory[from] + 300, 100, hipMemcpyDefault, streams[current]));
    OK(hipStreamSynchronize(streams[current]));
    for (const std::size_t at : {0, 100, 200, 300, 399}) EXPECT_EQ(20 + current, byte(current, at)) << at;
  }
  // What can be asked answers as if nothing had been given access.
  int can = 0;
  OK(hipDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(1, can);
  hipPointerAttribute_t attributes{};
  OK(hipPointerGetAttributes(&attributes, memory[1] + 5));
  EXPECT_EQ(1, attributes.device);
  OK(hipSetDevice(0));
  EXPECT_EQ(hipErrorPeerAccessNotEnabled, hipDeviceDisablePeerAccess(1));
  OK(hipDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(hipErrorPeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1, 0));
  OK(hipDeviceDisablePeerAccess(1));
  for (int device : {0, 1}) {
    OK(hipSetDevice(device));
    OK(hipStreamDestroy(streams[device]));
    OK(hipFree(memory[device]));
  }
}

// --- 24: what a pointer may be given to ---

TEST_F(MemoryRules, rule_24_stream_ordered_free_of_malloc_memory_is_legal_and_ordered) {
  const Stream stream;
  hipStream_t other = nullptr;
  OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  for (int round = 0; round < 3; ++round) {
    char* const memory = allocate(64 * kKiB);
    char result = 0;
    OK(hipMemsetAsync(memory, 40 + round, 64 * kKiB, stream));
    char* const copy = allocate(64 * kKiB);
    {
      Busy busy(stream);
      OK(hipMemcpyAsync(copy, memory, 64 * kKiB, hipMemcpyDeviceToDevice, stream));
      OK(hipFreeAsync(memory, stream));
      // Handed out meanwhile: what is in it now must not reach the copy.
      char* const next = allocate(64 * kKiB);
      OK(hipMemsetAsync(next + 100, 99, 1, other));
      OK(hipStreamSynchronize(other));
      OK(hipFreeAsync(next, stream));
      EXPECT_FALSE(busy.stuck()) << "a call waited for the stream";
    }
    OK(hipStreamSynchronize(stream));
    OK(hipMemcpy(&result, copy + 100, 1, hipMemcpyDeviceToHost));
    EXPECT_EQ(40 + round, result);
    EXPECT_EQ(hipErrorInvalidValue, hipFree(memory)) << "freed twice";
    OK(hipFree(copy));
  }
  OK(hipStreamDestroy(other));
}

/// What a blocking stream is given after work in the null stream comes behind what other blocking streams were given
/// before it, whether that work does anything or not.
void expect_to_order_blocking_streams(const std::function<void()>& work, bool capturing, const char* name) {
  hipStream_t capturing_stream = nullptr;
  OK(hipStreamCreateWithFlags(&capturing_stream, hipStreamNonBlocking));
  const Stream before, after;
  hipEvent_t event = nullptr;
  OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  {
    Busy busy(before);
    if (capturing) OK(hipStreamBeginCapture(capturing_stream, hipStreamCaptureModeRelaxed));
    work();
    OK(hipEventRecord(event, after));
    if (capturing) {
      hipGraph_t graph = nullptr;
      OK(hipStreamEndCapture(capturing_stream, &graph));
      OK(hipGraphDestroy(graph));
    }
    EXPECT_EQ(hipErrorNotReady, hipEventQuery(event)) << name << (capturing ? ", while a capture is open" : "");
    static_cast<void>(hipGetLastError());
    EXPECT_FALSE(busy.stuck()) << name << " waited";
  }
  OK(hipStreamSynchronize(after));
  OK(hipEventDestroy(event));
  OK(hipStreamDestroy(capturing_stream));
}

TEST_F(MemoryRules, rule_24_a_free_in_the_null_streams_order_is_a_piece_of_its_work) {
  for (const bool capturing : {false, true}) {
    for (const hipStream_t null : {hipStream_t{nullptr}, reinterpret_cast<hipStream_t>(1)}) {
      char* const memory = allocate(64 * kKiB);
      expect_to_order_blocking_streams([&] { OK(hipFreeAsync(memory, null)); }, capturing, "memory of hipMalloc");
      void* ordered_memory = nullptr;
      OK(hipMallocAsync(&ordered_memory, 64 * kKiB, null));
      expect_to_order_blocking_streams([&] { OK(hipFreeAsync(ordered_memory, null)); }, capturing,
                                       "memory of hipMallocAsync");
    }
  }
}

TEST_F(MemoryRules, rule_03_a_graph_without_operations_is_a_piece_of_the_null_streams_work) {
  const Stream stream;
  for (int round = 0; round < 2; ++round) {
    const hipGraph_t graph = capture(stream, [] {});
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    expect_to_order_blocking_streams([&] { OK(hipGraphLaunch(exec, nullptr)); }, false, "a launch");
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
}

TEST_F(MemoryRules, rule_24_a_free_in_the_order_of_another_devices_stream_waits_for_that_stream) {
  OK(hipSetDevice(1));
  const Stream own;
  for (const hipStream_t stream : {static_cast<hipStream_t>(own), hipStream_t{nullptr}, hipStreamPerThread}) {
    OK(hipSetDevice(0));
    char* const memory = allocate(96 * kKiB);
    OK(hipSetDevice(1));
    std::atomic<bool> let_go{false};
    const auto wait = [](void* until) { static_cast<std::atomic<bool>*>(until)->wait(false); };
    OK(hipLaunchHostFunc(stream, wait, &let_go));
    OK(hipFreeAsync(memory, stream));
    OK(hipSetDevice(0));
    char* const next = allocate(96 * kKiB);
    EXPECT_NE(memory, next) << "the other device has not come to the free yet";
    let_go = true;
    let_go.notify_all();
    OK(hipFree(next));
    OK(hipSetDevice(1));
    OK(hipDeviceSynchronize());
  }
}

TEST_F(MemoryRules, rule_24_a_free_in_the_null_streams_order_comes_behind_blocking_streams) {
  const Stream blocking;
  for (const hipStream_t null : {hipStream_t{nullptr}, reinterpret_cast<hipStream_t>(1)}) {
    char* const memory = allocate(96 * kKiB);
    OK(hipDeviceSynchronize());  // nothing is in the null stream
    char* next = nullptr;
    {
      Busy busy(blocking);
      OK(hipFreeAsync(memory, null));
      next = allocate(96 * kKiB);
      EXPECT_NE(memory, next) << "the blocking stream has not come to the free yet";
      EXPECT_FALSE(busy.stuck());
    }
    OK(hipFree(next));
  }
}

TEST_F(MemoryRules, rule_24_only_default_allocations_are_kept) {
  const auto twice = [](const char* allocating, const char* freeing, const std::function<void*()>& make,
                        const std::function<hipError_t(void*)>& free) {
    const Since since({allocating, freeing});
    for (int i = 0; i < 2; ++i) {
      void* const pointer = make();
      OK(free(pointer));
    }
    EXPECT_EQ(2, since[allocating]) << allocating;
    EXPECT_EQ(2, since[freeing]) << freeing;
  };
  const auto made_by = [](auto call) {
    return [call] {
      void* pointer = nullptr;
      EXPECT_EQ(hipSuccess, call(&pointer));
      return pointer;
    };
  };
  for (const unsigned flags : {static_cast<unsigned>(hipDeviceMallocFinegrained)})
    twice("hipExtMallocWithFlags", "hipFree",
          made_by([=](void** p) { return hipExtMallocWithFlags(p, 8 * kKiB, flags); }), hipFree);
  twice("hipExtMallocWithFlags", "hipFree",
        made_by([](void** p) { return hipExtMallocWithFlags(p, 8, hipMallocSignalMemory); }), hipFree);
  twice("hipMallocManaged", "hipFree",
        made_by([](void** p) { return hipMallocManaged(p, 8 * kKiB, hipMemAttachGlobal); }), hipFree);
  twice("hipHostMalloc", "hipHostFree", made_by([](void** p) { return hipHostMalloc(p, 8 * kKiB, 0); }), hipHostFree);
}

TEST_F(MemoryRules, rule_24_kept_memory_is_unknown_to_every_question) {
  char* const memory = allocate(64 * kKiB);
  OK(hipFree(memory));
  hipPointerAttribute_t attributes{};
  EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, memory));
  unsigned value = 0;
  EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttribute(&value, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  EXPECT_EQ(hipErrorNotFound, hipMemGetAddressRange(&base, &bytes, memory));
  EXPECT_EQ(hipErrorInvalidValue, hipMemPtrGetInfo(memory, &bytes));
  hipIpcMemHandle_t handle;
  EXPECT_EQ(hipErrorInvalidValue, hipIpcGetMemHandle(&handle, memory));
  EXPECT_EQ(hipErrorInvalidValue, hipFree(memory));
  EXPECT_EQ(hipErrorInvalidValue, hipFreeAsync(memory, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipHostFree(memory));
}

/// What frees by address, each with the memory it is for: `kind` of made().
struct Way {
  const char* name;
  std::function<hipError_t(void*, hipStream_t)> free;
  std::vector<int> kinds;
};
enum Made { kPlain, kPinned, kInOrder };
/// A free that newer headers call deprecated.
auto by_name(const char* name) { return reinterpret_cast<hipError_t (*)(void*)>(dlsym(RTLD_DEFAULT, name)); }
const std::vector<Way>& ways_to_free() {
  static const std::vector<Way> all = {
      {"hipFree", [](void* p, hipStream_t) { return hipFree(p); }, {kPlain, kPinned, kInOrder}},
      {"hipHostFree", [](void* p, hipStream_t) { return hipHostFree(p); }, {kPlain, kPinned}},
      {"hipFreeHost", [](void* p, hipStream_t) { return by_name("hipFreeHost")(p); }, {kPlain, kPinned}},
      {"hipFreeAsync", [](void* p, hipStream_t s) { return hipFreeAsync(p, s); }, {kPlain, kInOrder}}};
  return all;
}
char* made(int kind, std::size_t bytes, hipStream_t stream) {
  void* memory = nullptr;
  if (kind == kPinned) {
    EXPECT_EQ(hipSuccess, hipHostMalloc(&memory, bytes, 0));
  } else {
    EXPECT_EQ(hipSuccess, kind == kInOrder ? hipMallocAsync(&memory, bytes, stream) : hipMalloc(&memory, bytes));
  }
  return static_cast<char*>(memory);
}

TEST_F(MemoryRules, rule_24_any_address_of_an_allocation_frees_all_of_it) {
  constexpr std::size_t kBytes = 64 * kKiB + 100;
  const Stream stream;
  const std::size_t before = free_bytes();
  for (const Way& way : ways_to_free()) {
    for (const int kind : way.kinds) {
      for (const std::size_t inside : {std::size_t{1}, std::size_t{256}, kBytes / 2, kBytes - 1}) {
        SCOPED_TRACE(testing::Message() << way.name << " of kind " << kind << ", " << inside << " bytes inside");
        char* const left = made(kind, kBytes, stream);
        char* const memory = made(kind, kBytes, stream);
        char* const right = made(kind, kBytes, stream);
        for (char* const each : {left, memory, right}) OK(hipMemsetAsync(each, 3, kBytes, stream));
        OK(hipStreamSynchronize(stream));
        EXPECT_EQ(hipSuccess, way.free(memory + inside, stream));
        OK(hipStreamSynchronize(stream));
        hipPointerAttribute_t attributes{};
        for (char* const gone : {memory, memory + inside}) {
          EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, gone));
          for (const Way& again : ways_to_free())
            EXPECT_EQ(hipErrorInvalidValue, again.free(gone, stream)) << again.name;
        }
        // Memory that is handed out now is the program's alone.
        char* const next = made(kind, kBytes, stream);
        EXPECT_EQ(hipSuccess, hipMemset(next, 5, kBytes));
        for (char* const each : {left, right}) EXPECT_EQ(3, first_byte(each));
        EXPECT_EQ(5, first_byte(next));
        for (char* const each : {left, next, right}) OK(way.free(each, stream));
        OK(hipStreamSynchronize(stream));
        OK(hipDeviceSynchronize());
        EXPECT_EQ(before, free_bytes());
      }
    }
  }
  static_cast<void>(hipGetLastError());
}

TEST_F(MemoryRules, rule_24_what_is_in_no_allocation_frees_nothing) {
  const Stream stream;
  const std::size_t before = free_bytes();
  for (const std::size_t bytes : {64 * kKiB, 64 * kKiB + 100, 3 * kMiB}) {
    char* const memory = allocate(bytes);
    char* const end = memory + bytes;
    char* const end_of_page = memory + (bytes + 4 * kKiB - 1) / (4 * kKiB) * (4 * kKiB) - 1;
    for (const Way& way : ways_to_free()) {
      EXPECT_EQ(hipErrorInvalidValue, way.free(end, stream)) << way.name;
      EXPECT_EQ(hipErrorInvalidValue, hipGetLastError()) << way.name;
      if (end_of_page <= end) continue;
      EXPECT_EQ(hipErrorInvalidValue, way.free(end_of_page, stream)) << way.name;
    }
    OK(hipMemset(memory, 7, bytes));
    EXPECT_EQ(7, first_byte(end - 1));
    OK(hipFree(memory));
    for (const Way& way : ways_to_free()) EXPECT_EQ(hipErrorInvalidValue, way.free(end, stream)) << way.name;
  }
  EXPECT_EQ(before, free_bytes());
  // All of it goes back and comes again: nothing of ours was taken apart.
  OK(hipFree(allocate(before / kMiB * kMiB)));
  char* const again = allocate(64 * kKiB);
  OK(hipMemset(again, 9, 64 * kKiB));
  OK(hipFree(again));
  EXPECT_EQ(before, free_bytes());
  static_cast<void>(hipGetLastError());
}

/// What hipGetLastError tells behind calls before which an error was pending.
template <typename Calls>
hipError_t told_behind(Calls&& calls) {
  EXPECT_EQ(hipErrorInvalidDevice, hipSetDevice(-1));
  calls();
  return hipGetLastError();
}

TEST_F(MemoryRules, rule_14_a_pending_error_stays_where_a_call_leaves_it) {
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  const hipError_t by_success = version < 70000000 ? hipSuccess : hipErrorInvalidDevice;
  const Stream stream;
  for (const hipStream_t on : {static_cast<hipStream_t>(stream), hipStream_t{}}) {
    char *const first = allocate(64 * kKiB), *const second = allocate(64 * kKiB), *const third = allocate(64 * kKiB);
    EXPECT_EQ(version < 60000000 ? hipSuccess : hipErrorInvalidDevice, told_behind([&] {
                OK(hipFreeAsync(first, on));
                OK(hipFreeAsync(second, on));
              }));
    EXPECT_EQ(hipSuccess, hipGetLastError());
    int device = -1;
    EXPECT_EQ(by_success, told_behind([&] {
                OK(hipFreeAsync(third, on));
                OK(hipGetDevice(&device));
              }));
  }
  void* ordered = nullptr;
  OK(hipMallocAsync(&ordered, 64 * kKiB, stream));
  EXPECT_EQ(by_success, told_behind([&] { OK(hipFreeAsync(ordered, stream)); }));
  OK(hipStreamSynchronize(stream));

  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  EXPECT_EQ(version / 10000000 == 6 ? hipErrorInvalidDevice : hipErrorStreamCaptureUnsupported,
            told_behind([] { EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipDeviceSynchronize()); }));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream, &graph));
  static_cast<void>(hipGetLastError());
}

TEST_F(MemoryRules, rule_16_a_free_by_an_address_inside_waits_and_one_in_stream_order_does_not) {
  const Stream stream;
  char* const memory = allocate(64 * kKiB);
  char* const in_order = made(kInOrder, 64 * kKiB, stream);
  char* const plain = allocate(64 * kKiB);
  Busy busy(stream);
  OK(hipFreeAsync(in_order + 300, stream));
  OK(hipFreeAsync(plain + 300, stream));
  EXPECT_FALSE(busy.stuck()) << "a free in stream order waited";
  std::atomic<bool> freed{false};
  std::thread other([&] {
    call_waits(freed);
    busy.let_go();
  });
  OK(hipFree(memory + 300));
  EXPECT_FALSE(busy.busy()) << "hipFree returned while a kernel of the device was running";
  freed = true;
  other.join();
  OK(hipStreamSynchronize(stream));
  for (char* const each : {memory, in_order, plain}) EXPECT_EQ(hipErrorInvalidValue, hipFree(each));
}

TEST_F(MemoryRules, rule_24_an_address_inside_is_asked_about_as_its_allocation) {
  char* const memory = allocate(64 * kKiB);
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  OK(hipMemGetAddressRange(&base, &bytes, memory + 5000));
  EXPECT_EQ(memory, base);
  EXPECT_EQ(64 * kKiB, bytes);
  OK(hipMemPtrGetInfo(memory, &bytes));
  EXPECT_EQ(64 * kKiB, bytes);
  OK(hipFree(memory));
}

/// HIP_POINTER_ATTRIBUTE_BUFFER_ID, which both functions answer alike.
unsigned buffer_id(void* pointer) {
  unsigned id = 0, same = 0;
  EXPECT_EQ(hipSuccess, hipPointerGetAttribute(&id, HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
  std::size_t bytes = 0;
  hipPointer_attribute wanted[] = {HIP_POINTER_ATTRIBUTE_RANGE_SIZE, HIP_POINTER_ATTRIBUTE_BUFFER_ID};
  void* answers[] = {&bytes, &same};
  EXPECT_EQ(hipSuccess, hipDrvPointerGetAttributes(2, wanted, answers, pointer));
  EXPECT_EQ(id, same);
  EXPECT_NE(0u, id);
  return id;
}

TEST_F(MemoryRules, rule_24_each_allocation_has_a_buffer_id_of_its_own) {
  constexpr std::size_t kBytes = 24 * kKiB;
  const Stream stream;
  std::set<unsigned> known;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::pair<char*, unsigned>> live;
    for (const int kind : {kPlain, kPlain, kPinned, kPlain}) {
      char* const memory = made(kind, kBytes, stream);
      live.emplace_back(memory, buffer_id(memory));
      EXPECT_TRUE(known.insert(live.back().second).second) << "it names another allocation too";
    }
    // Asked about last of all, or never, it is another one all the same.
    char* const late = allocate(kBytes);
    for (const auto& [memory, id] : live) {
      for (const std::size_t inside : {std::size_t{0}, std::size_t{1}, kBytes - 1})
        EXPECT_EQ(id, buffer_id(memory + inside)) << "the same as long as it lives, wherever it is asked about";
      OK(memory == live[2].first ? hipHostFree(memory) : hipFree(memory));
      unsigned gone = 0;
      EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttribute(&gone, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory));
    }
    EXPECT_TRUE(known.insert(buffer_id(late)).second);
    OK(hipFree(late));
  }
  static_cast<void>(hipGetLastError());
}

TEST_F(MemoryRules, rule_24_what_is_set_for_memory_goes_with_it) {
  for (int round = 0; round < 2; ++round) {
    const Since since({"hipMalloc", "hipFree"});
    char* const memory = allocate(20 * kKiB);
    const hipError_t advised = hipMemAdvise(memory, 20 * kKiB, hipMemAdviseSetReadMostly, 0);
    OK(hipFree(memory));
    if (advised != hipSuccess) GTEST_SKIP() << "VMM memory takes no advice";
    EXPECT_EQ(1, since["hipMalloc"]);
    EXPECT_EQ(1, since["hipFree"]);
  }
}

TEST_F(MemoryRules, rule_24_hip_host_free_frees_device_memory_too) {
  char* const pointer = allocate(5000);
  EXPECT_EQ(hipErrorInvalidValue, hipHostFree(pointer + 5000));
  OK(hipHostFree(pointer));
  EXPECT_EQ(hipErrorInvalidValue, hipHostFree(pointer));
  EXPECT_EQ(hipErrorInvalidValue, hipFree(pointer));
}

TEST_F(MemoryRules, rule_24_since_a_device_is_in_error_frees_return_it) {
  OK(hipSetDevice(1));
  OK(hipDeviceReset());
  const std::size_t free = free_bytes();
  hipStream_t stream = nullptr;
  OK(hipStreamCreate(&stream));
  char* const pointers[] = {allocate(5000), allocate(6000), allocate(7000), allocate(7000)};
  const std::vector<char> code = compiled_code("extern \"C\" __global__ void store(int* to) { *to = 1; }");
  hipModule_t module = nullptr;
  hipFunction_t store = nullptr;
  OK(hipModuleLoadData(&module, code.data()));
  OK(hipModuleGetFunction(&store, module, "store"));
  int on_the_stack = 0, *to = &on_the_stack;
  void* arguments[] = {&to};
  OK(hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  static_cast<void>(hipStreamSynchronize(stream));  // comes before the error, or behind it
  EXPECT_EQ(hipErrorIllegalAddress, hipFree(pointers[0]));
  EXPECT_EQ(hipErrorIllegalAddress, hipFree(pointers[1]));
  EXPECT_EQ(hipErrorIllegalAddress, hipFreeAsync(pointers[2], stream));
  EXPECT_EQ(hipErrorIllegalAddress, hipHostFree(pointers[3]));
  OK(hipDeviceReset());
  for (char* const pointer : pointers) EXPECT_EQ(hipErrorInvalidValue, hipFree(pointer));
  EXPECT_EQ(free, free_bytes());
}

// --- 25: large allocations, the cap, and what is given back ---

TEST_F(MemoryRules, rule_25_large_allocations_are_exact_and_really_freed) {
  for (int i = 0; i < 2; ++i) {
    const Since since({"hipMalloc", "hipFree"});
    char* const memory = allocate(large_bytes());
    EXPECT_EQ(1, since["hipMalloc"]);
    OK(hipFree(memory));
    EXPECT_EQ(1, since["hipFree"]);
  }
}

TEST_F(MemoryRules, rule_25_kept_memory_counts_as_free_and_is_capped) {
  const std::size_t free = free_bytes();
  std::vector<char*> blocks;
  for (int i = 0; i < 24; ++i) blocks.push_back(allocate(kMiB + static_cast<std::size_t>(i) * 4 * kKiB));
  for (char* block : blocks) OK(hipFree(block));
  EXPECT_EQ(free, free_bytes());
  if (!under_library() || vmm()) return;
  // The limit (8 MiB, set by meson.build) was passed: the rest went back, the one freed last is still there.
  const Since since({"hipMalloc"});
  char* const last = allocate(kMiB + 23 * 4 * kKiB);
  EXPECT_EQ(0, since["hipMalloc"]);
  char* const first = allocate(kMiB);
  EXPECT_EQ(1, since["hipMalloc"]);
  OK(hipFree(last));
  OK(hipFree(first));
}

TEST_F(MemoryRules, rule_25_kept_memory_is_given_back_before_a_call_fails_for_it) {
  char* const kept = allocate(6 * kMiB);
  OK(hipFree(kept));
  const std::size_t free = free_bytes() / kMiB * kMiB;
  void* pointer = nullptr;
  std::size_t pitch = 0;
  // Each needs all there is, and natively there is that much.
  OK(hipMalloc(&pointer, free));
  OK(hipFree(pointer));
  OK(hipFree(allocate(6 * kMiB)));
  OK(hipMallocManaged(&pointer, free));
  OK(hipFree(pointer));
  OK(hipFree(allocate(6 * kMiB)));
  OK(hipMallocPitch(&pointer, &pitch, kMiB, free / kMiB));
  OK(hipFree(pointer));
  OK(hipFree(allocate(6 * kMiB)));
  OK(hipExtMallocWithFlags(&pointer, free, hipDeviceMallocFinegrained));
  OK(hipFree(pointer));
}

TEST_F(MemoryRules, rule_24_values_of_a_batch_are_neither_written_to_freed_memory_nor_beyond_an_allocation) {
  struct Operation {  // hipStreamBatchMemOpParams
    int kind;
    void* address;
    std::uint64_t value;
    unsigned flags;
    void* alias;
    std::uint64_t reserved;
  };
  constexpr int kWait32 = 1, kWrite32 = 2, kWait64 = 4, kWrite64 = 5;
  using Batch = hipError_t (*)(hipStream_t, unsigned, Operation*, unsigned);
  const auto batch = reinterpret_cast<Batch>(dlsym(RTLD_DEFAULT, "hipStreamBatchMemOp"));
  ASSERT_NE(nullptr, batch);
  const Stream stream;
  char *const used = allocate(4 * kKiB), *const freed = allocate(4 * kKiB);
  OK(hipMemset(used, 0, 4 * kKiB));
  OK(hipFree(freed));
  const std::uint32_t reached = hipStreamWaitValueGte;
  for (const int kind : {kWait32, kWrite32, kWait64, kWrite64}) {
    for (char* const wrong : {freed, freed + 128, used + 4 * kKiB}) {
      Operation operations[] = {{kWrite32, used, 1, 0, nullptr, 0}, {kind, wrong, 0, reached, nullptr, 0}};
      EXPECT_EQ(hipErrorInvalidValue, batch(stream, 2, operations, 0)) << kind << " of " << wrong - used;
      EXPECT_EQ(wrong, operations[1].address) << "the program's own structure is left alone";
    }
    Operation right[] = {{kWrite32, used + 8, 3, 0, nullptr, 0}, {kind, used + 8, 3, reached, nullptr, 0}};
    OK(batch(stream, 2, right, 0));
  }
  OK(hipStreamSynchronize(stream));
  std::uint32_t values[3] = {};
  OK(hipMemcpy(values, used, sizeof values, hipMemcpyDeviceToHost));
  EXPECT_EQ(0u, values[0]) << "nothing of a batch that was refused";
  EXPECT_EQ(3u, values[2]);
  OK(hipFree(used));
  static_cast<void>(hipGetLastError());
}

TEST_F(MemoryRules, rule_25_no_call_fails_for_memory_while_memory_is_kept) {
  using Fail = void (*)(unsigned long long, int);
  static const auto fail = reinterpret_cast<Fail>(dlsym(RTLD_DEFAULT, "cpuhip_fail"));
  ASSERT_NE(nullptr, fail);
  const Stream stream;
  const Buffer buffer;
  std::vector<char> page(16 * kKiB), code = code_object();
  hipModule_t module = nullptr;
  OK(hipModuleLoadData(&module, code.data()));
  const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 1)); });
  const hipGraph_t again = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 1)); });
  const hipGraph_t other = capture(stream, [&] { OK(hipMemsetAsync(buffer.get(), 7, kCount * 4, stream)); });
  hipGraphExec_t exec = nullptr, foreign = nullptr;
  OK(hipGraphInstantiate(&exec, again, nullptr, nullptr, 0));
  OK(hipGraphInstantiateWithFlags(&foreign, other, hipGraphInstantiateFlagAutoFreeOnLaunch));
  int value = 0;
  std::uint32_t one = 1;
  struct Call {
    const char* name;
    std::function<hipError_t()> make;
    std::function<void()> undo = [] {};
  };
  hipEvent_t event = nullptr;
  hipStream_t made_stream = nullptr;
  hipModule_t made_module = nullptr;
  hipFunction_t function = nullptr;
  hipGraphExec_t made_exec = nullptr;
  hipDeviceptr_t global = nullptr;
  std::size_t bytes = 0;
  const auto mixes = [&] { value = mixed(value, 1); };
  const std::vector<Call> all = {
      {"hipModuleLaunchKernel", [&] { return kernels().mix(stream, buffer.get(), kCount, 1); }, mixes},
      {"hipMemsetAsync", [&] { return hipMemsetAsync(buffer.get(), 0, kCount * 4, stream); }, [&] { value = 0; }},
      {"hipMemset", [&] { return hipMemset(buffer.get(), 0, kCount * 4); }},
      {"hipStreamWriteValue32", [&] { return hipStreamWriteValue32(stream, buffer.get(), 0, 0); }},
      {"hipGraphLaunch", [&] { return hipGraphLaunch(exec, stream); }, mixes},
      {"hipGraphLaunch of a native exec", [&] { return hipGraphLaunch(foreign, stream); }, [&] { value = 0x07070707; }},
      {"hipGraphInstantiate", [&] { return hipGraphInstantiate(&made_exec, graph, nullptr, nullptr, 0); },
       [&] { OK(hipGraphExecDestroy(made_exec)); }},
      {"hipEventCreate", [&] { return hipEventCreate(&event); }, [&] { OK(hipEventDestroy(event)); }},
      {"hipEventCreateWithFlags", [&] { return hipEventCreateWithFlags(&event, hipEventDisableTiming); },
       [&] { OK(hipEventDestroy(event)); }},
      {"hipStreamCreate", [&] { return hipStreamCreate(&made_stream); }, [&] { OK(hipStreamDestroy(made_stream)); }},
      {"hipStreamCreateWithFlags", [&] { return hipStreamCreateWithFlags(&made_stream, hipStreamNonBlocking); },
       [&] { OK(hipStreamDestroy(made_stream)); }},
      {"hipStreamCreateWithPriority",
       [&] { return hipStreamCreateWithPriority(&made_stream, hipStreamNonBlocking, 0); },
       [&] { OK(hipStreamDestroy(made_stream)); }},
      {"hipExtStreamCreateWithCUMask", [&] { return hipExtStreamCreateWithCUMask(&made_stream, 1, &one); },
       [&] { OK(hipStreamDestroy(made_stream)); }},
      {"hipModuleLoadData", [&] { return hipModuleLoadData(&made_module, code.data()); },
       [&] { OK(hipModuleUnload(made_module)); }},
      {"hipModuleLoadDataEx", [&] { return hipModuleLoadDataEx(&made_module, code.data(), 0, nullptr, nullptr); },
       [&] { OK(hipModuleUnload(made_module)); }},
      {"hipModuleGetFunction", [&] { return hipModuleGetFunction(&function, module, "noop"); }},
      {"hipModuleGetGlobal", [&] { return hipModuleGetGlobal(&global, &bytes, module, "number"); }},
      {"hipHostRegister", [&] { return hipHostRegister(page.data(), page.size(), 0); },
       [&] { OK(hipHostUnregister(page.data())); }},
  };
  for (const Call& call : all) {
    // One call of those that serve it fails, each in turn; the first for certain.
    for (unsigned long long n = 1; n <= 6; ++n) {
      OK(hipStreamSynchronize(stream));
      OK(hipFree(allocate(2 * kMiB)));
      static_cast<void>(hipGetLastError());
      fail(n, hipErrorOutOfMemory);
      const hipError_t result = call.make();
      fail(0, 0);
      const bool refused = !under_library() && n == 1;
      EXPECT_EQ(refused ? hipErrorOutOfMemory : hipSuccess, result) << call.name << ", call " << n;
      EXPECT_EQ(result, hipGetLastError()) << call.name << ", call " << n;
      if (result == hipSuccess) call.undo();
      OK(hipStreamSynchronize(stream));
      EXPECT_EQ(value, buffer.value()) << call.name << ", call " << n;
    }
  }
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphExecDestroy(foreign));
  for (const hipGraph_t one_graph : {graph, again, other}) OK(hipGraphDestroy(one_graph));
  OK(hipModuleUnload(module));
}

TEST_F(MemoryRules, rule_25_a_call_that_memory_given_back_does_not_help_fails_as_it_would) {
  const Stream stream;
  using Fail = void (*)(unsigned long long, int);
  static const auto fail = reinterpret_cast<Fail>(dlsym(RTLD_DEFAULT, "cpuhip_fail"));
  const Buffer buffer;
  OK(hipStreamSynchronize(stream));
  static_cast<void>(hipGetLastError());
  fail(1, hipErrorInvalidValue);  // any other error is the program's at once
  const Since since({"hipModuleLaunchKernel"});
  EXPECT_EQ(hipErrorInvalidValue, kernels().mix(stream, buffer.get(), kCount, 1));
  EXPECT_EQ(hipErrorInvalidValue, hipGetLastError());
  EXPECT_EQ(1, since["hipModuleLaunchKernel"]);
  fail(0, 0);
}

// --- 31: reset and fork ---

TEST_F(MemoryRules, rule_31_a_reset_drops_what_the_device_held) {
  OK(hipSetDevice(1));
  std::size_t before = 0, total = 0;
  OK(hipDeviceReset());
  OK(hipMemGetInfo(&before, &total));
  for (int round = 0; round < 2; ++round) {
    char* const live = allocate(64 * kKiB);
    char* const kept = allocate(32 * kKiB);
    OK(hipFree(kept));
    OK(hipDeviceReset());
    EXPECT_EQ(before, free_bytes());
    EXPECT_EQ(hipErrorInvalidValue, hipFree(live));
    EXPECT_EQ(hipErrorInvalidValue, hipFree(kept));
    hipPointerAttribute_t attributes{};
    EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttributes(&attributes, live));
    char* const again = allocate(32 * kKiB);
    OK(hipMemset(again, 3, 32 * kKiB));
    char value = 0;
    OK(hipMemcpy(&value, again, 1, hipMemcpyDeviceToHost));
    EXPECT_EQ(3, value);
    OK(hipFree(again));
  }
  OK(hipSetDevice(0));
}

TEST_F(MemoryRules, rule_31_a_reset_drops_the_graphs_of_the_device) {
  OK(hipSetDevice(1));
  for (int round = 0; round < 3; ++round) {
    hipStream_t stream = nullptr;
    OK(hipStreamCreate(&stream));
    char* const memory = allocate(4 * kKiB);
    step(stream, [&] { OK(hipMemsetAsync(memory, round, 4 * kKiB, stream)); });
    // Often enough that a staged graph does without copies.
    for (int i = 0; i < 20; ++i) step(stream, [&] { OK(hipMemsetAsync(memory, round + 1, 4 * kKiB, stream)); });
    char value = 0;
    OK(hipMemcpy(&value, memory, 1, hipMemcpyDeviceToHost));
    EXPECT_EQ(round + 1, value);
    OK(hipDeviceReset());
  }
  OK(hipSetDevice(0));
}

TEST_F(MemoryRules, rule_31_execs_that_outlive_a_reset_take_no_memory_of_the_program_with_them) {
  constexpr std::size_t kBytes = 4 * kKiB;
  OK(hipSetDevice(1));
  for (int round = 0; round < 3; ++round) {
    hipStream_t stream = nullptr;
    OK(hipStreamCreate(&stream));
    char* memory = allocate(kBytes);
    const auto body = [&] { OK(hipMemsetAsync(memory, round, kBytes, stream)); };
    const hipGraph_t graph = capture(stream, body);
    hipGraphExec_t execs[2] = {};
    for (hipGraphExec_t& exec : execs) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphLaunch(exec, stream));
    }
    OK(hipStreamSynchronize(stream));
    OK(hipDeviceReset());
    OK(hipStreamCreate(&stream));
    std::vector<char*> others;
    for (int i = 0; i < 16; ++i) {
      others.push_back(allocate(static_cast<std::size_t>(i / 4 + 1) * kBytes));
      OK(hipMemset(others.back(), i, kBytes));
    }
    OK(hipGraphExecDestroy(execs[0]));
    // The other one is given memory that there is.
    memory = allocate(kBytes);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result{};
    const hipGraph_t again = capture(stream, body);
    OK(hipGraphExecUpdate(execs[1], again, &node, &result));
    OK(hipGraphLaunch(execs[1], stream));
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(round, first_byte(memory));
    OK(hipGraphExecDestroy(execs[1]));
    OK(hipGraphDestroy(graph));
    OK(hipGraphDestroy(again));
    for (int i = 0; i < 3; ++i) step(stream, body);
    OK(hipFree(memory));
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(i, first_byte(others[static_cast<std::size_t>(i)]));
      OK(hipFree(others[static_cast<std::size_t>(i)]));
    }
    OK(hipStreamDestroy(stream));
  }
  OK(hipSetDevice(0));
}

TEST_F(MemoryRules, rule_31_a_child_of_a_process_that_has_used_hip_passes_through) {
  char* const memory = allocate(64 * kKiB);
  OK(hipFree(memory));
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    const hipError_t result = hipMalloc(&pointer, 64 * kKiB);
    _exit(result == hipErrorNotInitialized && pointer == nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  OK(hipFree(allocate(64 * kKiB)));
}

// --- 38: settings are an epoch ---

TEST_F(MemoryRules, rule_38_a_changed_setting_ends_what_was_recorded_before) {
  const Stream stream;
  const Buffer buffer;
  const auto changes = std::vector<std::pair<const char*, std::function<void()>>>{
      {"hipDeviceEnablePeerAccess", [] { OK(hipDeviceEnablePeerAccess(1, 0)); }},
      {"hipDeviceDisablePeerAccess", [] { OK(hipDeviceDisablePeerAccess(1)); }},
      {"hipDeviceSetCacheConfig", [] { static_cast<void>(hipDeviceSetCacheConfig(hipFuncCachePreferL1)); }}};
  int value = 0;
  const auto one = [&] {
    const Since since({"hipModuleLaunchKernel"});
    step(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 9)); });
    value = mixed(value, 9);
    return since["hipModuleLaunchKernel"];
  };
  EXPECT_EQ(1, one());
  for (const auto& [name, change] : changes) {
    if (under_library()) {
      EXPECT_EQ(0, one()) << "before " << name;
    }
    change();
    EXPECT_EQ(1, one()) << name;
  }
  EXPECT_EQ(value, buffer.value());
}

}  // namespace
