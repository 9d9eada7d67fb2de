// Staging that rules leave open (`stage = "auto"`): chosen by cost. The runs' environment makes the runtime's calls
// cost what decides (CPUHIP_COST), so that the choice hardly depends on the machine, and no test on how dear they are:
// steps go on until the choice has been made, and one round of several must show it, for calls cost more where they are
// interrupted. Where calls are instrumented, only the bytes are looked at: those of a native run.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "../graphs/node_calls.h"

namespace captures {
namespace {

constexpr int kKernels = 40;
/// More than bindings are remembered.
constexpr int kMany = 70;
/// In so many steps a choice has been made.
constexpr int kMost = 60;
/// An exec whose making was interrupted counts for as much longer, and a choice takes as many more steps.
constexpr int kMostInterrupted = 100 * kMost;
/// So many steps are looked at as one: reading the journal takes longer than a step.
constexpr int kGroup = 5;

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

/// What a call is made to cost.
double cost_ns(const std::string& name) {
  const std::string costs = setting("CPUHIP_COST");
  const std::size_t at = costs.find(name + ":");
  return at == std::string::npos ? 0 : std::stod(costs.substr(at + name.size() + 1));
}

Since work() {
  return Since({"hipGraphInstantiate", "hipGraphExecKernelNodeSetParams", "hipGraphExecMemcpyNodeSetParams1D",
                "hipMemcpyAsync", "hipGraphLaunch", "hipGraphAddKernelNode", "hipModuleLaunchKernel"});
}

/// What staged launches do in so many steps and others do not: copies are patched, or enqueued.
int copies(const Since& since) { return since["hipGraphExecMemcpyNodeSetParams1D"] + since["hipMemcpyAsync"]; }

/// Takes steps until `settled` is true of what a group of them did; fails where that is never so. Where the library
/// does not choose, kMost - kGroup steps. Returns how many.
int settle(const std::function<void(int)>& step, const std::function<bool(const Since&)>& settled) {
  const bool looks = chooses() && !kInstrumented && !verifies();
  for (int done = 0; done < kMostInterrupted; done += kGroup) {
    const Since since = work();
    for (int i = 0; i < kGroup; ++i) step(done + i);
    if (looks ? settled(since) : done + 2 * kGroup >= kMost) return done + kGroup;
  }
  ADD_FAILURE() << "no choice within " << kMostInterrupted << " steps";
  return kMostInterrupted;
}
bool only_stages(const Since& since) {
  return copies(since) >= kGroup && since["hipGraphExecKernelNodeSetParams"] == 0 && since["hipGraphInstantiate"] == 0;
}
bool stages_nothing(const Since& since) { return copies(since) == 0; }

/// A graph of many kernels over one buffer, which may be another one each step, and one kernel over two more. No two
/// objects have the same graph, so that none begins with what was chosen for another.
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
      for (int i = 0; i < kernels_; ++i) OK(kernels().mix(stream_, moving_[first].get(), kCount, i));
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
      for (int k = 0; k < kernels_; ++k) values_[first] = mixed(values_[first], k);
      result_value_ = joined(result_value_, read_values_[second]);
      read_values_[second] = joined(read_values_[second], values_[first]);
    }
    // Rule 15: a launch only selects.
    if (since != nullptr && !verifies()) {
      EXPECT_EQ(0, (*since)["hipGraphInstantiate"] + (*since)["hipGraphAddKernelNode"]);
    }
    OK(hipStreamSynchronize(stream_));
  }

  int nodes() const { return kernels_ + 2; }

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
  static inline int made_ = 0;

  const bool update_;
  const int kernels_ = kKernels + made_++;
  const Stream stream_;
  const std::vector<Buffer> moving_{kMany}, read_{kMany};
  static constexpr std::size_t kResultBytes = 800;  // a size of its own, for the rules
  int* result_ = nullptr;
  std::vector<int> values_ = std::vector<int>(kMany), read_values_ = std::vector<int>(kMany);
  int result_value_ = 0, steps_ = 0;
  hipGraphExec_t exec_ = nullptr;
};

