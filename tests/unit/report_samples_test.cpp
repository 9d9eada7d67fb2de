#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shim/report/samples.h"

namespace graphpool {
namespace {

/// The first way and the second.
LaunchesByWay ways(std::uint64_t same, std::uint64_t patch = 0) { return {same, patch}; }

Sample sample(std::uint64_t ms) { return {ms, 0, 0, 0, 0, {}}; }

std::string course(const Samples& samples, std::uint64_t graph) {
  JsonWriter json;
  json.open_object();
  samples.write_graph(json, graph);
  json.close_object();
  return json.text();
}

std::string all(const Samples& samples) {
  JsonWriter json;
  samples.write(json);
  return json.text();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++times;
  return times;
}

TEST(Samples, tell_what_was_launched_since_the_sample_before) {
  Samples samples;
  samples.take(sample(0), {});
  samples.take(sample(1000), std::vector<GraphLaunches>{{1, ways(5)}, {2, ways(0)}});
  samples.take(sample(2000), std::vector<GraphLaunches>{{1, ways(5)}, {2, ways(0, 3)}});
  samples.take(sample(3000), std::vector<GraphLaunches>{{1, ways(9, 1)}, {2, ways(0, 3)}});
  EXPECT_EQ(R"({"launches_over_time":{"sample":[1,3],"same":[5,4],"patch":[0,1]}})", course(samples, 1));
  EXPECT_EQ(R"({"launches_over_time":{"sample":[2],"patch":[3]}})", course(samples, 2));
  EXPECT_EQ("{}", course(samples, 3));
  EXPECT_EQ(4, count(all(samples), R"("ms":)"));
}

TEST(Samples, keep_no_graph_that_is_not_told_any_more) {
  Samples samples;
  samples.take(sample(0), std::vector<GraphLaunches>{{1, ways(5)}, {2, ways(5)}});
  samples.take(sample(1), std::vector<GraphLaunches>{{2, ways(6)}});
  EXPECT_EQ("{}", course(samples, 1));
  EXPECT_EQ(R"({"launches_over_time":{"sample":[0,1],"same":[5,1]}})", course(samples, 2));
}

TEST(Samples, lose_no_launch_when_every_second_one_is_dropped) {
  Samples samples;
  for (std::uint64_t i = 0; i < Samples::kMost; ++i)
    samples.take(sample(i), std::vector<GraphLaunches>{{1, ways(i + 1)}, {2, ways(0, i >= 6)}});
  EXPECT_EQ(Samples::kMost, count(all(samples), R"("ms":)"));
  samples.take(sample(1000), std::vector<GraphLaunches>{{1, ways(Samples::kMost)}, {2, ways(0, 1)}});
  const std::string text = all(samples);
  EXPECT_EQ(Samples::kMost / 2 + 1, count(text, R"("ms":)"));
  EXPECT_EQ(0u, text.find(R"([{"ms":1,)"));
  EXPECT_NE(std::string::npos, text.find(R"({"ms":239,)"));
  std::string places, launches;
  for (std::size_t i = 0; i < Samples::kMost / 2; ++i) {
    places += (i == 0 ? "" : ",") + std::to_string(i);
    launches += i == 0 ? "2" : ",2";
  }
  EXPECT_EQ(R"({"launches_over_time":{"sample":[)" + places + R"(],"same":[)" + launches + "]}}", course(samples, 1));
  EXPECT_EQ(R"({"launches_over_time":{"sample":[3],"patch":[1]}})", course(samples, 2));
}

TEST(Samples, have_a_bound_and_invent_nothing_for_graphs_that_find_room_later) {
  Samples samples;
  std::vector<GraphLaunches> graphs;
  for (std::uint64_t i = 1; i <= Samples::kMostGraphs + 1; ++i) graphs.push_back({i, ways(10)});
  samples.take(sample(0), graphs);
  EXPECT_NE("{}", course(samples, Samples::kMostGraphs));
  EXPECT_EQ("{}", course(samples, Samples::kMostGraphs + 1));
  graphs.erase(graphs.begin());
  samples.take(sample(1), graphs);
  EXPECT_EQ("{}", course(samples, Samples::kMostGraphs + 1));
  graphs.back().by_way = ways(12);
  samples.take(sample(2), graphs);
  EXPECT_EQ(R"({"launches_over_time":{"sample":[2],"same":[2]}})", course(samples, Samples::kMostGraphs + 1));
}

}  // namespace
}  // namespace graphpool
