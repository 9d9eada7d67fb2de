// Tests of shim/streams/fence_bin.h.
#include <gtest/gtest.h>

#include "shim/streams/fence_bin.h"
#include "tests/unit/stream_work_fixture.h"

namespace graphpool {
namespace {

class FenceBinTest : public StreamWorkTest {};

TEST_F(FenceBinTest, AFenceGoesBackWithItsLastReference) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  FenceBin bin;
  const auto events_made = [&] { return fake.hip->count["hipEventCreateWithFlags"]; };
  bin.drop(work.fences.make_behind(0, stream));
  bin.drop(work.fences.make_behind(0, stream));
  const int made = events_made();
  Fence* const third = work.fences.make_behind(0, stream);
  EXPECT_EQ(events_made(), made + 1) << "the events of those in the bin are not to be had yet";
  bin.empty(work.fences);
  bin.empty(work.fences);
  Fence* const again[] = {work.fences.make_behind(0, stream), work.fences.make_behind(0, stream)};
  EXPECT_EQ(events_made(), made + 1) << "the two that went back";
  for (Fence* const fence : {third, again[0], again[1]}) bin.drop(fence);
  bin.empty(work.fences);
}

}  // namespace
}  // namespace graphpool
