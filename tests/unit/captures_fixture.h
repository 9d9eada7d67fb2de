// captures_fixture.h: streams that capture, on the fake runtime of fake_hip.h: the nodes that each one's next operation
// comes behind are a row of handles, which the test sets and reads.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/unit/fake_graphs.h"

namespace graphpool {

using Tail = std::vector<hipGraphNode_t>;

struct FakeCaptures {
  std::map<std::uintptr_t, Tail> tails;  ///< by stream: those that capture
  hipGraph_t graph = nullptr;            ///< that is captured into
  int questions = 0, additions = 0, replacements = 0;
  hipError_t question_result = hipSuccess;
};

class CapturesTest : public testing::Test {
 protected:
  static inline FakeCaptures* g_captures = nullptr;

  CapturesTest() {
    g_captures = &captures;
    captures.graph = reinterpret_cast<hipGraph_t>(std::uintptr_t{0xca000});
    test_next().hipStreamGetCaptureInfo_v2 = [](hipStream_t stream, hipStreamCaptureStatus* status,
                                                unsigned long long* id, hipGraph_t* graph, const hipGraphNode_t** nodes,
                                                std::size_t* count) {
      ++g_captures->questions;
      if (g_captures->question_result != hipSuccess) return fake::result(g_captures->question_result);
      const auto found = g_captures->tails.find(fake::key_of(stream));
      const bool captures = found != g_captures->tails.end();
      *status = captures ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
      if (id != nullptr) *id = captures ? 1 : 0;
      if (graph != nullptr) *graph = captures ? g_captures->graph : nullptr;
      if (nodes != nullptr) *nodes = captures ? found->second.data() : nullptr;
      if (count != nullptr) *count = captures ? found->second.size() : 0;
      return fake::result(hipSuccess);
    };
    test_next().hipStreamUpdateCaptureDependencies = [](hipStream_t stream, hipGraphNode_t* nodes, std::size_t count,
                                                        unsigned flags) {
      return fake::call("hipStreamUpdateCaptureDependencies", [&](fake::Hip&) {
        Tail& tail = g_captures->tails.at(fake::key_of(stream));
        const bool replaces = flags == hipStreamSetCaptureDependencies;
        ++(replaces ? g_captures->replacements : g_captures->additions);
        if (replaces) tail.clear();
        tail.insert(tail.end(), nodes, nodes + count);
        return hipSuccess;
      });
    };
  }

  /// A stream that captures, and comes behind these nodes.
  hipStream_t capturing(Tail tail = {}) {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    begin_capture(made, std::move(tail));
    return made;
  }
  void begin_capture(hipStream_t stream, Tail tail = {}) {
    captures.tails[fake::key_of(stream)] = std::move(tail);
    fake.hip->capturing_streams.insert(fake::key_of(stream));
  }
  void end_capture(hipStream_t stream) {
    captures.tails.erase(fake::key_of(stream));
    fake.hip->capturing_streams.erase(fake::key_of(stream));
  }
  Tail& tail_of(hipStream_t stream) { return captures.tails.at(fake::key_of(stream)); }
  static hipGraphNode_t node(std::uintptr_t number) { return reinterpret_cast<hipGraphNode_t>(0x20000 + 16 * number); }

  fake::Install fake;
  fake::InstallGraphs graphs_;
  FakeCaptures captures;
};

}  // namespace graphpool
