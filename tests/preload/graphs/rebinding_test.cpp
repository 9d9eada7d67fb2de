// Bindings that no exec has: which way serves them, what is kept for them, when it goes. The programs run natively and
// under the library with several policies; GRAPHPOOL_GRAPH_* says which, and CPUHIP_VERSION which runtime is played.
#include "node_calls.h"

namespace captures {
namespace {

std::string policy(const char* key) {
  const char* const value = std::getenv((std::string("GRAPHPOOL_GRAPH_") + key).c_str());
  return value == nullptr ? "" : value;
}

bool runtime_is(const char* version) {
  const char* const value = std::getenv("CPUHIP_VERSION");
  return value != nullptr && std::strcmp(value, version) == 0;
}

Since exec_calls() {
  return Since({"hipGraphInstantiate", "hipGraphExecDestroy", "hipGraphExecKernelNodeSetParams",
                "hipGraphExecMemsetNodeSetParams", "hipGraphExecMemcpyNodeSetParams1D", "hipGraphExecHostNodeSetParams",
                "hipModuleLaunchKernel", "hipStreamBeginCapture"});
}

int live_execs(const Since& since) { return since["hipGraphInstantiate"] - since["hipGraphExecDestroy"]; }

/// A step whose binding never comes back.
class Counting {
 public:
  void one() {
    ++round_;
    step(stream_, [&] {
      OK(kernels().mix(stream_, buffer_.get(), kCount, round_));
      OK(kernels().mix(stream_, buffer_.get(), kCount, 7));
    });
    value_ = mixed(mixed(value_, round_), 7);
    EXPECT_EQ(value_, buffer_.value()) << "round " << round_;
  }

