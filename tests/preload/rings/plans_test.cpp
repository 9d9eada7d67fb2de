// One sequence over buffers of different rules: each binding is staged by the rules that its own buffers fall under.
// The graphs write down where they have run (rings.h).
#include "rings.h"

namespace captures {
namespace {

constexpr int kUnstaged = 101;  ///< ints of a buffer that no rule stages
constexpr int kWorkedOn = 50;   ///< ints that the graphs of these tests work on

/// Whether launches over buffers of a rule show that they ran in slots.
bool shows() { return under_library() && !verified(); }

/// Mixes a part of the memory and notes where. `times`: for a sequence of its own.
hipGraph_t mixing_part(hipStream_t stream, const Memory& memory, int times) {
  return capture(stream, [&] {
    for (int i = 0; i < times; ++i) OK(kernels().mix(stream, memory.get() + kNote, kWorkedOn, i));
    if (!verified()) {
      OK(write_note(stream, memory.get()));
    }
  });
}
int mixed_times(int value, int times) {
  for (int i = 0; i < times; ++i) value = mixed(value, i);
  return value;
}

/// Binds an exec to each of the memories in turn, several times, and looks at what is where.
void bind_in_turn(const std::vector<int>& counts, int times) {
  const FreeStream s;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<int> values;
  for (const int count : counts) {
    memories.push_back(std::make_unique<Memory>(count, count));
    values.push_back(count);
  }
  std::unique_ptr<Exec> exec;
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const hipGraph_t graph = mixing_part(s, *memories[i], times);
      if (exec == nullptr)
        exec = std::make_unique<Exec>(graph);
      else
        exec->update(graph);
      OK(hipGraphLaunch(*exec, s));
      OK(hipStreamSynchronize(s));
      values[i] = mixed_times(values[i], times);
      if (!verified()) {
        EXPECT_EQ(shows() && counts[i] != kUnstaged, copied(*memories[i])) << counts[i] << " ints, round " << round;
      }
      const std::vector<int> ints = memories[i]->ints();
      for (int k = kNote; k < counts[i]; ++k)
        EXPECT_EQ(k < kNote + kWorkedOn ? values[i] : counts[i], ints[static_cast<std::size_t>(k)]) << k;
    }
}

TEST(Plans, a_sequence_recorded_over_unstaged_buffers_is_staged_over_others) { bind_in_turn({kUnstaged, kInOut}, 2); }

TEST(Plans, a_sequence_recorded_over_staged_buffers_is_not_over_others) { bind_in_turn({kInOut, kUnstaged}, 3); }

TEST(Plans, buffers_of_other_sizes_and_rules) { bind_in_turn({kInOut, kOut, kUnstaged, kRange}, 4); }

TEST(Plans, two_rules_for_one_size_with_different_roles) {
  if (std::string(said("CPUHIP_FAIL")).find("hipExtMalloc") != std::string::npos) GTEST_SKIP() << "no such memory";
  const FreeStream s;
  Memory kept(kInOut, 1), temporary(kInOut, 2, true), out(kInOut, 0);
  int expected = 0, constant = 40;
  std::unique_ptr<Exec> exec;
  for (const bool keeps : {false, true, false, true, true}) {
    const Memory& used = keeps ? kept : temporary;
    ++constant;
    const hipGraph_t graph = capture(s, [&] {
      OK(hipMemsetAsync(used.get(), 0, used.bytes(), s));
      OK(kernels().mix(s, used.get(), kInOut, constant));
      OK(kernels().join(s, out.get(), used.get(), kInOut));
    });
    if (exec == nullptr)
      exec = std::make_unique<Exec>(graph);
    else
      exec->update(graph);
    OK(hipGraphLaunch(*exec, s));
    OK(hipStreamSynchronize(s));
    expected = joined(expected, constant);
    EXPECT_EQ(expected, out.value());
    if (keeps) {
      EXPECT_EQ(constant, kept.value()) << "the program may look at it";
    }
  }
}

TEST(Plans, slots_that_have_worked_on_the_buffers_are_taken_first) {
  const FreeStream s;
  Memory first(kInOut, 1), second(kInOut, 2);
  const auto graph = [&](const Memory& memory) {
    return capture(s, [&] { OK(kernels().mix(s, memory.get(), kInOut, 4321)); });
  };
  {
    const Exec a(graph(first)), b(graph(second));
    for (const hipGraphExec_t exec : {static_cast<hipGraphExec_t>(a), static_cast<hipGraphExec_t>(b)})
      OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
  }
  const Since since({"hipGraphExecMemcpyNodeSetParams1D", "hipMemcpyAsync"});
  for (const Memory* const memory : {&second, &first, &second}) {
    const Exec exec(graph(*memory));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
  }
  EXPECT_EQ(0, since["hipGraphExecMemcpyNodeSetParams1D"]);
  if (!verified()) {
    EXPECT_EQ(0, since["hipMemcpyAsync"]);
  }
  EXPECT_EQ(mixed(mixed(1, 4321), 4321), first.value());
  EXPECT_EQ(mixed(mixed(mixed(2, 4321), 4321), 4321), second.value());
}

/// More choices of rules than a recording keeps plans for.
class Choices {
 public:
  Choices() {
    for (const int count : {kInOut, kOut, kRange}) first_.push_back(std::make_unique<Memory>(count, count));
    for (const int count : {kIn, kUnstaged, kInOut}) second_.push_back(std::make_unique<Memory>(count, 7 + count));
    for (const auto& memory : first_) values_.push_back(memory->ints().back());
  }
  std::size_t count() const { return first_.size() * second_.size(); }
  const Memory& first(std::size_t i) const { return *first_[i % first_.size()]; }
  const Memory& second(std::size_t i) const { return *second_[i / first_.size()]; }
  hipGraph_t graph(hipStream_t s, std::size_t i) const {
    return capture(s, [&] {
      OK(kernels().join(s, first(i).get() + kNote, second(i).get(), kWorkedOn));
      if (!verified()) {
        OK(write_note(s, first(i).get()));
      }
    });
  }
  /// It was launched with this one.
  void launched(std::size_t i) {
    int& value = values_[i % first_.size()];
    value = joined(value, second(i).ints().back());
    EXPECT_EQ(value, first(i).ints()[kNote]) << "choice " << i;
  }