std::size_t index(int i) { return static_cast<std::size_t>(i % kMany); }

/// A round says what it saw that should not be, or nothing. Each has graphs of its own.
void in_some_round(const std::function<std::string()>& round) {
  constexpr int kRounds = 10;
  std::string seen;
  for (int i = 0; i < kRounds && !testing::Test::HasFailure(); ++i) {
    std::this_thread::sleep_for(i * std::chrono::milliseconds(100));  // what interrupted the last one may be over
    if ((seen = round()).empty()) return;
  }
  ADD_FAILURE() << "in each round, at last:" << seen;
}
template <typename Value>
std::string unless(bool good, const char* what, Value value) {
  return good ? "" : ' ' + std::string(what) + ' ' + std::to_string(value);
}

class OpenStaging : public testing::TestWithParam<bool> {};

TEST_P(OpenStaging, many_nodes_that_differ_and_few_bytes_are_staged) {
  in_some_round([&]() -> std::string {
    Steps steps(GetParam());
    int i = settle([&](int at) { steps.one(index(at), index(at)); }, only_stages);
    const int from = i;
    const Since since = work();
    for (; i < kMany; ++i) steps.one(index(i), index(i));
    const int kernels_patched = since["hipGraphExecKernelNodeSetParams"], made = since["hipGraphInstantiate"];
    const int copied = copies(since);
    steps.check();
    if (!under_library() || kInstrumented) return "";
    if (!chooses()) return unless(copied == 0, "copied", copied);
    return unless(verifies() || kernels_patched == 0, "kernels patched", kernels_patched) +
           unless(verifies() || made == 0, "execs made", made) + unless(copied >= kMany - from, "copied", copied);
  });
}

TEST_P(OpenStaging, launches_of_a_binding_weigh_against_staging) {
  in_some_round([&]() -> std::string {
    Steps steps(GetParam());
    // Six copies a launch, of a microsecond at least, so that those of a binding cost four times what its patches do.
    const double patches_ns = 4 * steps.nodes() * cost_ns("hipGraphExecKernelNodeSetParams");
    // Where an exec is made for every binding, copies are the less even so.
    const bool looks = chooses() && !kInstrumented && patches() && !beside_others() && !verifies();
    const int launches = looks ? std::max(25, static_cast<int>(patches_ns / (6 * 1000))) : 25;
    constexpr int kSteps = 20;
    const Since since = work();
    for (int i = 0; i < kSteps; ++i) steps.one(index(i), index(i), launches);
    const int copied = copies(since);
    steps.check();
    return unless(!looks || copied == 0, "copied", copied);
  });
}

TEST_P(OpenStaging, the_choice_follows_the_program_and_comes_back) {
  in_some_round([&]() -> std::string {
    Steps steps(GetParam());
    const bool looks = chooses() && !kInstrumented && patches() && !verifies() && !beside_others();
    const auto goes_on = [&](const std::function<void(int)>& step, const std::function<bool(const Since&)>& settled) {
      if (looks) return settle(step, settled);
      for (int i = 0; i < kGroup; ++i) step(i);
      return kGroup;
    };
    int i = goes_on([&](int at) { steps.one(index(at), 0); }, only_stages);  // all kernels differ
    Since staged = work();
    for (int k = 0; k < 10; ++k) steps.one(index(k), index(1 + k));
    const int copied = copies(staged), patched = staged["hipGraphExecKernelNodeSetParams"];
    goes_on([&](int at) { steps.one(index(i + 10), index(at)); }, stages_nothing);  // only the last two do
    const Since since = work();
    for (int k = 0; k < 3; ++k) steps.one(index(i + 20), index(k));  // once more all do, which changes nothing
    const int unstaged = copies(since);
    goes_on([&](int at) { steps.one(index(at), index(at)); }, only_stages);  // and all again
    const Since again = work();
    for (int k = 0; k < 10; ++k) steps.one(index(k), index(kMany - 1 - k));
    const int copied_again = copies(again), patched_again = again["hipGraphExecKernelNodeSetParams"];
    steps.check();
    if (!looks) return "";
    return unless(copied >= 10, "copied", copied) + unless(patched == 0, "patched", patched) +
           unless(unstaged == 0, "still staged", unstaged) + unless(copied_again >= 10, "copied again", copied_again) +
           unless(patched_again == 0, "patched again", patched_again);
  });
}

