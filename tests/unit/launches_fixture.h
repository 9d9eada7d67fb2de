// launches_fixture.h: launches on streams, against events and streams that the test completes by hand.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shim/hip/next.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

struct FakeEvent {
  hipStream_t stream = nullptr;
  bool complete = false;
};

struct FakeEvents {
  std::vector<FakeEvent> events;
  std::vector<std::pair<hipStream_t, std::size_t>> waits;  // stream, event
  int live = 0, queries = 0, device = 0;
  std::vector<int> devices_of_records;
  hipError_t create_result = hipSuccess, stream_result = hipErrorOutOfMemory, last_error = hipSuccess;
  std::size_t streams = 0;  ///< of the library's own

  hipStream_t own_stream(std::size_t number) const { return reinterpret_cast<hipStream_t>(0x100000 + 16 * number); }
};
inline FakeEvents* g_fake = nullptr;

inline std::size_t number_of(hipEvent_t event) { return reinterpret_cast<std::size_t>(event) - 1; }

class LaunchesTest : public ::testing::Test {
 protected:
  LaunchesTest() : saved_(test_next()) {
    g_fake = &fake_;
    Next& next = test_next();
    next.hipEventCreateWithFlags = [](hipEvent_t* event, unsigned flags) {
      EXPECT_EQ(flags, unsigned{hipEventDisableTiming});
      if (g_fake->create_result != hipSuccess) return g_fake->last_error = g_fake->create_result;
      g_fake->events.emplace_back();
      ++g_fake->live;
      *event = reinterpret_cast<hipEvent_t>(g_fake->events.size());
      return hipSuccess;
    };
    next.hipEventRecord = [](hipEvent_t event, hipStream_t stream) {
      g_fake->events[number_of(event)].stream = stream;
      g_fake->devices_of_records.push_back(g_fake->device);
      return hipSuccess;
    };
    next.hipEventQuery = [](hipEvent_t event) {
      ++g_fake->queries;
      if (g_fake->events[number_of(event)].complete) return hipSuccess;
      return g_fake->last_error = hipErrorNotReady;
    };
    next.hipEventDestroy = [](hipEvent_t) {
      --g_fake->live;
      return hipSuccess;
    };
    next.hipStreamWaitEvent = [](hipStream_t stream, hipEvent_t event, unsigned) {
      g_fake->waits.emplace_back(stream, number_of(event));
      return hipSuccess;
    };
    next.hipStreamGetDevice = [](hipStream_t, hipDevice_t* device_of_stream) {
      *device_of_stream = device();
      return hipSuccess;
    };
    next.hipStreamIsCapturing = [](hipStream_t, hipStreamCaptureStatus* status) {
      *status = hipStreamCaptureStatusNone;
      return hipSuccess;
    };
    next.hipGetDevice = [](int* device) {
      *device = g_fake->device;
      return hipSuccess;
    };
    next.hipSetDevice = [](int device) {
      g_fake->device = device;
      return hipSuccess;
    };
    next.hipStreamCreateWithPriority = [](hipStream_t* made, unsigned, int) {
      if (g_fake->stream_result != hipSuccess) return g_fake->last_error = g_fake->stream_result;
      *made = g_fake->own_stream(g_fake->streams++);
      return hipSuccess;
    };
    next.hipPeekAtLastError = [] { return g_fake->last_error; };
    next.hipGetLastError = [] { return std::exchange(g_fake->last_error, hipSuccess); };
  }
  ~LaunchesTest() override {
    passed_events_device_reset(device());  // streams of ours would be kept
    test_next() = saved_;
    g_fake = nullptr;
  }

  /// Streams of their own in each test: what was waited for is the process's.
  hipStream_t stream() { return reinterpret_cast<hipStream_t>(next_stream_ += 16); }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }
  static int device() { return 100 + ::testing::UnitTest::GetInstance()->current_test_info()->line(); }

  void launch(LaunchMarks& marks, hipStream_t stream) { marks.add(key(stream), stream, next_launch()); }

  FakeEvents fake_;

 private:
  static inline std::uintptr_t next_stream_ = 0x1000;
  Next saved_;
};

}  // namespace graphpool
