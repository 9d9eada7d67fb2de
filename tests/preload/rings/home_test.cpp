// Staged graphs whose buffers stay where they are: after so many bindings launches work on the program's own memory and
// copy nothing. The graphs of these tests write down where they have run, so that each launch tells.
#include <cstdint>

#include "rings.h"

namespace captures {
namespace {

constexpr int kMostBindings = 100;

/// Mixes all of the memory but the note, and writes it: not where launches are compared, for it differs in slots.
void note_and_mix(hipStream_t stream, const Memory& memory, int constant) {
  OK(kernels().mix(stream, memory.get() + kNote, kInOut - kNote, constant));
  if (!verified()) {
    OK(write_note(stream, memory.get()));
  }
}
hipGraph_t noting(hipStream_t stream, const Memory& memory, int constant) {
  return capture(stream, [&] { note_and_mix(stream, memory, constant); });
}

/// What has been mixed. Every element must be equal.
int mixed_in(const Memory& memory) {
  const std::vector<int> ints = memory.ints();
  for (std::size_t i = kNote; i < ints.size(); ++i) EXPECT_EQ(ints[kNote], ints[i]) << i;
  return ints[kNote];
}

/// Whether a launch can do without copies here.
bool stays_at_home() { return under_library() && !overlap() && !verified(); }

/// Of a graph whose slots no test before has used.
int new_constant() {
  static int last = 100;
  return ++last;
}

/// An exec of such a graph over `memory`, with what is expected there.
struct Subject {
  explicit Subject(int by = new_constant())
      : constant(by), memory(kInOut, by), value(by), exec(noting(stream, memory, by)) {}
  void bind() const { exec.update(noting(stream, memory, constant)); }
  void launch() { launch_on(stream); }
  void launch_on(hipStream_t on) {
    OK(hipGraphLaunch(exec, on));
    value = mixed(value, constant);
  }
  /// Binds until a launch copies nothing any more. Returns how often, or -1.
  int bind_until_home() {
    for (int i = 1; i <= kMostBindings; ++i) {
      bind();
      launch();
      EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream));
      EXPECT_EQ(value, mixed_in(memory)) << "binding " << i;
      if (!copied(memory)) return i;
    }
    return -1;
  }

  const FreeStream stream;
  const int constant;
  const Memory memory;
  int value;
  const Exec exec;
};

TEST(Home, copies_stop_once_buffers_have_stayed_and_come_back_when_one_moves) {
  Subject subject;
  for (int i = 0; i < kMostBindings; ++i) subject.launch();
  OK(hipStreamSynchronize(subject.stream));
  EXPECT_EQ(subject.value, mixed_in(subject.memory));
  if (verified()) GTEST_SKIP() << "nothing tells";
  EXPECT_EQ(under_library(), copied(subject.memory)) << "launches alone are no bindings";
  if (!stays_at_home()) GTEST_SKIP() << "there is nothing to stop";
  const int bindings = subject.bind_until_home();
  EXPECT_GT(bindings, 1);
  for (int i = 0; i < 3; ++i) {
    subject.launch();
    OK(hipStreamSynchronize(subject.stream));
    EXPECT_FALSE(copied(subject.memory));
  }
  Memory other(kInOut, 9);
  subject.exec.update(noting(subject.stream, other, subject.constant));
  OK(hipGraphLaunch(subject.exec, subject.stream));
  OK(hipStreamSynchronize(subject.stream));
  EXPECT_TRUE(copied(other));
  EXPECT_EQ(mixed(9, subject.constant), mixed_in(other));
  EXPECT_EQ(subject.value, mixed_in(subject.memory));
  EXPECT_GE(subject.bind_until_home(), bindings) << "it stays again";
}

TEST(Home, copies_stop_where_each_step_instantiates) {
  if (!stays_at_home()) GTEST_SKIP() << "there is nothing to stop";
  const Stream s;
  Memory memory(kInOut, 3);
  int value = 3, steps = 0;
  do {
    step(s, [&] { note_and_mix(s, memory, 11); });
    value = mixed(value, 11);
    EXPECT_EQ(value, mixed_in(memory));
    ++steps;
  } while (copied(memory) && steps < kMostBindings);
  EXPECT_GT(steps, 1);
  EXPECT_LT(steps, kMostBindings);
}