INSTANTIATE_TEST_SUITE_P(Execs, OpenStaging, testing::Bool(),
                         [](const auto& info) { return info.param ? "updated" : "remade"; });

TEST(OpenStagingNodes, setting_nodes_of_an_exec_does_not_change_it_over) {
  const Stream stream;
  const std::vector<Buffer> buffers(kMost);
  NodeGraph graph;
  const hipGraphNode_t node = graph.mix({}, buffers[0].get(), 7);
  const hipGraphExec_t exec = graph.instantiate();
  const Since since = work();
  for (int i = 0; i < kMost; ++i) {
    MixParams params(buffers[index(i)].get(), 7);
    OK(hipGraphExecKernelNodeSetParams(exec, node, &params));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
  }
  const int copied = copies(since);
  for (int i = 0; i < kMost; ++i) EXPECT_EQ(7, buffers[index(i)].value());
  OK(hipGraphExecDestroy(exec));
  if (under_library() && !verifies()) {
    EXPECT_EQ(0, copied);
  }
}

TEST(OpenStagingBig, one_node_that_differs_and_many_bytes_are_not_staged) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const Stream stream;
  std::vector<int*> big(2);
  for (int*& at : big) {
    OK(hipMalloc(reinterpret_cast<void**>(&at), kBytes));
    OK(hipMemset(at, 0, kCount * sizeof(int)));
  }
  const Buffer result;
  int value = 0, big_values[2] = {0, 0}, rounds = 0;
  in_some_round([&]() -> std::string {
    const int others = 3 + rounds++;
    const Since since = work();
    for (int i = 0; i < kMany; ++i) {
      const int which = i % 2;
      step(stream, [&] {
        OK(kernels().mix(stream, big[static_cast<std::size_t>(which)], kCount, i));
        for (int k = 0; k < others; ++k) OK(kernels().mix(stream, result.get(), kCount, k));
      });
      big_values[which] = mixed(big_values[which], i);
      for (int k = 0; k < others; ++k) value = mixed(value, k);
    }
    const int copied = since["hipGraphExecMemcpyNodeSetParams1D"], launches = since["hipGraphLaunch"];
    EXPECT_EQ(value, result.value());
    for (int which = 0; which < 2; ++which) {
      int host[kCount];
      EXPECT_EQ(hipSuccess, hipMemcpy(host, big[static_cast<std::size_t>(which)], sizeof host, hipMemcpyDeviceToHost));
      for (const int element : host) EXPECT_EQ(big_values[which], element);
    }
    if (!under_library()) return "";
    return unless(copied == 0, "copied", copied) + unless(verifies() || launches == kMany, "launched", launches);
  });
  for (int* const at : big) OK(hipFree(at));
}

