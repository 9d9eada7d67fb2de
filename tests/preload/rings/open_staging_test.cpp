// Staging that rules leave open (`stage = "auto"`): chosen by cost. The runs' environment makes the runtime's calls
// cost what decides (CPUHIP_COST), so that the choice hardly depends on the machine; where calls are instrumented, only
// the bytes are looked at: those of a native run.
#include <memory>

#include "../graphs/captures.h"

namespace captures {
namespace {

constexpr int kKernels = 40;
/// More than bindings are remembered.
constexpr int kMany = 70;
/// Steps after which a choice has been made.
constexpr int kSettled = 40;

std::string setting(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;  // calls cost what the sanitizer does, whatever else they cost
#else
constexpr bool kInstrumented = false;
#endif
bool chooses() { return under_library() && setting("GRAPHPOOL_GRAPH_STRATEGY").empty(); }
bool patches() { return setting("CPUHIP_VERSION")[0] != '6'; }
bool verifies() { return !setting("GRAPHPOOL_GRAPH_VERIFY").empty(); }
/// Whether a buffer of the graph is always staged, or so few execs are kept that slots come and go with them.
bool beside_others() {
  return setting("GRAPHPOOL_BUFFERS").find("always") != std::string::npos ||
         !setting("GRAPHPOOL_GRAPH_VARIANTS").empty();
}

Since work() {
  return Since({"hipGraphInstantiate", "hipGraphExecKernelNodeSetParams", "hipGraphExecMemcpyNodeSetParams1D",
                "hipMemcpyAsync", "hipGraphLaunch", "hipGraphAddKernelNode", "hipModuleLaunchKernel"});
}

/// What staged launches do in so many steps and others do not: copies are patched, or enqueued.
int copies(const Since& since) { return since["hipGraphExecMemcpyNodeSetParams1D"] + since["hipMemcpyAsync"]; }

/// A graph of many kernels over one buffer, which may be another one each step, and one kernel over two more.
class Steps {
 public:
  explicit Steps(bool update) : update_(update) {
    EXPECT_EQ(hipSuccess, hipMalloc(reinterpret_cast<void**>(&result_), kResultBytes));
    EXPECT_EQ(hipSuccess, hipMemset(result_, 0, kResultBytes));
  }
  ~Steps() {
    EXPECT_EQ(hipSuccess, hipFree(result_));
    if (exec_ != nullptr) {
      EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec_));
    }
  }

  /// `first`: which buffer the many kernels work on, `second`: which one the last kernel reads.
  void one(std::size_t first, std::size_t second, int launches = 1) {
    const hipGraph_t graph = capture(stream_, [&] {
      for (int i = 0; i < kKernels; ++i) OK(kernels().mix(stream_, moving_[first].get(), kCount, i));
      OK(kernels().join(stream_, result_, read_[second].get(), kCount));
      OK(kernels().join(stream_, read_[second].get(), moving_[first].get(), kCount));
    });
    if (exec_ == nullptr || !update_) {
      if (exec_ != nullptr) OK(hipGraphExecDestroy(exec_));
      OK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec_, graph, &node, &result));
    }
    OK(hipGraphDestroy(graph));
    std::unique_ptr<Since> since;  // reading the journal takes longer than a step
    if (++steps_ % 16 == 0) since = std::make_unique<Since>(work());
    for (int i = 0; i < launches; ++i) {
      OK(hipGraphLaunch(exec_, stream_));
      for (int k = 0; k < kKernels; ++k) values_[first] = mixed(values_[first], k);
      result_value_ = joined(result_value_, read_values_[second]);
      read_values_[second] = joined(read_values_[second], values_[first]);
    }
    // Rule 15: a launch only selects.
    if (since != nullptr && !verifies()) {
      EXPECT_EQ(0, (*since)["hipGraphInstantiate"] + (*since)["hipGraphAddKernelNode"]);
    }
    OK(hipStreamSynchronize(stream_));
  }

  void check() const {
    for (std::size_t i = 0; i < kMany; ++i) {
      ASSERT_EQ(values_[i], moving_[i].value()) << "buffer " << i;
      ASSERT_EQ(read_values_[i], read_[i].value()) << "buffer " << i;
    }
    int result[kCount];
    OK(hipMemcpy(result, result_, sizeof result, hipMemcpyDeviceToHost));
    for (const int element : result) ASSERT_EQ(result_value_, element);
  }

 private:
  const bool update_;
  const Stream stream_;
  const std::vector<Buffer> moving_{kMany}, read_{kMany};
  static constexpr std::size_t kResultBytes = 800;  // a size of its own, for the rules
  int* result_ = nullptr;
  std::vector<int> values_ = std::vector<int>(kMany), read_values_ = std::vector<int>(kMany);
  int result_value_ = 0, steps_ = 0;
  hipGraphExec_t exec_ = nullptr;
};

