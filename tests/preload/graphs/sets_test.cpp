// sets_test.cpp: a program sets the same few nodes of one exec before each launch, to what they were set to before: its
// buffers change places, as XLA's donated ones do.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "node_calls.h"

// Newer than the oldest header.
extern "C" hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int enabled);

namespace captures {
namespace {

/// One exec of a graph that mixes `a` into one buffer, copies that to a second and joins a third with it, and the
/// places that its buffers are in in turn.
class TakingTurns {
 public:
  explicit TakingTurns(int places) : value_(static_cast<std::size_t>(places)) {
    for (int i = 0; i < places; ++i) {
      mixed_in_.push_back(std::make_unique<Buffer>());
      copied_.push_back(std::make_unique<Buffer>());
    }
    mix_ = graph_.mix({}, mixed_in_[0]->get(), 1);
    copy_ = graph_.copy({mix_}, copied_[0]->get(), mixed_in_[0]->get());
    static_cast<void>(graph_.join({copy_}, joined_.get(), fixed_.get()));
    exec_ = graph_.instantiate();
  }
  ~TakingTurns() { EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec_)); }
  TakingTurns(const TakingTurns&) = delete;
  TakingTurns& operator=(const TakingTurns&) = delete;

  void set_mix(int place) {
    MixParams params(mixed_in_[at(place)]->get(), 1 + place);
    OK(hipGraphExecKernelNodeSetParams(exec_, mix_, &params));
    mix_at_ = place;
  }
  void set_copy(int place) {
    OK(hipGraphExecMemcpyNodeSetParams1D(exec_, copy_, copied_[at(place)]->get(), mixed_in_[at(place)]->get(),
                                         kCount * 4, hipMemcpyDeviceToDevice));
    copy_at_ = place;
  }
  void set(int place) {
    set_mix(place);
    set_copy(place);
  }
  void launch() {
    OK(hipGraphLaunch(exec_, stream_));
    note_launched();
  }
  /// By two threads at once, into one stream.
  void launch_by_two() {
    std::atomic<int> ready{0};
    const auto launch = [&] {
      for (++ready; ready != 2;) std::this_thread::yield();
      OK(hipGraphLaunch(exec_, stream_));
    };
    std::thread other(launch);
    launch();
    other.join();
    note_launched();
    note_launched();
  }
  void wait() { OK(hipStreamSynchronize(stream_)); }
  void check() {
    wait();
    for (std::size_t i = 0; i < value_.size(); ++i) EXPECT_EQ(value_[i], mixed_in_[i]->value()) << "place " << i;
    EXPECT_EQ(value_[at(copy_at_)], copied_[at(copy_at_)]->value());
    int joins = 0;
    for (int i = 0; i < launches_; ++i) joins = joined(joins, 0);
    EXPECT_EQ(joins, joined_.value());
  }
  void step(int place) {
    set(place);
    launch();
    check();
  }
  hipGraphExec_t exec() const { return exec_; }
  hipGraphNode_t mix() const { return mix_; }
  hipGraph_t graph() const { return graph_; }
  int* mixed_in(int place) const { return mixed_in_[at(place)]->get(); }
  int* copied(int place) const { return copied_[at(place)]->get(); }
  const int* fixed() const { return fixed_.get(); }
  int* joined_buffer() const { return joined_.get(); }
  /// The program's own graph does what these places say.
  void updated_to(int place) { mix_at_ = copy_at_ = place; }

 private:
  void note_launched() {
    ++launches_;
    value_[at(mix_at_)] = mixed(value_[at(mix_at_)], 1 + mix_at_);
  }
  static std::size_t at(int place) { return static_cast<std::size_t>(place); }
  const Stream stream_;
  const Buffer fixed_, joined_;
  std::vector<std::unique_ptr<Buffer>> mixed_in_, copied_;
  std::vector<int> value_;
  NodeGraph graph_;
  hipGraphNode_t mix_ = nullptr, copy_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  int mix_at_ = 0, copy_at_ = 0, launches_ = 0;
};

Since set_calls() {
  return Since({"hipGraphExecKernelNodeSetParams", "hipGraphExecMemcpyNodeSetParams1D", "hipGraphInstantiate",
                "hipGraphExecChildGraphNodeSetParams"});
}

