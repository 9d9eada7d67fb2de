// How often captures and graphs were made real, by reason and operation.
#include <gtest/gtest.h>

#include "shim/graphs/materialisations.h"

namespace graphpool {
namespace {

constexpr const char *kOne = "one reason", *kOther = "another one";

Materialisation made(const char* reason, std::uint64_t graph, std::uint32_t operation = 0) {
  Materialisation made;
  made.reason = reason;
  made.graph = graph;
  made.operation = operation;
  made.kind = "fill";
  return made;
}

TEST(Materialisations, are_told_apart_by_reason_and_operation_and_counted) {
  Materialisations all;
  for (const Materialisation& each : {made(kOne, 1, 2), made(kOne, 1, 3), made(kOther, 1, 2), made(kOne, 1, 2)})
    all.note(each);
  ASSERT_EQ(3u, all.all().size());
  EXPECT_EQ(2u, all.all()[0].count);
  EXPECT_EQ(3u, all.all()[1].operation);
  EXPECT_EQ(1u, all.all()[1].count);
  EXPECT_EQ(kOther, all.all()[2].reason);
}

TEST(Materialisations, rule_30_beyond_the_most_reasons_alone_are_told) {
  constexpr std::uint64_t kMany = 1000;
  Materialisations all;
  for (std::uint64_t graph = 1; graph <= kMany; ++graph) {
    all.note(made(kOne, graph));
    all.note(made(kOther, graph));
  }
  std::uint64_t of_one = 0, of_all = 0;
  for (const Materialisation& each : all.all()) {
    of_all += each.count;
    of_one += each.reason == kOne ? each.count : 0;
  }
  EXPECT_EQ(kMany, of_one);
  EXPECT_EQ(2 * kMany, of_all);
  EXPECT_LT(all.all().size(), 300u);
  EXPECT_EQ(0u, all.all().back().graph);
  EXPECT_EQ(nullptr, all.all().back().kind);
}

}  // namespace
}  // namespace graphpool
