// What is larger than small numbers hold: captures with more events than 16 bits count, kinds of copies and sizes of
// which the upper bits say something else.
#include <algorithm>
#include <utility>

#include "captures.h"

namespace captures {
namespace {

/// Every edge of the graph, by the places of its nodes among all.
std::vector<std::pair<std::size_t, std::size_t>> edges(hipGraph_t graph) {
  std::size_t count = 0, edge_count = 0;
  EXPECT_EQ(hipSuccess, hipGraphGetNodes(graph, nullptr, &count));
  std::vector<hipGraphNode_t> nodes(count);
  EXPECT_EQ(hipSuccess, hipGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(hipSuccess, hipGraphGetEdges(graph, nullptr, nullptr, &edge_count));
  std::vector<hipGraphNode_t> from(edge_count), to(edge_count);
  EXPECT_EQ(hipSuccess, hipGraphGetEdges(graph, from.data(), to.data(), &edge_count));
  const auto place = [&](hipGraphNode_t node) {
    return static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
  };
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::size_t i = 0; i < edge_count; ++i) places.emplace_back(place(from[i]), place(to[i]));
  std::sort(places.begin(), places.end());
  return places;
}

constexpr std::size_t kMany = 0x10001;

TEST(Limits, events_of_one_capture_are_told_apart_however_many_they_are) {
  const Stream one, two;
  const Buffer left, right;
  const Event join;
  std::vector<hipEvent_t> events(kMany);
  for (hipEvent_t& event : events) OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  // The first event comes behind the first node, the others behind the second.
  const auto waiting_for = [&](hipEvent_t event) {
    return capture(one, [&] {
      OK(kernels().mix(one, left.get(), kCount, 1));
      OK(hipEventRecord(events[0], one));
      OK(hipStreamWaitEvent(two, events[0], 0));
      OK(kernels().mix(one, left.get(), kCount, 2));
      for (std::size_t i = 1; i < kMany; ++i) OK(hipEventRecord(events[i], one));
      OK(hipStreamWaitEvent(two, event, 0));
      OK(kernels().mix(two, right.get(), kCount, 3));
      OK(hipEventRecord(join, two));
      OK(hipStreamWaitEvent(one, join, 0));
      OK(kernels().join(one, left.get(), right.get(), kCount));
    });
  };
  run(one, waiting_for(events.back()));
  for (const bool behind_first : {true, false}) {
    const hipGraph_t graph = waiting_for(behind_first ? events.front() : events.back());
    EXPECT_EQ(behind_first ? 4u : 5u, edges(graph).size());
    OK(hipGraphDestroy(graph));
  }
  for (const hipEvent_t event : events) OK(hipEventDestroy(event));
}

TEST(Limits, copies_of_kinds_that_are_none_are_refused_as_natively) {
  const Stream stream;
  const Buffer from, to;
  for (const unsigned kind : {0u, 1u, 2u, 3u, 4u}) {
    const auto captured = [&](unsigned bits) {
      hipGraph_t graph = nullptr;
      EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
      const hipError_t result =
          hipMemcpyAsync(to.get(), from.get(), 64, static_cast<hipMemcpyKind>(kind | bits), stream);
      const hipError_t pitched =
          hipMemcpy2DAsync(to.get(), 16, from.get(), 16, 8, 2, static_cast<hipMemcpyKind>(kind | bits), stream);
      EXPECT_EQ(hipSuccess, hipStreamEndCapture(stream, &graph));
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
      EXPECT_EQ(result, pitched);
      return result;
    };
    const hipError_t taken = captured(0);
    EXPECT_EQ(taken, captured(0)) << kind;
    for (const unsigned bits : {0x100u, 0x400u, 0x10000u}) {
      EXPECT_EQ(hipErrorInvalidMemcpyDirection, captured(bits)) << kind << " with " << bits;
      static_cast<void>(hipGetLastError());
    }
  }
}

/// Whether a number of rows or elements is too many is for the runtime to say, whatever it is modulo 2^64.
TEST(Limits, sizes_whose_products_wrap_are_no_sizes_seen_before) {
  const Stream stream;
  const Buffer from, to;
  const auto reached = [&](std::size_t rows, std::size_t elements) {
    const Since since({"hipMemcpy2DAsync", "hipMemset2DAsync", "hipMemsetD32Async"});
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    static_cast<void>(hipMemcpy2DAsync(to.get(), 16, from.get(), 16, 8, rows, hipMemcpyDeviceToDevice, stream));
    static_cast<void>(hipMemset2DAsync(to.get(), 16, 0, 8, rows, stream));
    static_cast<void>(hipMemsetD32Async(to.get(), 0, elements, stream));
    static_cast<void>(hipStreamEndCapture(stream, &graph));
    if (graph != nullptr) {
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    }
    return since["hipMemcpy2DAsync"] + since["hipMemset2DAsync"] + since["hipMemsetD32Async"];
  };
  EXPECT_EQ(3, reached(2, 4));
  EXPECT_EQ(compares_captures() ? 0 : 3, reached(2, 4));
  EXPECT_EQ(3, reached((std::size_t{1} << 60) + 2, 4));
  EXPECT_EQ(3, reached(2, (std::size_t{1} << 62) + 4)) << "the copy and the fill before it are issued";
}

}  // namespace
}  // namespace captures
