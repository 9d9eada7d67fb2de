// Streams, the legacy null stream, events, host functions, values written and awaited, asynchrony.
#include <mutex>

#include "../cpuhip_statistics.h"
#include "support.h"

// Newer than the oldest header.
extern "C" {
hipError_t hipStreamSetAttribute(hipStream_t, int, const void*);
hipError_t hipStreamGetAttribute(hipStream_t, int, void*);
hipError_t hipStreamCopyAttributes(hipStream_t, hipStream_t);
hipError_t hipStreamBatchMemOp(hipStream_t, unsigned, const void*, unsigned);
}

namespace {

/// Work that notes a number when it runs.
class Order {
 public:
  void add(hipStream_t stream, int number) {
    HIP_OK(hipLaunchHostFunc(
        stream,
        [](void* user) {
          auto* note = static_cast<Note*>(user);
          const std::lock_guard lock(note->order->mutex_);
          note->order->numbers_.push_back(note->number);
          delete note;
        },
        new Note{this, number}));
  }
  std::vector<int> numbers() {
    const std::lock_guard lock(mutex_);
    return numbers_;
  }

 private:
  struct Note {
    Order* order;
    int number;
  };
  std::mutex mutex_;
  std::vector<int> numbers_;
};

std::size_t waiting_calls() {
  cpuhip_statistics_t now{};
  cpuhip_statistics(&now);
  return now.waiting_calls;
}

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    HIP_OK(hipStreamCreate(&a_));
    HIP_OK(hipStreamCreate(&b_));
    HIP_OK(hipStreamCreateWithFlags(&free_, hipStreamNonBlocking));
  }
  void TearDown() override {
    HIP_OK(hipStreamDestroy(a_));
    HIP_OK(hipStreamDestroy(b_));
    HIP_OK(hipStreamDestroy(free_));
  }
  hipStream_t a_, b_, free_;
};

TEST_F(Streams, HaveAttributes) {
  constexpr int kWindow = 1, kSynchronization = 3;
  union {
    hipAccessPolicyWindow window;
    int synchronization;
  } value{};
  HIP_OK(hipStreamGetAttribute(a_, kSynchronization, &value));
  EXPECT_EQ(1, value.synchronization);
  value.synchronization = 3;
  HIP_OK(hipStreamSetAttribute(a_, kSynchronization, &value));
  value.window = {};
  value.window.hitRatio = 0.5f;
  HIP_OK(hipStreamSetAttribute(a_, kWindow, &value));
  HIP_OK(hipStreamCopyAttributes(b_, a_));
  HIP_OK(hipStreamGetAttribute(b_, kWindow, &value));
  EXPECT_EQ(0.5f, value.window.hitRatio);
  HIP_OK(hipStreamGetAttribute(b_, kSynchronization, &value));
  EXPECT_EQ(3, value.synchronization);
  value.window.hitRatio = 2;
  EXPECT_EQ(hipErrorInvalidValue, hipStreamSetAttribute(a_, kWindow, &value));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamSetAttribute(a_, 99, &value));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamSetAttribute(a_, kWindow, nullptr));
}

TEST_F(Streams, WriteAndAwaitValuesInBatches) {
  struct Operation {
    int kind;
    void* address;
    std::uint64_t value;
    unsigned flags;
    void* alias;
    std::uint64_t reserved;
  };
  constexpr int kWait32 = 1, kWrite32 = 2, kWrite64 = 5;
  std::uint64_t* values = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&values), 64, 0));
  values[0] = values[1] = 0;
  const Operation all[] = {{kWait32, &values[0], 7, hipStreamWaitValueEq, nullptr, 0},
                           {kWrite64, &values[1], std::uint64_t{1} << 40, 0, nullptr, 0}};
  HIP_OK(hipStreamBatchMemOp(a_, 2, all, 0));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(a_));
  const Operation go = {kWrite32, &values[0], 7, 0, nullptr, 0};
  HIP_OK(hipStreamBatchMemOp(b_, 1, &go, 0));
  HIP_OK(hipStreamSynchronize(a_));
  EXPECT_EQ(std::uint64_t{1} << 40, values[1]);
  // Nothing is done where one of them is refused.
  int plain = 0;
  const Operation one_is_wrong[] = {{kWrite32, &values[0], 8, 0, nullptr, 0}, {kWrite32, &plain, 8, 0, nullptr, 0}};
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBatchMemOp(a_, 2, one_is_wrong, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBatchMemOp(a_, 0, all, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBatchMemOp(a_, 1, nullptr, 0));
  HIP_OK(hipStreamSynchronize(a_));
  EXPECT_EQ(7u, values[0]);
  HIP_OK(hipHostFree(values));
}