TEST(Home, the_same_bytes_whatever_stays_and_moves) {
  const std::size_t lines = log_lines().size();
  const Stream streams[2];
  std::unique_ptr<Memory> memories[3];
  int values[3];
  for (int i = 0; i < 3; ++i) {
    values[i] = i;
    memories[i] = std::make_unique<Memory>(kInOut, i);
  }
  const Exec exec(noting(streams[0], *memories[0], 7));
  const auto which = [](int i) { return i < 40 ? 0 : i < 60 ? i % 2 : i < 100 ? 2 : (i / 20) % 3; };
  for (int i = 0; i < 180; ++i) {
    Memory& memory = *memories[which(i)];
    exec.update(noting(streams[0], memory, 7));
    for (int k = 0; k < i % 3; ++k) {
      OK(hipGraphLaunch(exec, streams[i % 2]));
      values[which(i)] = mixed(values[which(i)], 7);
      if (!launches_in_order()) OK(hipStreamSynchronize(streams[i % 2]));
    }
    if (i % 5 == 0) OK(hipDeviceSynchronize());
  }
  OK(hipDeviceSynchronize());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values[i], mixed_in(*memories[i])) << i;
  EXPECT_EQ(lines, log_lines().size());
}

TEST(Home, the_programs_nodes_can_be_set) {
  Subject subject;
  if (stays_at_home()) {
    EXPECT_GT(subject.bind_until_home(), 1);
  }
  const hipGraph_t graph = noting(subject.stream, subject.memory, subject.constant);
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  hipGraphNode_t nodes[2];
  std::size_t count = 2;
  OK(hipGraphGetNodes(graph, nodes, &count));
  int* at = subject.memory.get() + kNote;
  int n = kInOut - kNote, constant = 6;
  void* args[] = {&at, &n, &constant};
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(kernels().mix_function());
  params.gridDim = dim3(2);
  params.blockDim = dim3(64);
  params.kernelParams = args;
  for (const int by : {subject.constant, constant}) {
    if (by == constant) {
      OK(hipGraphExecKernelNodeSetParams(exec, nodes[0], &params));
    }
    OK(hipGraphLaunch(exec, subject.stream));
    OK(hipStreamSynchronize(subject.stream));
    subject.value = mixed(subject.value, by);
  }
  EXPECT_EQ(subject.value, mixed_in(subject.memory));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

// A library with a fault of its own goes on with the buffers there were.
TEST(HomeFault, what_runs_on_other_buffers_is_found_and_the_program_has_the_real_result) {
  const std::size_t lines = log_lines().size();
  const Stream s;
  Memory first(kInOut, 3), second(kInOut, 4);
  int first_value = 3, second_value = 4;
  const Exec exec(mixing(s, first, 15));
  const auto bind_and_launch = [&](const Memory& memory, int* value, int times) {
    for (int i = 0; i < times; ++i) {
      exec.update(mixing(s, memory, 15));
      OK(hipGraphLaunch(exec, s));
      OK(hipStreamSynchronize(s));
      *value = mixed(*value, 15);
      EXPECT_EQ(first_value, first.value());
      EXPECT_EQ(second_value, second.value());
    }
  };
  bind_and_launch(first, &first_value, kMostBindings);
  EXPECT_EQ(lines, log_lines().size()) << "launches that copy nothing are right as long as nothing moves";
  bind_and_launch(second, &second_value, 3);
  bind_and_launch(first, &first_value, 3);
  const std::vector<std::string> said_now = log_lines();
  ASSERT_EQ(lines + 1, said_now.size());
  EXPECT_NE(std::string::npos, said_now.back().find("error: verify: graph")) << said_now.back();
  EXPECT_NE(std::string::npos, said_now.back().find("its launches always copy from now on")) << said_now.back();
}

// --- the rules ---

TEST(Home, rule_03_launches_stay_in_order_with_those_that_copy) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  const FreeStream t;
  Subject subject;
  if (stays_at_home()) {
    EXPECT_GT(subject.bind_until_home(), 1);
  }
  Memory other(kInOut, 9);
  int value = 9;
  Gate gate;
  for (int round = 0; round < 2; ++round) {
    if (round == 1) subject.bind();  // still at home: the launch there was not complete
    gate.close(subject.stream);
    subject.launch();
    subject.launch_on(t);
    subject.launch();
    subject.exec.update(noting(t, other, subject.constant));
    for (const hipStream_t stream : {static_cast<hipStream_t>(t), static_cast<hipStream_t>(subject.stream)}) {
      OK(hipGraphLaunch(subject.exec, stream));
      value = mixed(value, subject.constant);
    }
    EXPECT_TRUE(behind_the_gate(t)) << "the launch that it holds comes before";
    if (round == 1) gate.open();
  }
  EXPECT_TRUE(idle_soon(subject.stream));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(subject.value, mixed_in(subject.memory));
  EXPECT_EQ(value, mixed_in(other));
}

