// Calls that find a capture which another thread ends, or which the stream leaves, before they have the capture's lock.
#include "shim/capture/capture.h"

#include "shim/capture/session_list.h"
#include "tests/unit/captures_fixture.h"

namespace graphpool {
namespace {

class CaptureTest : public CapturesTest {
 protected:
  CaptureTest() : session_(take_idle_session()), origin_(capturing()), other_(stream()) {
    work_counts().created(origin_, 0);
    work_counts().created(other_, 0);
    {
      const LockGuard guard(session_->lock);
      session_->start({origin_, false}, Signature(), nullptr, CaptureMode::kRecord, nullptr);
    }
    capture_opened(session_->mode);
    open_sessions().add(key(origin_), session_);
  }
  ~CaptureTest() override {
    open_sessions().close(session_);
    for (int device = 0; device < fake::kDevices; ++device) stream_work().device_reset(device);
  }

  /// The list still has a stream that the capture has not: it was asked before the stream left.
  void list_other() { open_sessions().add(key(other_), session_); }
  hipStream_t stream() {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    return made;
  }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }
  static hipEvent_t event(std::uintptr_t number) { return reinterpret_cast<hipEvent_t>(0x40000 + 16 * number); }
  hipError_t operate(hipStream_t stream) {
    return operation_while_capturing(
        {stream, false}, [](OperationWriter&) { return Status::kOk; },
        [this] {
          ++forwarded_;
          return hipSuccess;
        });
  }
  bool rejected() {
    const LockGuard guard(session_->lock);
    return session_->fate.rejected() != nullptr;
  }

  std::shared_ptr<CaptureSession> session_;
  const hipStream_t origin_, other_;
  int forwarded_ = 0;
};

TEST_F(CaptureTest, an_operation_on_a_stream_that_has_left_is_work_of_the_stream) {
  list_other();
  EXPECT_EQ(hipSuccess, operate(other_));
  EXPECT_EQ(1, forwarded_);
  EXPECT_TRUE(work_counts().is_busy(other_));
  EXPECT_FALSE(rejected());
}

TEST_F(CaptureTest, an_operation_behind_the_end_of_the_capture_is_work_of_the_stream) {
  {
    const LockGuard guard(session_->lock);
    session_->close();
  }
  EXPECT_EQ(hipSuccess, operate(origin_));
  EXPECT_EQ(1, forwarded_);
  EXPECT_TRUE(work_counts().is_busy(origin_));
}

TEST_F(CaptureTest, an_event_is_recorded_outside_on_a_stream_that_has_left) {
  list_other();
  const auto record = [this](hipStream_t on) {
    return record_event(event(1), {on, false}, [this] {
      ++forwarded_;
      return hipSuccess;
    });
  };
  EXPECT_EQ(hipSuccess, record(origin_));
  EXPECT_EQ(hipSuccess, record(other_));
  EXPECT_EQ(2, forwarded_);
  EXPECT_EQ(nullptr, open_sessions().find_event(event(1))) << "it stands for nothing of the capture any more";
  EXPECT_FALSE(rejected());
}

TEST_F(CaptureTest, a_wait_on_a_stream_that_has_left_for_an_event_from_outside_is_work_of_the_stream) {
  list_other();
  EXPECT_EQ(hipSuccess, wait_event({other_, false}, event(9), [this](hipEvent_t) {
              ++forwarded_;
              return hipSuccess;
            }));
  EXPECT_EQ(1, forwarded_);
  EXPECT_TRUE(work_counts().is_busy(other_));
  EXPECT_FALSE(rejected());
}

}  // namespace
}  // namespace graphpool