 private:
  const Stream stream_;
  const Buffer buffer_;
  int round_ = 0, value_ = 0;
};

TEST(Rebinding, rule_30_what_is_kept_for_bindings_that_never_come_back_is_bounded) {
  Counting counting;
  const Since since = exec_calls();
  for (int i = 0; i < 60; ++i) counting.one();
  if (!under_library()) return;
  const int patched = since["hipGraphExecKernelNodeSetParams"];
  if (policy("STRATEGY") == "one_shot") {
    EXPECT_EQ(0, patched);
    EXPECT_EQ(60, since["hipGraphInstantiate"]);
    EXPECT_EQ(0, live_execs(since));
  } else if (policy("STRATEGY") == "new_exec") {
    EXPECT_EQ(0, patched);
    EXPECT_EQ(60, since["hipGraphInstantiate"]);
    EXPECT_EQ(16, live_execs(since));  // the default of `variants`
  } else if (runtime_is("60342131")) {
    EXPECT_EQ(0, patched);  // an update would keep a pointer of ours
    EXPECT_EQ(60, since["hipGraphInstantiate"]);
    EXPECT_LE(live_execs(since), 8);  // from then on the word is known to be volatile
  } else if (!policy("PATCH_BUDGET").empty()) {
    const int budget = std::stoi(policy("PATCH_BUDGET"));
    EXPECT_GE(since["hipGraphInstantiate"], 60 / (budget + 1));      // each serves one binding new and `budget` patched
    EXPECT_LE(since["hipGraphInstantiate"], 60 / (budget + 1) + 4);  // but for the first few
    EXPECT_LE(live_execs(since), 8);
  } else if (policy("VARIANT_MEMORY") == "0") {
    EXPECT_EQ(60, since["hipGraphInstantiate"]);
    EXPECT_EQ(0, live_execs(since));
  } else if (policy("STRATEGY") == "patch") {
    EXPECT_EQ(59, patched);
    EXPECT_EQ(1, since["hipGraphInstantiate"]);
  } else {
    EXPECT_GT(patched, 40);
    EXPECT_LE(live_execs(since), 8);
  }
}

TEST(Rebinding, an_exec_that_is_updated_every_step_is_patched_itself) {
  const Stream stream;
  const Buffer buffer;
  const auto captured = [&](int round) {
    return capture(stream, [&] {
      OK(kernels().mix(stream, buffer.get(), kCount, round));
      for (int i = 0; i < 2; ++i) OK(kernels().mix(stream, buffer.get(), kCount, 3));
    });
  };
  int value = 0;
  hipGraph_t graph = captured(0);
  hipGraphExec_t exec = nullptr;
  const Since since = exec_calls();
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 60; ++round) {
    if (round != 0) {
      graph = captured(round);
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
    }
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    value = mixed(mixed(mixed(value, round), 3), 3);
    EXPECT_EQ(value, buffer.value()) << "round " << round;
  }
  if (under_library() && policy("STRATEGY").empty() && policy("PATCH_BUDGET").empty() &&
      policy("VARIANT_MEMORY").empty() && !runtime_is("60342131")) {
    // The first few bindings have an exec each; the others are patched into what the program holds, one node each.
    EXPECT_LE(since["hipGraphInstantiate"], 4);
    EXPECT_EQ(60, since["hipGraphInstantiate"] + since["hipGraphExecKernelNodeSetParams"]);
  }
  if (under_library() && policy("STRATEGY") == "patch") {
    EXPECT_EQ(1, since["hipGraphInstantiate"]);
    EXPECT_EQ(59, since["hipGraphExecKernelNodeSetParams"]);
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Rebinding, an_exec_is_not_patched_while_it_runs) {
  const Stream stream;
  const Buffer buffer;
  const auto captured = [&](int round) {
    return capture(stream, [&] {
      for (int i = 0; i < 4; ++i) OK(kernels().mix(stream, buffer.get(), kCount, round));
    });
  };
  int value = 0;
  hipGraph_t graph = captured(0);
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int round = 0; round < 40; ++round) {
    if (round != 0) {
      graph = captured(round);
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
    }
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    for (int i = 0; i < 4; ++i) value = mixed(value, round);
  }
  EXPECT_EQ(value, buffer.value());  // waits
  OK(hipGraphExecDestroy(exec));
}

TEST(Rebinding, an_exec_that_an_unknown_graph_has_updated_is_compared_again) {
  const Stream stream;
  const Buffer buffer;
  // A capture in which an operation failed is of no recording.
  const auto captured = [&](int first, bool unknown) {
    return capture(stream, [&] {
      OK(kernels().mix(stream, buffer.get(), kCount, first));
      if (unknown) {
        EXPECT_EQ(hipErrorInvalidValue, hipMemsetAsync(nullptr, 0, 4, stream));
        static_cast<void>(hipGetLastError());
      }
      OK(kernels().mix(stream, buffer.get(), kCount, 7));
    });
  };
  hipGraphExec_t exec = nullptr;
  int value = 0, updates = 0;
  const auto one = [&](int first, bool unknown) {
    const hipGraph_t graph = captured(first, unknown);
    const Since since = Since({"hipGraphExecUpdate"});
    if (exec == nullptr) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
    }
    updates = since["hipGraphExecUpdate"];
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    value = mixed(mixed(value, first), 7);
    EXPECT_EQ(value, buffer.value()) << first << (unknown ? " of an unknown graph" : "");
  };
  const std::string strategy = policy("STRATEGY");
  const bool serves =
      under_library() && strategy != "one_shot" && strategy != "patch" && policy("VARIANT_MEMORY") != "0";
  for (int i = 0; i < 3; ++i) one(5, false);
  for (int round = 0; round < 4; ++round) {
    one(40 + round, true);
    for (int i = 0; i < 4; ++i) {
      one(5, false);
      if (serves && i >= 2) {
        EXPECT_EQ(0, updates) << "round " << round << ", update " << i;
      }
    }
    one(6 + round, false);
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Rebinding, bindings_that_come_in_turn_have_an_exec_each) {
  const Stream stream;
  const Buffer buffers[3];
  int values[3] = {};
  const auto one = [&](int i) {
    step(stream, [&] { OK(kernels().mix(stream, buffers[i % 3].get(), kCount, 5)); });
    values[i % 3] = mixed(values[i % 3], 5);
    EXPECT_EQ(values[i % 3], buffers[i % 3].value()) << "step " << i;
  };
  for (int i = 0; i < 3; ++i) one(i);
  const Since since = exec_calls();
  for (int i = 3; i < 12; ++i) one(i);
  if (!under_library() || !policy("VARIANT_MEMORY").empty()) return;
  if (policy("STRATEGY").empty() || policy("STRATEGY") == "new_exec") {
    EXPECT_EQ(0, since["hipGraphInstantiate"]);
    EXPECT_EQ(0, since["hipGraphExecKernelNodeSetParams"]);
  }
}

TEST(Rebinding, bindings_that_updates_bring_in_turn_have_an_exec_each) {
  const Stream stream;
  const Buffer buffer, other;
  hipGraphExec_t exec = nullptr;
  int value = 0, other_value = 0;
  // When it pays to make an exec depends on what calls are measured to take: by the last rounds it has.
  constexpr int kRounds = 200, kLast = 50;
  int updates = 0, instantiates = 0;
  for (int round = 0; round < kRounds; ++round) {
    const bool second = round % 2 != 0;
    hipGraph_t graph = capture(stream, [&] {
      for (int i = 0; i < 3; ++i) OK(kernels().mix(stream, (second ? other : buffer).get(), kCount, 3));
    });
    if (exec == nullptr) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      const Since since = Since({"hipGraphExecUpdate", "hipGraphInstantiate"});
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
      if (round >= kRounds - kLast) updates += since["hipGraphExecUpdate"];
      instantiates += since["hipGraphInstantiate"];
    }
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    for (int i = 0; i < 3; ++i) (second ? other_value : value) = mixed(second ? other_value : value, 3);
    EXPECT_EQ(value, buffer.value()) << "round " << round;
    if (second) {
      EXPECT_EQ(other_value, other.value()) << "round " << round;
    }
  }
  OK(hipGraphExecDestroy(exec));
  const std::string strategy = policy("STRATEGY");
  const bool patches = strategy == "patch" || strategy == "one_shot" || !policy("PATCH_BUDGET").empty();
  if (!under_library() || patches || policy("VARIANT_MEMORY") == "0") return;
  EXPECT_EQ(0, updates) << "there is an exec for each";
  EXPECT_LE(instantiates, 4);
}

