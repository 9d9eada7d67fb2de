// Events recorded and waited for in a capture, and streams that leave it.
#include "shim/capture/capture_sink.h"
#include "shim/capture/forks.h"
#include "shim/capture/keeping_events.h"
#include "shim/capture/session_list.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/graphs.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/outstanding_uses.h"
#include "tests/unit/captures_fixture.h"
#include "tests/unit/fills.h"

namespace graphpool {
namespace {

/// What is held is the session's lock, which is taken once for each test.
class ForksTest : public CapturesTest {
 protected:
  using Kind = OperationKind;

  ForksTest() : session_(take_idle_session()), origin_(capturing()), fork_(stream()) {
    session_->lock.lock();
    capture_opened();
  }
  ~ForksTest() override {
    session_->close();
    session_->lock.unlock();
  }
  CaptureSession& start() {
    assume_held(session_->lock);
    session_->start({origin_, false}, begin_, nullptr, CaptureMode::kRecord, nullptr);
    return *session_;
  }
  /// A shell beside a recording of these operations.
  CaptureSession& start_shell(std::vector<Operation> operations) {
    assume_held(session_->lock);
    begin_.object = ++last_begin_;
    operations.front().signature = begin_;
    {
      const LockGuard guard(g_recordings_lock);
      Recording& recording = graphpool::graphs().recordings.recorded(std::move(operations), Binding(), {}, 0).recording;
      recording.rebuildable = true;
    }
    TreeNode* const known = capture_sink().walk_begins(begin_).start;
    EXPECT_NE(nullptr, known);
    session_->start({origin_, false}, begin_, known, CaptureMode::kCompare, nullptr);
    return *session_;
  }
  static std::vector<Operation> bare(std::vector<Signature> signatures) {
    std::vector<Operation> operations(1);
    for (const Signature& each : signatures) {
      operations.emplace_back();
      operations.back().signature = each;
    }
    operations.emplace_back();
    operations.back().signature = kEndSignature;
    return operations;
  }
  static Signature bare(Kind kind, std::uint16_t stream, std::uint64_t object) {
    Signature signature;
    signature.kind = kind;
    signature.stream = stream;
    signature.object = object;
    return signature;
  }

  hipStream_t stream() {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    return made;
  }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }
  /// An operation of the capture, with this node.
  std::uint32_t operate(CaptureSession& session, hipStream_t stream, std::uintptr_t number) {
    assume_held(session.lock);
    CapturedStream& where = *session.streams.find(key(stream));
    Operation operation;
    operation.signature.kind = Kind::kEmpty;
    session.recorder.add(operation, node(number));
    tail_of(stream) = {node(number)};
    const auto index = static_cast<std::uint32_t>(session.recorder.operations().size() - 1);
    where.follow(index);
    return index;
  }
  hipError_t record(CaptureSession& session, hipStream_t stream, hipEvent_t event, hipError_t result = hipSuccess) {
    assume_held(session.lock);
    return record_in(session, key(stream), event, false, [result] { return result; });
  }
  /// The runtime lets the stream take part where it did not.
  hipError_t wait(CaptureSession& session, hipStream_t stream, hipEvent_t event, hipError_t result = hipSuccess) {
    assume_held(session.lock);
    return wait_in(session, key(stream), {stream, false}, event, [&](hipEvent_t) {
      if (result == hipSuccess && session.streams.find_event(event) != nullptr && !is_null_stream(stream) &&
          captures.tails.count(fake::key_of(stream)) == 0)
        begin_capture(stream);
      return result;
    });
  }
  static const Signature& last(const CaptureSession& session) {
    assume_held(session.lock);
    return session.recorder.operations().back().signature;
  }
  static std::size_t recorded(const CaptureSession& session) {
    assume_held(session.lock);
    return session.recorder.operations().size();
  }
  static hipEvent_t event(std::uintptr_t number) { return reinterpret_cast<hipEvent_t>(0x40000 + 16 * number); }

