// rings_fixture.h: graphs of one fill that are staged over memory of the process, and their launches, on the fake
// runtime of fake_graphs.h. The runtime writes no values: events tell of launches. It is known to update copies.
#pragma once

#include <memory>
#include <vector>

#include "shim/staging/slot_ring.h"
#include "tests/unit/staged_memory_fixture.h"

namespace graphpool {

class RingsTest : public StagedMemoryTest {
 protected:
  struct Copy {
    void* dst;
    const void* src;
    hipStream_t stream;
    bool operator==(const Copy&) const = default;
  };
  static inline std::vector<Copy>* g_copies = nullptr;  ///< enqueued around a launch, not by its exec

  RingsTest() {
    g_copies = &copies;
    test_set_runtime_version(kPatchesFills);
    fake.hip->fail["hipExtMallocWithFlags"] = hipErrorNotSupported;
    test_next().hipMemcpyAsync = [](void* dst, const void* src, std::size_t, hipMemcpyKind, hipStream_t stream) {
      return fake::call("hipMemcpyAsync", [&](fake::Hip&) {
        g_copies->push_back({dst, src, stream});
        return hipSuccess;
      });
    };
  }

  /// By the rule; the memory that it is made over.
  void plan_by(std::uint32_t rule) {
    first_ = memory_by(rule);
    const Binding binding = binding_over({first_});
    plan_ = StagePlan::make(operations_, binding, false);
    ASSERT_NE(nullptr, plan_);
    ASSERT_EQ(1u, plan_->buffers());
  }
  RingGraph graph() const { return {operations_, *plan_, plan_->canonical(binding_over({first_}))}; }

  hipStream_t stream() {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, hipStreamNonBlocking));
    return made;
  }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }

  /// The exec runs on the stream until the test lets that finish; it records its events.
  hipError_t run(hipGraphExec_t exec, hipStream_t stream) {
    if (launch_result_ != hipSuccess) return launch_result_;
    fake::work(stream);
    const std::scoped_lock guard(fake.hip->lock);
    for (const auto& [handle, node] : graphs.state.execs.at(exec)) {
      if (node.event == nullptr) continue;
      EXPECT_EQ(hipSuccess, fake::record(*fake.hip, node.event, stream));
    }
    launched_.push_back(exec);
    return hipSuccess;
  }
  /// Where the exec copies the program's memory in from, and out to: its first node's source and its last copy's end.
  std::pair<const void*, void*> copies_of(hipGraphExec_t exec) {
    std::pair<const void*, void*> ends{nullptr, nullptr};
    for (const auto& [handle, node] : graphs.state.execs.at(exec)) {
      if (node.src == nullptr) continue;
      if (ends.first == nullptr) ends.first = node.src;
      ends.second = node.dst;
    }
    return ends;
  }
  int count(const char* name) { return fake.hip->count[name]; }

  std::vector<Copy> copies;
  std::vector<Operation> operations_ = fills(1);
  std::unique_ptr<const StagePlan> plan_;
  char* first_ = nullptr;
  std::vector<hipGraphExec_t> launched_;
  hipError_t launch_result_ = hipSuccess;
};

using ProgramEnds = std::pair<const void*, void*>;

}  // namespace graphpool