 private:
  std::vector<std::unique_ptr<Memory>> first_, second_;
  std::vector<int> values_;
};

TEST(Plans, rule_30_more_choices_of_rules_than_are_kept) {
  const FreeStream s;
  Choices choices;
  for (int round = 0; round < 3; ++round)
    for (std::size_t i = 0; i < choices.count(); ++i) {
      const Exec exec(choices.graph(s, i));
      OK(hipGraphLaunch(exec, s));
      OK(hipStreamSynchronize(s));
      choices.launched(i);
      if (!verified()) {
        EXPECT_EQ(shows(), copied(choices.first(i))) << "choice " << i;
      }
    }
}

TEST(Plans, rule_30_plans_in_use_stay) {
  const FreeStream s;
  Choices choices;
  std::vector<std::unique_ptr<Exec>> execs;
  std::size_t staged = 0;
  for (std::size_t i = 0; i < choices.count(); ++i) execs.push_back(std::make_unique<Exec>(choices.graph(s, i)));
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < choices.count(); ++i) {
      OK(hipGraphLaunch(*execs[i], s));
      OK(hipStreamSynchronize(s));
      choices.launched(i);
      if (!verified()) staged += copied(choices.first(i)) ? 1 : 0;
    }
  if (!shows()) return;
  EXPECT_GT(staged, 0u);
  EXPECT_LT(staged, 2 * choices.count()) << "not for so many at a time";
  // Those that have no plan get one once there is room.
  execs.clear();
  const Exec again(choices.graph(s, choices.count() - 1));
  OK(hipGraphLaunch(again, s));
  OK(hipStreamSynchronize(s));
  EXPECT_TRUE(copied(choices.first(choices.count() - 1)));
}

}  // namespace
}  // namespace captures