  std::shared_ptr<CaptureSession> session_;
  const hipStream_t origin_, fork_;
  Signature begin_;
  static inline std::uint64_t last_begin_ = 1000;
};

TEST_F(ForksTest, a_stream_that_waits_for_an_event_of_the_capture_joins_it_behind_what_that_stands_for) {
  CaptureSession& session = start();
  assume_held(session.lock);
  const std::uint32_t first = operate(session, origin_, 1);
  EXPECT_EQ(hipSuccess, record(session, origin_, event(1)));
  EXPECT_EQ(bare(Kind::kRecord, 0, 0), last(session));
  operate(session, origin_, 2);
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(1)));
  EXPECT_EQ(bare(Kind::kWait, 1, 0), last(session));
  const CapturedStream* const joined = session.streams.find(key(fork_));
  ASSERT_NE(nullptr, joined);
  EXPECT_EQ(OperationTail{first}, joined->tail);
  EXPECT_EQ(key(origin_), joined->joined_from);
  const std::uint32_t forked = operate(session, fork_, 3);
  ASSERT_EQ(hipSuccess, record(session, fork_, event(2)));
  EXPECT_EQ(hipSuccess, wait(session, origin_, event(2)));
  EXPECT_EQ(bare(Kind::kWait, 0, 1), last(session)) << "the second event";
  EXPECT_EQ((OperationTail{3, forked}), session.streams.origin().tail) << "behind both";
  EXPECT_EQ(nullptr, session.fate.rejected());
}

TEST_F(ForksTest, rule_06_a_wait_for_an_event_from_outside_is_noted_and_orders_nothing) {
  CaptureSession& session = start();
  assume_held(session.lock);
  const std::uint32_t first = operate(session, origin_, 1);
  EXPECT_EQ(hipSuccess, wait(session, origin_, event(9)));
  EXPECT_EQ(bare(Kind::kWait, 0, kExternalEvent), last(session));
  EXPECT_EQ(OperationTail{first}, session.streams.origin().tail);
}

TEST_F(ForksTest, the_null_stream_takes_no_part) {
  CaptureSession& session = start();
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  const std::size_t operations = recorded(session);
  EXPECT_EQ(hipSuccess, wait(session, nullptr, event(1)));
  EXPECT_EQ(operations, recorded(session));
  EXPECT_EQ(1u, session.streams.size());
}

TEST_F(ForksTest, what_failed_is_not_noted_and_gives_no_recording) {
  CaptureSession& session = start();
  assume_held(session.lock);
  EXPECT_EQ(hipErrorUnknown, record(session, origin_, event(1), hipErrorUnknown));
  EXPECT_EQ(nullptr, session.streams.find_event(event(1)));
  EXPECT_STREQ("an event record failed", session.fate.rejected());
  EXPECT_EQ(hipErrorUnknown, wait(session, fork_, event(1), hipErrorUnknown));
  EXPECT_EQ(nullptr, session.streams.find(key(fork_)));
  EXPECT_EQ(1u, recorded(session)) << "the beginning";
}

TEST_F(ForksTest, rule_44_an_event_of_the_time_as_a_shell_gives_the_waiting_stream_its_nodes) {
  CaptureSession& session = start();
  assume_held(session.lock);
  operate(session, origin_, 1);
  session.streams.record(event(1), session.streams.origin(), true);  // the runtime knows it without nodes
  operate(session, origin_, 2);
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(1)));
  EXPECT_EQ(Tail{node(1)}, tail_of(fork_));
  operate(session, fork_, 3);
  session.streams.record(event(2), session.streams.origin(), true);
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(2)));
  EXPECT_EQ((Tail{node(3), node(2)}), tail_of(fork_)) << "behind its own work";
  EXPECT_EQ(nullptr, session.fate.rejected());
  session.streams.record(event(3), session.streams.origin(), false);
  tail_of(fork_) = {node(8)};  // the runtime's own answer to the wait
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(3)));
  EXPECT_EQ(Tail{node(8)}, tail_of(fork_)) << "it knows that event";
}

TEST_F(ForksTest, a_dependency_that_the_runtime_does_not_take_gives_no_recording) {
  CaptureSession& session = start();
  assume_held(session.lock);
  operate(session, origin_, 1);
  session.streams.record(event(1), session.streams.origin(), true);
  fake.hip->fail["hipStreamUpdateCaptureDependencies"] = hipErrorUnknown;
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(1)));
  EXPECT_STREQ("the runtime did not take a dependency", session.fate.rejected());
}