TEST_F(Streams, KeepOrderAndRunConcurrently) {
  Order order;
  Gate gate(a_);
  order.add(a_, 1);
  order.add(b_, 2);
  HIP_OK(hipStreamSynchronize(b_));
  EXPECT_EQ(order.numbers(), std::vector<int>({2}));
  EXPECT_EQ(hipStreamQuery(a_), hipErrorNotReady);
  gate.open();
  HIP_OK(hipStreamSynchronize(a_));
  HIP_OK(hipStreamQuery(a_));
  EXPECT_EQ(order.numbers(), std::vector<int>({2, 1}));
}

TEST_F(Streams, TheNullStreamWaitsForBlockingStreamsAndTheyForIt) {
  Order order;
  Gate gate(a_);
  order.add(nullptr, 1);
  order.add(b_, 2);
  order.add(free_, 3);
  HIP_OK(hipStreamSynchronize(free_));
  while (cpuhip_held_up(nullptr) == 0 || cpuhip_held_up(b_) == 0) std::this_thread::yield();
  EXPECT_EQ(cpuhip_held_up(a_), 0) << "what holds it is its own";
  EXPECT_EQ(cpuhip_held_up(free_), 0);
  EXPECT_EQ(order.numbers(), std::vector<int>({3})) << "only the non-blocking stream goes on";
  EXPECT_EQ(hipStreamQuery(nullptr), hipErrorNotReady);
  gate.open();
  HIP_OK(hipStreamSynchronize(b_));
  EXPECT_EQ(order.numbers(), std::vector<int>({3, 1, 2}));
  EXPECT_EQ(cpuhip_held_up(nullptr), 0);
  EXPECT_EQ(cpuhip_held_up(b_), 0);
}

TEST_F(Streams, ANonBlockingStreamDoesNotHoldTheNullStream) {
  Gate gate(free_);
  HIP_OK(hipStreamSynchronize(nullptr));
  HIP_OK(hipStreamQuery(nullptr));
  EXPECT_EQ(hipStreamQuery(free_), hipErrorNotReady);
}

TEST_F(Streams, EventsOrderStreams) {
  hipEvent_t event;
  HIP_OK(hipEventCreate(&event));
  HIP_OK(hipEventQuery(event)) << "never recorded";
  Order order;
  Gate gate(a_);
  order.add(a_, 1);
  HIP_OK(hipEventRecord(event, a_));
  HIP_OK(hipStreamWaitEvent(b_, event, 0));
  order.add(b_, 2);
  EXPECT_EQ(hipEventQuery(event), hipErrorNotReady);
  EXPECT_EQ(hipStreamQuery(b_), hipErrorNotReady);
  gate.open();
  HIP_OK(hipEventSynchronize(event));
  HIP_OK(hipStreamSynchronize(b_));
  EXPECT_EQ(order.numbers(), std::vector<int>({1, 2}));
  HIP_OK(hipEventDestroy(event));
}

TEST_F(Streams, EventsMeasureTime) {
  hipEvent_t start, stop, untimed;
  HIP_OK(hipEventCreate(&start));
  HIP_OK(hipEventCreateWithFlags(&stop, hipEventBlockingSync));
  HIP_OK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  float milliseconds = -1;
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorInvalidHandle) << "not recorded";
  HIP_OK(hipEventRecord(start, a_));
  {
    Gate gate(a_);
    HIP_OK(hipEventRecord(stop, a_));
    EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorNotReady);
    pause_shortly();
  }
  HIP_OK(hipEventSynchronize(stop));
  HIP_OK(hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GE(milliseconds, 15.0f);
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, untimed), hipErrorInvalidHandle);
  EXPECT_EQ(hipEventRecord(nullptr, a_), hipErrorInvalidHandle);
  EXPECT_EQ(hipEventCreateWithFlags(&untimed, 0x100), hipErrorInvalidValue);
  for (hipEvent_t event : {start, stop, untimed}) HIP_OK(hipEventDestroy(event));
}