TEST(Rebinding, rule_09_a_node_is_patched_only_where_the_runtime_updates_it_correctly) {
  const Stream stream;
  const Buffer buffer, other;
  const Since since = exec_calls();
  for (int i = 1; i <= 30; ++i) {
    step(stream, [&] {
      OK(hipMemsetD32Async(buffer.get(), i, kCount, stream));
      OK(hipMemcpyAsync(other.get(), buffer.get() + i % 2, kCount * sizeof(int) / 2, hipMemcpyDeviceToDevice, stream));
      OK(kernels().mix(stream, buffer.get(), kCount, i));
    });
    EXPECT_EQ(mixed(i, i), buffer.value()) << "step " << i;
  }
  if (!under_library() || !policy("STRATEGY").empty() || !policy("VARIANT_MEMORY").empty()) return;
  EXPECT_EQ(2, since["hipStreamBeginCapture"] - 28);
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  if (version >= 60000000) {
    EXPECT_EQ(0, since["hipGraphExecMemsetNodeSetParams"]);
    EXPECT_EQ(0, since["hipGraphExecMemcpyNodeSetParams1D"]);
    EXPECT_EQ(30, since["hipGraphInstantiate"]);  // the fill differs, and must not be set
  } else if (policy("PATCH_BUDGET").empty()) {
    EXPECT_GT(since["hipGraphExecMemsetNodeSetParams"], 10);
    EXPECT_GT(since["hipGraphExecKernelNodeSetParams"], 10);
  }
}

void add_one(void* value) { ++*static_cast<int*>(value); }

