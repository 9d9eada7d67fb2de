// stream_work_fixture.h: streams with work, counts and fences of a test's own, on the fake runtime of fake_hip.h.
#pragma once

#include <gtest/gtest.h>

#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {

class StreamWorkTest : public testing::Test {
 protected:
  hipStream_t make_stream(unsigned flags = hipStreamNonBlocking) {
    hipStream_t stream = nullptr;
    EXPECT_EQ(next().hipStreamCreateWithFlags(&stream, flags), hipSuccess);
    work.counts.created(stream, fake::t_device);
    return stream;
  }
  void enqueue(hipStream_t stream) {
    fake::work(stream);
    work.counts.note_work(stream);
  }
  bool wait(int device) {
    PrivateCalls private_calls;
    Fence* fence = work.fences.make(device);
    if (fence == nullptr) return false;
    const bool waited = work.fences.wait(fence);
    work.fences.release(fence);
    return waited;
  }

  fake::Install fake;
  StreamWork& work = never_destroyed<StreamWork>();
};

}  // namespace graphpool
