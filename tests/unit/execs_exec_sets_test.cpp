// Which bindings an exec is launched with come back, and what is only noted.
#include <gtest/gtest.h>

#include <memory>

#include "shim/execs/exec_sets.h"

namespace graphpool {
namespace {

/// Operations of one word each, and their exec.
class Exec {
 public:
  explicit Exec(std::size_t operations) {
    for (std::size_t i = 0; i < operations; ++i) {
      Operation operation;
      operation.signature.kind = OperationKind::kHost;
      operation.signature.payload_bytes = sizeof(std::uint64_t);
      operation.payload_offset = static_cast<std::uint32_t>(binding_.size());
      operations_.push_back(operation);
      const HostPayload none{0};
      std::memcpy(add_payload(binding_, sizeof none), &none, sizeof none);
    }
    sets = std::make_unique<ExecSets>(operations_, binding_, true);
  }
  ExecSets::Print change(std::uint32_t index, std::uint64_t to) const {
    return ExecSets::change(index, at(index), reinterpret_cast<const std::byte*>(&to), sizeof to);
  }
  void set(std::uint32_t index, std::uint64_t to) {
    sets->set(change(index, to));
    std::memcpy(binding_.data() + operations_[index].payload_offset, &to, sizeof to);
  }
  std::unique_ptr<ExecSets> sets;

 private:
  const std::byte* at(std::uint32_t index) const { return binding_.begin() + operations_[index].payload_offset; }
  std::vector<Operation> operations_;
  Binding binding_;
};

TEST(ExecSets, a_binding_has_an_exec_of_its_own_with_its_second_return) {
  Exec exec(2);
  const auto launch_with = [&](std::uint64_t value) {
    exec.set(0, value);
    exec.set(1, value);
    exec.sets->launched();
  };
  launch_with(1);
  EXPECT_FALSE(exec.sets->may_note());
  launch_with(0);
  EXPECT_TRUE(exec.sets->may_note());
  launch_with(1);
  exec.set(0, 0);
  EXPECT_FALSE(exec.sets->wants_own(0)) << "what lies between two bindings is none";
  EXPECT_TRUE(exec.sets->wants_own(exec.change(1, 0)));
  EXPECT_FALSE(exec.sets->wants_own(exec.change(1, 7)));
}

TEST(ExecSets, launches_without_a_change_are_no_returns) {
  Exec exec(1);
  for (int i = 0; i < 5; ++i) exec.sets->launched();
  EXPECT_FALSE(exec.sets->may_note());
}

TEST(ExecSets, rule_30_of_more_bindings_than_are_remembered_none_comes_back) {
  Exec exec(1);
  for (std::uint64_t i = 0; i < 4 * (ExecSets::kRemembered + 1); ++i) {
    exec.set(0, i % (ExecSets::kRemembered + 1));
    exec.sets->launched();
  }
  EXPECT_FALSE(exec.sets->may_note());
}

TEST(ExecSets, rule_30_execs_that_are_gone_when_they_are_wanted_are_made_no_more) {
  Exec exec(1);
  for (std::uint64_t i = 0; i < 4; ++i) {
    exec.set(0, i % 2);
    exec.sets->launched();
  }
  for (std::uint32_t i = 0; i <= ExecSets::kMostLost + 1; ++i) {
    EXPECT_TRUE(exec.sets->may_note()) << i;
    exec.sets->own_made();
  }
  EXPECT_FALSE(exec.sets->may_note());
}

TEST(ExecSets, what_is_noted_is_noted_once) {
  Exec exec(3);
  for (const std::uint32_t index : {1u, 2u, 1u}) exec.sets->note(index);
  EXPECT_EQ((std::vector<std::uint32_t>{1, 2}), exec.sets->noted());
  exec.sets->given(1);
  EXPECT_EQ((std::vector<std::uint32_t>{2}), exec.sets->noted());
  exec.sets->all_given();
  EXPECT_TRUE(exec.sets->noted().empty());
  EXPECT_FALSE(exec.sets->accepts_child(1));
  exec.sets->accept_child(1);
  EXPECT_TRUE(exec.sets->accepts_child(1));
}

}  // namespace
}  // namespace graphpool