TEST_F(ForksTest, a_shell_withholds_what_its_recording_has_and_becomes_real_at_what_it_has_not) {
  CaptureSession& session = start_shell(bare({bare(Kind::kRecord, 0, 0), bare(Kind::kWait, 1, 0)}));
  assume_held(session.lock);
  EXPECT_EQ(hipSuccess, record(session, origin_, event(1)));
  EXPECT_TRUE(session.shell());
  EXPECT_TRUE(session.streams.find_event(event(1))->recorded_in_shell);
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(1)));
  EXPECT_TRUE(session.shell());
  EXPECT_EQ(0u, recorded(session)) << "its operations are in the tree";
  EXPECT_EQ(hipSuccess, record(session, fork_, event(2)));
  EXPECT_FALSE(session.shell());
  ASSERT_EQ(4u, recorded(session));
  EXPECT_EQ(bare(Kind::kRecord, 1, 1), last(session));
  EXPECT_STREQ("an event record differs from every recording", session.materialised.reason);
  session.leave_tree("a test");
}

TEST_F(ForksTest, rule_04_an_event_recorded_on_a_stream_that_has_left_orders_what_that_stream_does) {
  CaptureSession& session = start();
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  ASSERT_EQ(hipSuccess, wait(session, fork_, event(1)));
  session.streams.find(key(fork_))->left = true;
  g_uses_tracked = true;
  const hipStream_t writer = stream(), waiter = stream();
  for (const hipStream_t on : {writer, waiter, fork_}) work_counts().created(on, 0);
  const char buffer = 0;
  fake::work(writer);
  work_counts().note_work(writer);
  static_cast<void>(outstanding_uses().several({waiter, false}));
  ASSERT_TRUE(outstanding_uses().several({writer, false}));
  outstanding_uses().used({writer, false}, {&buffer}, nullptr);
  outstanding_uses().recorded(event(2), {writer, false});
  EXPECT_EQ(hipSuccess, record(session, fork_, event(2)));
  outstanding_uses().waited({waiter, false}, event(2));
  EXPECT_TRUE(outstanding_uses().elsewhere({&buffer}, {waiter, false}, nullptr))
      << "the event stands for the stream's work by now, not for the writer's";
  g_uses_tracked = false;
  for (int device = 0; device < fake::kDevices; ++device) stream_work().device_reset(device);
}

TEST_F(ForksTest, where_an_event_keeps_nodes_it_is_given_one_on_its_own_device) {
  test_set_runtime_version(60443483);
  static std::vector<int> recorded;  // devices
  recorded.clear();
  test_next().hipStreamBeginCapture = [](hipStream_t stream, hipStreamCaptureMode) {
    g_captures->tails[fake::key_of(stream)] = {};
    return hipSuccess;
  };
  test_next().hipStreamEndCapture = [](hipStream_t stream, hipGraph_t* graph) {
    g_captures->tails.erase(fake::key_of(stream));
    return next().hipGraphCreate(graph, 0);
  };
  test_next().hipGraphAddEmptyNode = [](hipGraphNode_t* made, hipGraph_t, const hipGraphNode_t*, std::size_t) {
    *made = node(99);
    return hipSuccess;
  };
  test_next().hipEventRecord = [](hipEvent_t, hipStream_t stream) {
    recorded.push_back(fake::stream_at(*fake::g_hip, fake::key_of(stream)).device);
    return hipSuccess;
  };
  keeping_events().recorded(event(1), true);
  begin_.device = packed_devices(0, 1);
  CaptureSession& session = start();
  assume_held(session.lock);
  EXPECT_EQ(hipSuccess, record(session, origin_, event(1)));
  EXPECT_EQ(std::vector{1}, recorded) << "on a stream of the library's own";
  EXPECT_EQ(0, fake::t_device);
}

TEST_F(ForksTest, a_stream_that_began_another_capture_is_none_of_this_one) {
  CaptureSession& session = start();
  assume_held(session.lock);
  operate(session, origin_, 1);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  ASSERT_EQ(hipSuccess, wait(session, fork_, event(1)));
  ASSERT_EQ(hipSuccess, record(session, fork_, event(2)));
  const std::uint64_t serial = session.serial;
  stream_left(session, key(fork_));
  EXPECT_EQ(nullptr, session.streams.find(key(fork_)));
  EXPECT_EQ(nullptr, session.streams.find_event(event(2))) << "recorded there";
  EXPECT_NE(nullptr, session.streams.find_event(event(1)));
  EXPECT_FALSE(session.fate.invalid());
  EXPECT_NE(nullptr, session.fate.rejected());
  EXPECT_NE(serial, session.serial) << "who fed it through that stream looks anew";
  stream_left(session, key(origin_));
  EXPECT_TRUE(session.fate.invalid());
}