class OpenStaging : public testing::TestWithParam<bool> {};

TEST_P(OpenStaging, many_nodes_that_differ_and_few_bytes_are_staged) {
  Steps steps(GetParam());
  std::size_t i = 0;
  for (; i < kSettled; ++i) steps.one(i, i);
  const Since since = work();
  for (; i < kMany; ++i) steps.one(i, i);
  const int kernels_patched = since["hipGraphExecKernelNodeSetParams"], made = since["hipGraphInstantiate"];
  const int copied = copies(since);
  steps.check();
  if (!under_library() || kInstrumented) return;
  if (chooses()) {
    if (!verifies()) {
      EXPECT_EQ(0, kernels_patched);
      EXPECT_EQ(0, made);
    }
    EXPECT_GE(copied, kMany - kSettled);
  } else {
    EXPECT_EQ(0, copied);
  }
}

TEST_P(OpenStaging, launches_of_a_binding_weigh_against_staging) {
  constexpr int kLaunches = 25;
  Steps steps(GetParam());
  for (std::size_t i = 0; i < kSettled / 4; ++i) steps.one(i, i, kLaunches);
  const Since since = work();
  for (std::size_t i = kSettled / 4; i < kSettled / 2; ++i) steps.one(i, i, kLaunches);
  const int copied = copies(since);
  steps.check();
  // Where an exec is made for every binding, copies are the less even so.
  if (under_library() && !kInstrumented && patches() && !beside_others() && !verifies()) {
    EXPECT_EQ(0, copied);
  }
}

TEST_P(OpenStaging, the_choice_follows_the_program_and_comes_back) {
  Steps steps(GetParam());
  std::size_t i = 0;
  for (; i < kSettled; ++i) steps.one(i, 0);  // all kernels differ
  Since staged = work();
  for (std::size_t k = 0; k < 10; ++k) steps.one(k, 1 + k);
  const int copied = copies(staged), patched = staged["hipGraphExecKernelNodeSetParams"];
  for (std::size_t round = 0; round < 2; ++round)
    for (std::size_t k = 0; k < kSettled; ++k) steps.one(kSettled + 10 + round, k);  // only the last two do
  const Since since = work();
  for (std::size_t k = 0; k < 10; ++k) steps.one(kSettled + 20, k);  // once more all do, which changes nothing
  const int unstaged = copies(since);
  for (std::size_t k = 0; k < kSettled; ++k) steps.one(k, k);  // and all again
  const Since again = work();
  for (std::size_t k = 0; k < 10; ++k) steps.one(k, kMany - 1 - k);
  const int copied_again = copies(again), patched_again = again["hipGraphExecKernelNodeSetParams"];
  steps.check();
  if (!chooses() || kInstrumented || !patches() || verifies() || beside_others()) return;
  EXPECT_GE(copied, 10);
  EXPECT_EQ(0, patched);
  EXPECT_EQ(0, unstaged);
  EXPECT_GE(copied_again, 10);
  EXPECT_EQ(0, patched_again);
}

INSTANTIATE_TEST_SUITE_P(Execs, OpenStaging, testing::Bool(),
                         [](const auto& info) { return info.param ? "updated" : "remade"; });

TEST(OpenStagingBig, one_node_that_differs_and_many_bytes_are_not_staged) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const Stream stream;
  std::vector<int*> big(2);
  for (int*& at : big) {
    OK(hipMalloc(reinterpret_cast<void**>(&at), kBytes));
    OK(hipMemset(at, 0, kCount * sizeof(int)));
  }
  const Buffer result;
  int value = 0, big_values[2] = {0, 0};
  const Since since = work();
  for (int i = 0; i < kMany; ++i) {
    const int which = i % 2;
    step(stream, [&] {
      OK(kernels().mix(stream, big[static_cast<std::size_t>(which)], kCount, i));
      for (int k = 0; k < 3; ++k) OK(kernels().mix(stream, result.get(), kCount, k));
    });
    big_values[which] = mixed(big_values[which], i);
    for (int k = 0; k < 3; ++k) value = mixed(value, k);
  }
  const int copied = since["hipGraphExecMemcpyNodeSetParams1D"], launches = since["hipGraphLaunch"];
  if (!verifies()) {
    EXPECT_EQ(kMany, launches);
  }
  EXPECT_EQ(value, result.value());
  for (int which = 0; which < 2; ++which) {
    int host[kCount];
    OK(hipMemcpy(host, big[static_cast<std::size_t>(which)], sizeof host, hipMemcpyDeviceToHost));
    for (const int element : host) EXPECT_EQ(big_values[which], element);
    OK(hipFree(big[static_cast<std::size_t>(which)]));
  }
  if (under_library()) {
    EXPECT_EQ(0, copied);
  }
}

}  // namespace
}  // namespace captures
