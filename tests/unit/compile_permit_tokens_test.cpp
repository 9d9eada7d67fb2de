// compile_permit_tokens_test.cpp: which token of a jobserver a compilation runs by, and bytes of those who died.
#include <sys/wait.h>

#include <optional>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

class Tokens : public Permits {
 protected:
  Tokens() {
    limits_.most = 8;
    request_.server = {1, 2};
    request_.job = {50, 5};
  }
  Admission take_with(std::uint8_t byte, Permit& permit) {
    PermitRequest request = request_;
    request.byte = byte;
    return table_.try_take(request, limits_, &facts_, permit);
  }
};

TEST_F(Tokens, OneOfAJobRunsByItselfOthersNeedAByte) {
  Permit first, second, other_job;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_FALSE(first.byte.has_value());
  EXPECT_EQ(take(second), Admission::kNoToken);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  EXPECT_EQ(second.byte, 'q');
  request_.job = {51, 5};
  EXPECT_EQ(take(other_job), Admission::kGranted) << "each job has one";
  request_.job = {50, 5};
  table_.give_back(first, {});
  EXPECT_EQ(take(first), Admission::kGranted) << "it came back";
}

TEST_F(Tokens, TheLimitHoldsWithAByteToo) {
  limits_.most = 1;
  Permit first, second;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take(second), Admission::kFull) << "no byte is read for nothing";
  EXPECT_EQ(take_with('q', second), Admission::kFull);
}

TEST_F(Tokens, WithoutAServerNothingIsAsked) {
  request_.server = {};
  Permit permits[3];
  for (Permit& permit : permits) EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Tokens, rule_34_TheByteOfADeadHolderIsKept) {
  Permit first;
  EXPECT_EQ(take(first), Admission::kGranted);
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::process(getpid(), 200, 0);
    Permit permit;
    _exit(take_with('q', permit) == Admission::kGranted ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(table_.take_owed_byte({1, 3}), std::nullopt) << "of another server";
  EXPECT_EQ(table_.take_owed_byte({1, 2}), 'q');
  EXPECT_EQ(table_.take_owed_byte({1, 2}), std::nullopt) << "once";
}

TEST_F(Tokens, AByteThatWasNotWrittenIsKept) {
  Permit first, second;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  table_.give_back(second, {});
  EXPECT_EQ(table_.take_owed_byte({1, 2}), 'q');
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  table_.byte_written(second);
  EXPECT_FALSE(second.byte.has_value());
  table_.give_back(second, {});
  EXPECT_EQ(table_.take_owed_byte({1, 2}), std::nullopt);
}

TEST_F(Tokens, AHolderThatStandsStillLendsItsTokenOn) {
  Permit first, second, third, fourth;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  EXPECT_EQ(take(third), Admission::kNoToken);
  table_.look_at_holders(1);
  FakeMachine::clock_ns += 1'000'000'000;
  table_.look_at_holders(1);
  EXPECT_EQ(take(third), Admission::kGranted) << "the job's own";
  EXPECT_EQ(take(fourth), Admission::kGranted) << "the byte's";
  EXPECT_FALSE(third.byte.has_value() || fourth.byte.has_value()) << "nobody gives it back twice";
  Permit fifth;
  EXPECT_EQ(take(fifth), Admission::kNoToken);
}

}  // namespace
}  // namespace graphpool