TEST_F(ForksTest, what_a_shell_withheld_does_not_reach_the_capture_that_its_origin_has_begun) {
  CaptureSession& session = start_shell(bare({bare(Kind::kRecord, 0, 0)}));
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  const int calls = fake.hip->calls, questions = captures.questions;
  stream_left(session, key(origin_));
  EXPECT_FALSE(session.shell());
  EXPECT_TRUE(session.fate.invalid());
  EXPECT_EQ(calls, fake.hip->calls);
  EXPECT_EQ(questions, captures.questions);
  EXPECT_EQ(0u, recorded(session)) << "nothing is issued";
  session.leave_tree("a test");
}

TEST_F(ForksTest, the_end_of_a_stream_is_an_operation_and_another_takes_its_place) {
  CaptureSession& session = start();
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  ASSERT_EQ(hipSuccess, wait(session, fork_, event(1)));
  ASSERT_EQ(hipSuccess, record(session, fork_, event(2)));
  stream_destroyed(session, key(fork_));
  EXPECT_EQ(bare(Kind::kLeave, 1, 0), last(session));
  EXPECT_EQ(nullptr, session.streams.find_event(event(2)));
  EXPECT_EQ(nullptr, session.fate.rejected());
  const hipStream_t later = stream();
  ASSERT_EQ(hipSuccess, wait(session, later, event(1)));
  EXPECT_EQ(bare(Kind::kWait, 1, 0), last(session)) << "it has the number of the one that is gone";
}

TEST_F(ForksTest, the_end_of_a_stream_by_which_others_joined_is_left_to_the_runtime) {
  CaptureSession& session = start();
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  ASSERT_EQ(hipSuccess, wait(session, fork_, event(1)));
  ASSERT_EQ(hipSuccess, record(session, fork_, event(2)));
  const hipStream_t third = stream();
  ASSERT_EQ(hipSuccess, wait(session, third, event(2)));
  const std::size_t operations = recorded(session);
  stream_destroyed(session, key(fork_));
  EXPECT_STREQ("a stream of the capture was destroyed", session.fate.rejected());
  EXPECT_TRUE(session.fate.exposed());
  EXPECT_EQ(operations, recorded(session));
}

TEST_F(ForksTest, a_capture_is_lost_if_memory_runs_out_while_what_was_withheld_is_issued) {
  CaptureSession& session = start_shell(fills(2));
  assume_held(session.lock);
  session.recorder.binding() = fill_binding({5, 6});
  for (const Operation& fill : {fills(2)[1], fills(2)[2]})
    session.streams.origin().follow(session.matcher.step(fill.signature, session.recorder.binding())->index);
  session.streams.record(event(1), session.streams.origin(), true);
  test_next().hipMemsetD32Async = [](hipDeviceptr_t, int, std::size_t, hipStream_t) -> hipError_t {
    throw std::bad_alloc();
  };
  EXPECT_THROW(session.expose("a test"), std::bad_alloc);
  EXPECT_FALSE(session.shell());
  EXPECT_TRUE(session.fate.lost()) << "the program had the answer that both fills were captured";
  EXPECT_EQ(hipSuccess, wait(session, fork_, event(1))) << "no node is looked for that was not made";
}

TEST_F(ForksTest, the_end_of_a_thread_ends_what_its_own_stream_began_without_a_call) {
  CaptureSession& session = start_shell(bare({bare(Kind::kRecord, 0, 0), bare(Kind::kWait, 1, 0)}));
  assume_held(session.lock);
  ASSERT_EQ(hipSuccess, record(session, origin_, event(1)));
  ASSERT_EQ(hipSuccess, wait(session, fork_, event(1)));
  const int calls = fake.hip->calls;
  thread_ended(session, key(fork_));
  EXPECT_EQ(nullptr, session.streams.find(key(fork_)));
  EXPECT_FALSE(session.fate.invalid());
  EXPECT_STREQ("a thread ended whose own stream took part in the capture", session.fate.rejected());
  EXPECT_TRUE(session.shell()) << "the next thread that feeds it makes it real";
  thread_ended(session, key(origin_));
  EXPECT_TRUE(session.fate.invalid());
  EXPECT_FALSE(session.shell());
  EXPECT_EQ(calls, fake.hip->calls);
  session.leave_tree("a test");
}

}  // namespace
}  // namespace graphpool