TEST_F(Streams, AsynchronousCallsReturnWhileTheStreamIsHeld) {
  char* bytes = device_bytes(4096);
  char* other = device_bytes(4096);
  std::atomic<bool> freed{false};
  std::thread freer;
  {
    Gate gate(a_);
    HIP_OK(hipMemsetAsync(bytes, 1, 4096, a_));
    HIP_OK(hipMemcpyAsync(other, bytes, 4096, hipMemcpyDeviceToDevice, a_));
    EXPECT_EQ(hipStreamQuery(a_), hipErrorNotReady);
    freer = std::thread([&] {
      EXPECT_EQ(hipFree(bytes), hipSuccess);
      freed = true;
    });
    while (waiting_calls() == 0 && !freed) std::this_thread::yield();
    EXPECT_FALSE(freed) << "hipFree waits for the device";
  }
  freer.join();
  EXPECT_TRUE(freed);
  EXPECT_EQ(waiting_calls(), 0u);
  HIP_OK(hipFree(other));
}

TEST_F(Streams, ValuesAreWrittenAndAwaited) {
  void* memory = nullptr;
  HIP_OK(hipExtMallocWithFlags(&memory, 8, hipMallocSignalMemory));
  auto* value = static_cast<std::uint64_t*>(memory);
  HIP_OK(hipStreamWaitValue64(a_, value, 5, hipStreamWaitValueGte, ~std::uint64_t{0}));
  pause_shortly();
  EXPECT_EQ(hipStreamQuery(a_), hipErrorNotReady);
  HIP_OK(hipStreamWriteValue64(b_, value, 4, 0));
  HIP_OK(hipStreamSynchronize(b_));
  pause_shortly();
  EXPECT_EQ(hipStreamQuery(a_), hipErrorNotReady);
  HIP_OK(hipStreamWriteValue64(b_, value, 6, 0));
  HIP_OK(hipStreamSynchronize(a_));
  HIP_OK(hipStreamWaitValue32(a_, value, 2, hipStreamWaitValueAnd, 0xffffffff));
  HIP_OK(hipStreamWaitValue32(a_, value, 6, hipStreamWaitValueEq, 0xf));
  HIP_OK(hipStreamWaitValue32(a_, value, 1, hipStreamWaitValueNor, 0xff));
  HIP_OK(hipStreamSynchronize(a_));
  HIP_OK(hipStreamWriteValue32(a_, value, 1, 0));
  HIP_OK(hipStreamSynchronize(a_));
  EXPECT_EQ(*value, 1u);
  std::uint64_t unknown = 0;
  EXPECT_EQ(hipStreamWriteValue64(a_, &unknown, 1, 0), hipErrorInvalidValue);
  HIP_OK(hipHostRegister(&unknown, sizeof unknown, 0));
  HIP_OK(hipStreamWriteValue64(a_, &unknown, 7, 0));
  HIP_OK(hipStreamSynchronize(a_));
  EXPECT_EQ(unknown, 7u);
  HIP_OK(hipHostUnregister(&unknown));
  HIP_OK(hipFree(memory));
}