TEST(Sets, what_nodes_are_set_to_in_turn_is_set_no_more) {
  for (const int places : {2, 3, 5}) {
    TakingTurns turns(places);
    for (int i = 0; i < 4 * places; ++i) turns.step(i % places);
    const Since since = set_calls();
    for (int i = 0; i < 4 * places; ++i) turns.step(i % places);
    EXPECT_EQ(under_library() ? 0 : 4 * places, since["hipGraphExecKernelNodeSetParams"]) << places;
    EXPECT_EQ(under_library() ? 0 : 4 * places, since["hipGraphExecMemcpyNodeSetParams1D"]) << places;
    EXPECT_EQ(0, since["hipGraphInstantiate"]) << places;
  }
}

TEST(Sets, rule_15_what_was_set_between_two_of_them_is_launched_as_it_is) {
  TakingTurns turns(2);
  for (int i = 0; i < 8; ++i) turns.step(i % 2);
  for (int i = 0; i < 3; ++i) {
    // One node only; then the other.
    turns.set_mix(1);
    turns.launch();
    turns.check();
    turns.set_copy(1);
    turns.launch();
    turns.check();
    turns.set_copy(0);
    turns.set_copy(1);
    turns.launch();
    turns.check();
    turns.step(0);
  }
  turns.set_mix(1);  // never launched
}

TEST(Sets, what_was_set_is_launched_by_two_threads_at_once) {
  TakingTurns turns(2);
  for (int i = 0; i < 8; ++i) turns.step(i % 2);
  for (int i = 0; i < 20; ++i) {
    turns.set_mix(i % 2);  // what is between two bindings is noted, and given by a launch
    turns.launch_by_two();
    turns.check();
    turns.step(0);
  }
}

TEST(Sets, rule_03_launches_in_flight_keep_their_order_where_nodes_take_turns) {
  TakingTurns turns(2);
  for (int i = 0; i < 8; ++i) turns.step(i % 2);
  for (int i = 0; i < 30; ++i) {
    turns.set(i % 2);
    turns.launch();
  }
  turns.check();
}

TEST(Sets, rule_02_what_was_noted_is_there_for_other_calls) {
  for (const int which : {0, 1}) {
    TakingTurns turns(2);
    for (int i = 0; i < 8; ++i) turns.step(i % 2);
    turns.set_mix(1);
    if (which == 0) {
      OK(hipGraphNodeSetEnabled(turns.exec(), turns.mix(), 1));
    } else {
      NodeGraph other;
      const hipGraphNode_t mix = other.mix({}, turns.mixed_in(0), 1);
      const hipGraphNode_t copy = other.copy({mix}, turns.copied(0), turns.mixed_in(0));
      static_cast<void>(other.join({copy}, turns.joined_buffer(), turns.fixed()));
      hipGraphNode_t failed = nullptr;
      hipGraphExecUpdateResult result{};
      OK(hipGraphExecUpdate(turns.exec(), other, &failed, &result));
      turns.updated_to(0);
    }
    turns.launch();
    turns.check();
    for (int i = 0; i < 6; ++i) turns.step(i % 2);
  }
}

TEST(Sets, child_graphs_that_take_turns_are_set_no_more) {
  const Stream stream;
  const Buffer a, b;
  const std::unique_ptr<NodeGraph> children[] = {std::make_unique<NodeGraph>(), std::make_unique<NodeGraph>()};
  static_cast<void>(children[0]->mix({}, a.get(), 1));
  static_cast<void>(children[1]->mix({}, b.get(), 2));
  NodeGraph parent;
  const hipGraphNode_t child = parent.child({}, *children[0]);
  const hipGraphExec_t exec = parent.instantiate();
  int in_a = 0, in_b = 0;
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    const Since since = set_calls();
    OK(hipGraphExecChildGraphNodeSetParams(exec, child, *children[i % 2]));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    (i % 2 == 0 ? in_a : in_b) = i % 2 == 0 ? mixed(in_a, 1) : mixed(in_b, 2);
    EXPECT_EQ(in_a, a.value());
    EXPECT_EQ(in_b, b.value());
    if (i >= 8) late += since["hipGraphExecChildGraphNodeSetParams"];
  }
  EXPECT_EQ(under_library() ? 0 : 12, late);
  OK(hipGraphExecDestroy(exec));
}

TEST(Sets, what_never_comes_back_is_set_as_natively) {
  TakingTurns turns(20);
  const Since since = set_calls();
  for (int i = 0; i < 80; ++i) turns.step(i % 20);
  EXPECT_LE(since["hipGraphInstantiate"], 2) << "more places in turn than bindings that are remembered";
}

}  // namespace
}  // namespace captures
