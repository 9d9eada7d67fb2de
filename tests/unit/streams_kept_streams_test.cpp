// Tests of shim/streams/kept_streams.h.
#include "shim/streams/kept_streams.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/stream_work_fixture.h"

namespace graphpool {
namespace {

class KeptStreamsTest : public StreamWorkTest {
 protected:
  KeptStreamsTest() {
    ended = 0;
    test_next().hipStreamDestroy = [](hipStream_t) {
      ++ended;
      return hipSuccess;
    };
  }

  static inline int ended = 0;
  KeptStreams& kept = never_destroyed<KeptStreams>();
};

TEST_F(KeptStreamsTest, ComeBackByTheirKind) {
  const StreamKind plain{0, hipStreamNonBlocking}, urgent{0, hipStreamNonBlocking, -1, StreamKind::Form::kWithPriority},
      other{1, hipStreamNonBlocking};
  const hipStream_t first = make_stream(), second = make_stream();
  EXPECT_FALSE(kept.any());
  EXPECT_TRUE(kept.keep(first, plain));
  EXPECT_TRUE(kept.keep(second, urgent));
  EXPECT_TRUE(kept.any());
  EXPECT_TRUE(g_private_handles.has(first));
  EXPECT_EQ(nullptr, kept.take(other));
  EXPECT_EQ(first, kept.take(plain));
  EXPECT_FALSE(g_private_handles.has(first));
  EXPECT_EQ(nullptr, kept.take(plain));
  EXPECT_EQ(second, kept.take(urgent));
  EXPECT_FALSE(kept.any());
}

TEST_F(KeptStreamsTest, AreFew) {
  const StreamKind kind{0, hipStreamNonBlocking};
  for (std::size_t i = 0; i < KeptStreams::kMostOfKind; ++i) EXPECT_TRUE(kept.keep(make_stream(), kind));
  EXPECT_FALSE(kept.keep(make_stream(), kind));
  std::size_t all = KeptStreams::kMostOfKind;
  for (int priority = 0; kept.keep(make_stream(), {0, hipStreamNonBlocking, priority, StreamKind::Form::kWithPriority});
       ++priority)
    ++all;
  EXPECT_EQ(KeptStreams::kMost, all);
}

TEST_F(KeptStreamsTest, GoOnceTheyAreNamed) {
  const hipStream_t stream = make_stream(), other = make_stream();
  EXPECT_TRUE(kept.keep(stream, {0, hipStreamNonBlocking}));
  EXPECT_FALSE(kept.end(other));
  EXPECT_EQ(0, ended);
  EXPECT_TRUE(kept.end(stream));
  EXPECT_EQ(1, ended);
  EXPECT_FALSE(g_private_handles.has(stream));
  EXPECT_FALSE(kept.end(stream));
}

TEST_F(KeptStreamsTest, GoBackByDevice) {
  EXPECT_FALSE(kept.give_back(-1));
  for (const int device : {0, 1, 0}) EXPECT_TRUE(kept.keep(make_stream(), {device, hipStreamNonBlocking}));
  EXPECT_TRUE(kept.give_back(0));
  EXPECT_EQ(2, ended);
  EXPECT_FALSE(kept.give_back(0));
  EXPECT_TRUE(kept.give_back(-1));
  EXPECT_EQ(3, ended);
}

}  // namespace
}  // namespace graphpool