TEST_F(Streams, CallbacksAndPrioritiesAndFlags) {
  std::atomic<hipStream_t> seen{nullptr};
  HIP_OK(hipStreamAddCallback(
      a_, [](hipStream_t stream, hipError_t, void* user) { *static_cast<std::atomic<hipStream_t>*>(user) = stream; },
      &seen, 0));
  HIP_OK(hipStreamSynchronize(a_));
  EXPECT_EQ(seen, a_);
  unsigned flags = 9;
  HIP_OK(hipStreamGetFlags(free_, &flags));
  EXPECT_EQ(flags, unsigned{hipStreamNonBlocking});
  hipStream_t urgent;
  HIP_OK(hipStreamCreateWithPriority(&urgent, hipStreamDefault, -7));
  int priority = 0, least = 0, greatest = 0;
  HIP_OK(hipStreamGetPriority(urgent, &priority));
  HIP_OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(priority, greatest);
  HIP_OK(hipStreamDestroy(urgent));
  EXPECT_EQ(hipStreamCreateWithFlags(&urgent, 7), hipErrorInvalidValue);
  EXPECT_EQ(hipStreamDestroy(nullptr), hipErrorInvalidHandle);
  EXPECT_EQ(hipStreamSynchronize(reinterpret_cast<hipStream_t>(0x1234)), hipErrorContextIsDestroyed);
}

TEST_F(Streams, EachThreadHasAStreamOfItsOwn) {
  Gate gate(hipStreamPerThread);
  EXPECT_EQ(hipStreamQuery(hipStreamPerThread), hipErrorNotReady);
  EXPECT_EQ(hipStreamQuery_spt(nullptr), hipErrorNotReady);
  std::thread([] {
    EXPECT_EQ(hipStreamQuery(hipStreamPerThread), hipSuccess);
    EXPECT_EQ(hipLaunchHostFunc(
                  hipStreamPerThread, [](void*) {}, nullptr),
              hipSuccess);
  }).join();
  EXPECT_EQ(hipStreamQuery(nullptr), hipErrorNotReady) << "it is a blocking stream";
}

TEST_F(Streams, DestroyFinishesTheWork) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  std::atomic<bool> ran{false};
  HIP_OK(hipLaunchHostFunc(
      stream,
      [](void* user) {
        pause_shortly();
        *static_cast<std::atomic<bool>*>(user) = true;
      },
      &ran));
  HIP_OK(hipStreamDestroy(stream));
  EXPECT_TRUE(ran);
}

TEST(Misuse, ADestroyedObjectEndsTheProcessWithItsName) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        hipStream_t stream;
        (void)hipStreamCreate(&stream);
        (void)hipStreamDestroy(stream);
        (void)hipStreamQuery(stream);
      },
      "hipStreamQuery: stream 0x.* was destroyed");
  EXPECT_DEATH(
      {
        hipEvent_t event;
        (void)hipEventCreate(&event);
        (void)hipEventDestroy(event);
        (void)hipEventRecord(event, nullptr);
      },
      "hipEventRecord: event 0x.* was destroyed");
}

TEST(Misuse, HandlesComeBackOnlyLate) {
  hipEvent_t first;
  HIP_OK(hipEventCreate(&first));
  HIP_OK(hipEventDestroy(first));
  std::vector<hipEvent_t> events(60);
  for (hipEvent_t& event : events) {
    HIP_OK(hipEventCreate(&event));
    EXPECT_NE(event, first);
  }
  for (hipEvent_t event : events) HIP_OK(hipEventDestroy(event));
}

TEST(DISABLED_Reuse, AtOnce) {
  for (int i = 0; i < 200; ++i) {
    hipStream_t first, second;
    HIP_OK(hipStreamCreate(&first));
    HIP_OK(hipLaunchHostFunc(
        first, [](void*) {}, nullptr));
    HIP_OK(hipStreamDestroy(first));
    HIP_OK(hipStreamCreate(&second));
    ASSERT_EQ(second, first) << i;
    HIP_OK(hipStreamDestroy(second));
  }
}

TEST(Misuse, AStreamsHandleIsFreeWhenItsDestroyHasReturned) {
  EXPECT_EQ(run_child("DISABLED_Reuse.AtOnce", {{"CPUHIP_REUSE", "once"}}), 0);
}