TEST(Rebinding, rule_09_a_host_function_is_never_patched) {
  const Stream stream;
  const Buffer buffer;
  std::vector<int> counts(20);
  const Since since = exec_calls();
  for (int& count : counts) {
    step(stream, [&] {
      OK(kernels().mix(stream, buffer.get(), kCount, 1));
      OK(hipLaunchHostFunc(stream, add_one, &count));
    });
  }
  for (const int count : counts) EXPECT_EQ(1, count);
  EXPECT_EQ(0, since["hipGraphExecHostNodeSetParams"]);
}

TEST(Rebinding, rule_15_a_launch_makes_nothing_and_destroys_nothing) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 10; ++i) {
    const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, i)); });
    const hipGraph_t other = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 1000 + i)); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    const Since first = exec_calls();
    OK(hipGraphLaunch(exec, stream));
    EXPECT_EQ(0, first["hipGraphExecDestroy"]);
    OK(hipStreamSynchronize(stream));
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    OK(hipGraphExecUpdate(exec, other, &node, &result));
    // The update has made what serves the new binding; the launch makes nothing.
    const Since launches = exec_calls();
    OK(hipGraphLaunch(exec, stream));
    EXPECT_EQ(0, launches["hipGraphInstantiate"]);
    EXPECT_EQ(0, launches["hipGraphExecKernelNodeSetParams"]);
    EXPECT_EQ(0, launches["hipGraphExecDestroy"]);
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    OK(hipGraphDestroy(other));
    value = mixed(mixed(value, i), 1000 + i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

/// As XLA's command buffers: one exec, whose nodes are set before each launch. Bindings take turns, or never come back.
TEST(Rebinding, rule_30_an_exec_whose_nodes_are_set_stays_one) {
  const Stream stream;
  const Buffer filled, copied, other, mixed_in;
  for (const bool in_turn : {true, false}) {
    NodeGraph graph;
    const hipGraphNode_t fill = graph.fill({}, filled.get(), 1);
    const hipGraphNode_t copy = graph.copy({fill}, copied.get(), filled.get());
    const hipGraphNode_t mix = graph.mix({copy}, mixed_in.get(), 3);
    const Since since = exec_calls();
    const hipGraphExec_t exec = graph.instantiate();
    int value = mixed_in.value();
    for (int round = 0; round < 200; ++round) {
      const int number = in_turn ? round % 2 : round;
      const Buffer& to = round % 2 == 0 ? copied : other;
      const hipMemsetParams fill_to = fill_params(filled.get(), static_cast<unsigned>(number), kCount);
      OK(hipGraphExecMemsetNodeSetParams(exec, fill, &fill_to));
      OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, to.get(), filled.get(), kCount * 4, hipMemcpyDeviceToDevice));
      MixParams params(mixed_in.get(), number);
      OK(hipGraphExecKernelNodeSetParams(exec, mix, &params));
      OK(hipGraphLaunch(exec, stream));
      OK(hipStreamSynchronize(stream));
      value = mixed(value, number);
      EXPECT_EQ(value, mixed_in.value()) << round;
      EXPECT_EQ(number, to.value()) << round;
    }
    // Bindings that come back have execs of their own; a few more are made where one is busy when it is wanted.
    EXPECT_LE(live_execs(since), in_turn ? 3 : 1);
    EXPECT_LE(since["hipGraphInstantiate"], in_turn ? 8 : 1);
    OK(hipGraphExecDestroy(exec));
  }
}