TEST(OpenStagingMeasured, a_device_that_copies_slowly_is_found_out) {
  // By the rate that is built in, copying costs a fraction of patching so many nodes; by this one's, many times as
  // much, also where patches are interrupted. No binding comes back, for the small buffer is another one each time.
  constexpr std::size_t kBytes = std::size_t{32} << 20, kBig = 4;
  const Stream stream;
  const std::vector<Buffer> small(kMany);
  std::vector<int> small_values(kMany), big_values(kBig);
  std::vector<int*> big(kBig);
  for (int*& at : big) {
    OK(hipMalloc(reinterpret_cast<void**>(&at), kBytes));
    OK(hipMemset(at, 0, kCount * sizeof(int)));
  }
  const bool looks = chooses() && !kInstrumented && patches() && !verifies() && !beside_others();
  const Since since({"hipEventElapsedTime"});
  int done = 0, rounds = 0;
  in_some_round([&]() -> std::string {
    const int nodes = kKernels + rounds++;
    const auto group = [&] {
      const Since in_group = work();
      for (int i = 0; i < kGroup; ++i, ++done) {
        const std::size_t which = static_cast<std::size_t>(done) % kBig, other = index(done);
        step(stream, [&] {
          for (int k = 0; k < nodes; ++k) OK(kernels().mix(stream, big[which], kCount, k));
          OK(kernels().mix(stream, small[other].get(), kCount, 1));
        });
        for (int k = 0; k < nodes; ++k) big_values[which] = mixed(big_values[which], k);
        small_values[other] = mixed(small_values[other], 1);
      }
      return copies(in_group);
    };
    constexpr int kGroups = kMany / kGroup;
    int staged = 0, last = 0;
    for (int i = 0; i < (looks ? kGroups : 3) || (last != 0 && i < 3 * kGroups && looks); ++i) staged += last = group();
    if (!looks) return "";
    const int measured = since["hipEventElapsedTime"];
    return unless(staged > 0, "copied", staged) + unless(last == 0, "copied at last", last) +
           unless(measured >= 1, "measured", measured);
  });
  for (std::size_t i = 0; i < kBig; ++i) {
    int host[kCount];
    OK(hipMemcpy(host, big[i], sizeof host, hipMemcpyDeviceToHost));
    for (const int element : host) ASSERT_EQ(big_values[i], element) << "buffer " << i;
    OK(hipFree(big[i]));
  }
  for (std::size_t i = 0; i < small.size(); ++i) ASSERT_EQ(small_values[i], small[i].value()) << "small buffer " << i;
}

/// A graph with slots for one buffer writes to another one, for which it has none, while a graph that has one runs.
TEST(OpenStagingOrder, rule_04_what_is_written_beside_slots_is_seen) {
  if (verifies()) GTEST_SKIP() << "what is held up here would be waited for";
  const Stream s, t;
  int* flags = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flags), 2 * sizeof(int), 0));
  const auto set = [&](int flag, int to) { __atomic_store_n(&flags[flag], to, __ATOMIC_RELEASE); };
  int* always = nullptr;
  OK(hipMalloc(reinterpret_cast<void**>(&always), 800));
  OK(hipMemset(always, 0, 800));
  std::vector<Buffer> moving(kMany);
  std::vector<int> values(kMany);
  constexpr int kHalf = kCount / 2;
  const auto staged_graph = [&](std::size_t which) {
    for (int i = 0; i < kKernels; ++i) values[which] = mixed(values[which], i);
    return capture(s, [&] {
      for (int i = 0; i < kKernels; ++i) OK(kernels().mix(s, moving[which].get(), kHalf, i));
      OK(kernels().spin(s, &flags[1]));
    });
  };
  const auto launched = [&](hipGraph_t graph) {
    hipGraphExec_t exec = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, s));
    return exec;
  };
  set(1, 1);
  int steps = settle(
      [&](int at) {
        const hipGraphExec_t exec = launched(staged_graph(index(at)));
        OK(hipStreamSynchronize(s));
        OK(hipGraphExecDestroy(exec));
      },
      only_stages);
  const std::size_t last = index(steps);
  hipGraphExec_t other = nullptr;
  const hipGraph_t graph = capture(t, [&] {
    OK(kernels().mix(t, always, kCount, 3));
    OK(kernels().mix(t, moving[last].get() + kHalf, kCount - kHalf, 8));
  });
  OK(hipGraphInstantiate(&other, graph, nullptr, nullptr, 0));
  set(0, 0);
  set(1, 0);
  OK(kernels().spin(t, &flags[0]));
  OK(hipGraphLaunch(other, t));
  const hipGraphExec_t exec = launched(staged_graph(last));
  set(0, 1);
  OK(hipStreamSynchronize(t));
  set(1, 1);
  OK(hipStreamSynchronize(s));
  std::vector<int> ints(kCount);
  OK(hipMemcpy(ints.data(), moving[last].get(), kCount * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(i < kHalf ? values[last] : mixed(0, 8), ints[static_cast<std::size_t>(i)]) << i;
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphExecDestroy(other));
  OK(hipFree(always));
  OK(hipHostFree(flags));
}

}  // namespace
}  // namespace captures