/// Streams made one after another, with a gate in the first: `held` says which must be held up. The others come to
/// their end.
void expect_held_by_the_first(const std::vector<bool>& held) {
  std::vector<hipStream_t> streams(held.size());
  for (hipStream_t& stream : streams) HIP_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  {
    Gate gate(streams[0]);
    for (hipStream_t stream : streams)
      HIP_OK(hipLaunchHostFunc(
          stream, [](void*) {}, nullptr));
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (!held[i]) {
        HIP_OK(hipStreamSynchronize(streams[i]));
      }
    }
    for (std::size_t i = 0; i < held.size(); ++i)
      EXPECT_EQ(held[i] ? hipErrorNotReady : hipSuccess, hipStreamQuery(streams[i])) << i;
  }
  for (hipStream_t stream : streams) HIP_OK(hipStreamDestroy(stream));
}

TEST(DISABLED_Queues, OneForAllStreams) {
  expect_held_by_the_first({true, true, true});
  // A value awaited holds the queue: written from behind it, it never comes. The host's own store frees it.
  hipStream_t a, b;
  HIP_OK(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  void* memory = nullptr;
  HIP_OK(hipExtMallocWithFlags(&memory, 8, hipMallocSignalMemory));
  HIP_OK(hipStreamWaitValue64(a, memory, 1, hipStreamWaitValueEq, ~std::uint64_t{0}));
  HIP_OK(hipStreamWriteValue64(b, memory, 1, 0));
  pause_shortly();
  EXPECT_EQ(hipStreamQuery(b), hipErrorNotReady);
  __atomic_store_n(static_cast<std::uint64_t*>(memory), std::uint64_t{1}, __ATOMIC_RELEASE);
  HIP_OK(hipStreamDestroy(a));
  HIP_OK(hipStreamDestroy(b));
  // Events order streams of one queue without blocking it for ever.
  Order order;
  hipEvent_t event;
  HIP_OK(hipEventCreate(&event));
  HIP_OK(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
  HIP_OK(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  order.add(a, 1);
  HIP_OK(hipEventRecord(event, a));
  HIP_OK(hipStreamWaitEvent(b, event, 0));
  order.add(b, 2);
  HIP_OK(hipStreamDestroy(a));
  HIP_OK(hipStreamDestroy(b));
  EXPECT_EQ(order.numbers(), std::vector<int>({1, 2}));
}

TEST(DISABLED_Queues, TwoForAllStreams) { expect_held_by_the_first({true, false, true, false}); }

TEST(DISABLED_Queues, Serialised) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  bool ran = false;
  HIP_OK(hipLaunchHostFunc(
      stream,
      [](void* user) {
        pause_shortly();
        *static_cast<bool*>(user) = true;
      },
      &ran));
  EXPECT_TRUE(ran) << "the call returns when its work is done";
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Queues, StreamsShareThem) {
  EXPECT_EQ(run_child("DISABLED_Queues.OneForAllStreams", {{"CPUHIP_QUEUES", "1"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Queues.TwoForAllStreams", {{"CPUHIP_QUEUES", "2"}}), 0);
}

TEST(Queues, SerialisedCallsReturnWhenTheirWorkIsDone) {
  EXPECT_EQ(run_child("DISABLED_Queues.Serialised", {{"CPUHIP_SERIALISE", "1"}}), 0);
}

TEST(DISABLED_Exit, WithWorkQueued) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  void* memory = nullptr;
  HIP_OK(hipExtMallocWithFlags(&memory, 8, hipMallocSignalMemory));
  HIP_OK(hipStreamWaitValue64(stream, memory, 1, hipStreamWaitValueEq, ~std::uint64_t{0}));
  HIP_OK(hipStreamWaitValue64(hipStreamPerThread, memory, 1, hipStreamWaitValueEq, ~std::uint64_t{0}));
}

TEST(Lifecycle, ExitDoesNotWaitForQueuedWork) { EXPECT_EQ(run_child("DISABLED_Exit.WithWorkQueued", {}), 0); }

TEST(Lifecycle, AForkedChildGetsErrorsAndDoesNotHang) {
  HIP_OK(hipLaunchHostFunc(
      nullptr, [](void*) {}, nullptr));
  HIP_OK(hipDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    const bool refused = hipMalloc(&pointer, 8) == hipErrorNotInitialized &&
                         hipDeviceSynchronize() == hipErrorNotInitialized && hipDeviceReset() == hipErrorNotInitialized;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