TEST(Home, rule_04_what_another_stream_writes_meanwhile_survives) {
  if (!stays_at_home()) GTEST_SKIP() << "as in the tests of rings";
  const FreeStream t;
  Memory memory(kInOut, 1);
  const FreeStream s;
  const int half = kInOut / 2;
  const auto graph = [&] {
    return capture(s, [&] {
      OK(kernels().mix(s, memory.get() + kNote, half - kNote, 3));
      OK(write_note(s, memory.get()));
    });
  };
  const Exec exec(graph());
  int value = 1, bindings = 0;
  do {
    exec.update(graph());
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    value = mixed(value, 3);
  } while (copied(memory) && ++bindings < kMostBindings);
  ASSERT_LT(bindings, kMostBindings);
  Gate gate;
  gate.close(t);
  OK(kernels().mix(t, memory.get() + half, kInOut - half, 8));
  const Since since({"hipGraphInstantiate"});
  OK(hipGraphLaunch(exec, s));
  EXPECT_EQ(0, since["hipGraphInstantiate"]) << "it writes no more than the graph does: nothing has to be made";
  EXPECT_TRUE(idle_soon(s));
  gate.open();
  EXPECT_TRUE(idle_soon(t));
  value = mixed(value, 3);
  const std::vector<int> ints = memory.ints();
  for (int i = kNote; i < kInOut; ++i)
    EXPECT_EQ(i < half ? value : mixed(1, 8), ints[static_cast<std::size_t>(i)]) << i;
}

TEST(Home, rule_15_a_launch_makes_and_destroys_nothing) {
  if (!stays_at_home()) GTEST_SKIP() << "as in the tests of rings";
  Subject subject;
  EXPECT_GT(subject.bind_until_home(), 1);
  Memory other(kInOut, 9);
  for (const bool home : {true, false}) {
    if (!home) subject.exec.update(noting(subject.stream, other, subject.constant));
    const Since since({"hipGraphInstantiate", "hipGraphExecDestroy", "hipGraphCreate", "hipMemcpyAsync", "hipMalloc",
                       "hipEventCreateWithFlags", "hipEventRecord", "hipStreamSynchronize", "hipGraphLaunch"});
    for (int i = 0; i < 20; ++i) OK(hipGraphLaunch(subject.exec, subject.stream));
    for (const char* const call :
         {"hipGraphInstantiate", "hipGraphExecDestroy", "hipGraphCreate", "hipMalloc", "hipEventCreateWithFlags"})
      EXPECT_EQ(0, since[call]) << call << (home ? " at home" : "");
    EXPECT_EQ(20, since["hipGraphLaunch"]);
    if (home) {
      EXPECT_EQ(0, since["hipMemcpyAsync"]);
      EXPECT_EQ(0, since["hipEventRecord"]) << "a node of the exec does";
    }
    OK(hipStreamSynchronize(subject.stream));
  }
}

TEST(Home, rule_15_out_of_memory_while_it_is_made_does_not_show) {
  if (!stays_at_home()) GTEST_SKIP() << "there is nothing to make";
  int bindings = 0;
  {
    Subject measured;
    bindings = measured.bind_until_home();
    ASSERT_GT(bindings, 1);
  }
  bool made = false, not_made = false;
  for (int after = 1; after <= 40; ++after) {
    Subject subject(after);
    for (int i = 1; i < bindings; ++i) subject.bind();
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    const hipGraph_t graph = noting(subject.stream, subject.memory, subject.constant);
    cpuhip_fail(static_cast<unsigned long long>(after), hipErrorOutOfMemory);
    const hipError_t updated = hipGraphExecUpdate(subject.exec, graph, &node, &result);
    cpuhip_fail(0, 0);
    EXPECT_EQ(hipSuccess, updated) << after;
    EXPECT_EQ(hipSuccess, hipGetLastError()) << after;
    OK(hipGraphDestroy(graph));
    subject.launch();
    OK(hipStreamSynchronize(subject.stream));
    EXPECT_EQ(subject.value, mixed_in(subject.memory)) << after;
    (copied(subject.memory) ? not_made : made) = true;
    EXPECT_GT(subject.bind_until_home(), 0) << "it is tried again";
  }
  EXPECT_TRUE(not_made);
  EXPECT_TRUE(made) << "the later calls are behind it";
}