/// Nothing is instantiated or destroyed by the program but one exec.
TEST(Rebinding, rule_15_execs_are_bounded_where_the_program_only_updates) {
  const Stream stream;
  const Buffer one, two, third;
  const auto captured = [&](int round) {
    return capture(stream, [&] {
      OK(hipMemcpyAsync((round % 2 == 0 ? one : two).get(), third.get(), kCount * 4, hipMemcpyDeviceToDevice, stream));
      OK(kernels().mix(stream, third.get(), kCount, round));
    });
  };
  hipGraph_t graph = captured(0);
  hipGraphExec_t exec = nullptr;
  const Since since = exec_calls();
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  int value = 0;
  for (int round = 0; round < 100; ++round) {
    if (round != 0) {
      graph = captured(round);
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
      OK(hipGraphDestroy(graph));
    }
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(value, (round % 2 == 0 ? one : two).value()) << round;
    value = mixed(value, round);
    EXPECT_EQ(value, third.value()) << round;
    EXPECT_LE(live_execs(since), policy("VARIANT_MEMORY") == "0" ? 1 : 16) << round;
  }
  if (runtime_is("70051831") || runtime_is("60342131")) {
    EXPECT_EQ(1, since["hipGraphInstantiate"]) << "copies are not patched there: the program's own update is made";
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Rebinding, rule_30_recordings_are_bounded) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  const auto one = [&](int length) {
    step(stream, [&] {
      for (int i = 0; i < length; ++i) OK(kernels().mix(stream, buffer.get(), kCount, i));
    });
    for (int i = 0; i < length; ++i) value = mixed(value, i);
    EXPECT_EQ(value, buffer.value()) << length;
  };
  for (int length = 1; length <= 60; ++length) one(length);
  const Since since = exec_calls();
  one(60);  // the newest is known
  const int newest = since["hipModuleLaunchKernel"];
  one(1);
  if (!under_library()) return;
  EXPECT_EQ(0, newest);
  // Of 60 recordings the first is gone where they may not hold much memory.
  EXPECT_EQ(policy("RECORDING_MEMORY").empty() ? 0 : 1, since["hipModuleLaunchKernel"]);
}

TEST(Rebinding, rule_30_a_place_whose_captures_never_come_back_is_left_alone) {
  const Stream stream;
  const Buffer buffer, other;
  int value = 0;
  const auto one = [&](int pattern) {  // its bits say which of two kernels comes; all captures begin in this line
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    for (int bit = 0; bit < 9; ++bit) {
      if ((pattern >> bit & 1) != 0) {
        OK(kernels().join(stream, buffer.get(), other.get(), kCount));
        value = joined(value, 0);
      } else {
        OK(kernels().mix(stream, buffer.get(), kCount, bit));
        value = mixed(value, bit);
      }
    }
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipStreamEndCapture(stream, &graph));
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  };
  // As many as are kept are learned, and 64 more are judged.
  int pattern = 0, alone = 0;
  for (; pattern < 256 + 64 + 16 && alone < 16; ++pattern) {
    const Since since({"hipStreamGetCaptureInfo_v2", "hipGraphAddKernelNode"});
    one(pattern);
    const bool looked_into = since["hipStreamGetCaptureInfo_v2"] != 0 || since["hipGraphAddKernelNode"] != 0;
    alone = looked_into ? 0 : alone + 1;
  }
  EXPECT_EQ(value, buffer.value());
  EXPECT_EQ(16, alone);
}

TEST(Rebinding, rule_27_a_capture_left_alone_is_over_when_another_thread_has_ended_it) {
  const Stream stream;
  const Buffer buffer;
  // One place of the program.
  const auto begin = [&]() __attribute__((noinline)) {
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  };
  const auto end = [&](hipGraph_t* graph) { OK(hipStreamEndCapture(stream, graph)); };
  const auto mix = [&](int with) { OK(kernels().mix(stream, buffer.get(), kCount, with)); };
  const auto elsewhere = [](const auto& call) { std::thread(call).join(); };
  hipGraph_t graph = nullptr;
  for (int pattern = 0; pattern < 64; ++pattern) {  // none comes back
    begin();
    for (int i = 0; i <= pattern; ++i) mix(i);
    end(&graph);
    OK(hipGraphDestroy(graph));
  }
  begin();
  elsewhere([&] { end(&graph); });
  OK(hipGraphDestroy(graph));
  int value = 0;
  for (const bool fed_here : {false, true, true}) {
    const auto second = [&] { mix(102); };
    elsewhere([&] {
      OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
      mix(101);
      if (!fed_here) second();
    });
    if (fed_here) second();
    elsewhere([&] { end(&graph); });
    run(stream, graph);
    value = mixed(mixed(value, 101), 102);
    EXPECT_EQ(value, buffer.value());
  }
}

}  // namespace
}  // namespace captures