TEST(Home, rule_20_what_may_still_run_is_not_destroyed) {
  if (!stays_at_home()) GTEST_SKIP() << "there is nothing to destroy";
  Subject subject;
  EXPECT_GT(subject.bind_until_home(), 1);
  Memory other(kInOut, 9);
  Gate gate;
  gate.close(subject.stream);
  subject.launch();
  const Since since({"hipGraphExecDestroy"});
  subject.exec.update(noting(subject.stream, other, subject.constant));
  EXPECT_EQ(0, since["hipGraphExecDestroy"]);
  gate.open();
  OK(hipStreamSynchronize(subject.stream));
  subject.exec.update(noting(subject.stream, other, subject.constant));
  EXPECT_EQ(1, since["hipGraphExecDestroy"]);
  EXPECT_EQ(subject.value, mixed_in(subject.memory));
}

TEST(Home, rule_30_buffers_that_take_turns_make_nothing) {
  if (!stays_at_home()) GTEST_SKIP() << "there is nothing to make";
  Subject subject;
  Memory other(kInOut, 9);
  const auto swap = [&](int times) {
    for (int i = 0; i < times; ++i) {
      subject.exec.update(noting(subject.stream, i % 2 == 0 ? other : subject.memory, subject.constant));
      OK(hipGraphLaunch(subject.exec, subject.stream));
      OK(hipStreamSynchronize(subject.stream));
    }
  };
  swap(2);
  {
    const Since since({"hipGraphInstantiate"});
    swap(kMostBindings);
    EXPECT_EQ(0, since["hipGraphInstantiate"]);
  }
  subject.value = mixed_in(subject.memory);
  // Those that stay just long enough are not followed for ever.
  const int bindings = subject.bind_until_home();
  const Since since({"hipGraphInstantiate"});
  constexpr int kRounds = 32;
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i <= bindings; ++i) {
      subject.exec.update(noting(subject.stream, round % 2 == 0 ? other : subject.memory, subject.constant));
      OK(hipStreamSynchronize(subject.stream));
    }
  EXPECT_LE(since["hipGraphInstantiate"], kRounds / 4);
}

// --- memory that is freed ---

/// Binds `graph`(memory) often enough, frees the memory and takes memory again, mostly at the same address.
template <typename Graph>
void freed_and_taken_again(Graph graph) {
  const FreeStream s;
  int again = 0;
  const void* last = nullptr;
  std::unique_ptr<Exec> exec;
  for (int i = 0; i < 30; ++i) {
    Memory memory(kInOut, i);
    again += memory.get() == last ? 1 : 0;
    last = memory.get();
    int value = i;
    for (int k = 0; k < 12; ++k) {
      if (exec == nullptr)
        exec = std::make_unique<Exec>(graph(s, memory));
      else
        exec->update(graph(s, memory));
      OK(hipGraphLaunch(*exec, s));
      value = mixed(value, 13);
    }
    OK(hipStreamSynchronize(s));
    EXPECT_EQ(value, mixed_in(memory)) << i;
  }
  if (std::string(said("CPUHIP_REUSE")) == "once") {
    EXPECT_GT(again, 0);
  }
}

TEST(Home, memory_that_is_freed_and_taken_again) {
  freed_and_taken_again([](hipStream_t s, const Memory& memory) { return noting(s, memory, 13); });
}

TEST(Home, memory_of_copies_that_is_freed_and_taken_again) {
  freed_and_taken_again([](hipStream_t s, const Memory& memory) {
    return capture(s, [&] {
      note_and_mix(s, memory, 13);
      OK(hipMemsetAsync(memory.get(), 0, kNote * sizeof(int), s));
      OK(hipMemcpyAsync(memory.get() + kNote, memory.get() + 2 * kNote, sizeof(int), hipMemcpyDeviceToDevice, s));
    });
  });
}

TEST(Home, nothing_grows) {
  Subject subject;
  Memory other(kInOut, 9);
  const auto execs = [&] {
    EXPECT_EQ(hipSuccess, hipDeviceSynchronize());
    cpuhip_statistics_t now;
    cpuhip_statistics(&now);
    return now.execs;
  };
  const auto stay = [&](const Memory& memory) {
    for (int i = 0; i < kMostBindings; ++i) {
      subject.exec.update(noting(subject.stream, memory, subject.constant));
      EXPECT_EQ(hipSuccess, hipGraphLaunch(subject.exec, subject.stream));
    }
    OK(hipStreamSynchronize(subject.stream));
    subject.exec.update(noting(subject.stream, memory, subject.constant));
  };
  stay(subject.memory);
  stay(other);
  const std::size_t before = execs();
  for (int i = 0; i < 10; ++i) {
    stay(subject.memory);
    stay(other);
  }
  EXPECT_LE(execs(), before + (verified() ? 2 : 0));  // what was compared last goes when it is known complete
}

}  // namespace
}  // namespace captures
