#include "shim/report/samples.h"

#include <algorithm>

namespace graphpool {

void Samples::drop_every_second() {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < samples_.size(); i += 2) samples_[kept++] = samples_[i];
  samples_.resize(kept);
  for (auto& [graph, course] : courses_) {
    std::vector<Row> rows;
    for (const Row& row : course.rows) {
      const std::size_t sample = row.sample / 2;  // launches of a sample that is dropped belong to the next one
      if (rows.empty() || rows.back().sample != sample) rows.push_back({sample, {}});
      for (std::size_t way = 0; way < kWays; ++way) rows.back().by_way[way] += row.by_way[way];
    }
    course.rows = std::move(rows);
  }
}

void Samples::forget_others(std::span<const GraphLaunches> graphs) {
  std::erase_if(courses_, [graphs](const auto& course) {
    return std::none_of(graphs.begin(), graphs.end(),
                        [&course](const GraphLaunches& each) { return each.graph == course.first; });
  });
}

void Samples::follow(const GraphLaunches& graph) {
  const auto [found, added] = courses_.try_emplace(graph.graph);
  Course& course = found->second;
  if (added && was_full_) {  // when it was launched is not known
    course.before = graph.by_way;
    return;
  }
  Row row{samples_.size() - 1, {}};
  for (std::size_t way = 0; way < kWays; ++way) row.by_way[way] = graph.by_way[way] - course.before[way];
  course.before = graph.by_way;
  if (row.by_way != LaunchesByWay{}) course.rows.push_back(row);
}

void Samples::take(const Sample& sample, std::span<const GraphLaunches> graphs) {
  if (samples_.size() == kMost) drop_every_second();
  samples_.push_back(sample);
  forget_others(graphs);
  bool full = false;
  for (const GraphLaunches& graph : graphs) {
    if (graph.by_way == LaunchesByWay{}) continue;
    const bool room = courses_.size() < kMostGraphs || courses_.contains(graph.graph);
    if (room) follow(graph);
    full = full || !room;
  }
  was_full_ = full;
}

void Samples::write(JsonWriter& json) const {
  json.open_array();
  for (const Sample& sample : samples_) {
    json.open_object().key("ms").value(sample.ms).key("captures").value(sample.captures);
    json.key("captures_served").value(sample.captures_served).key("launches").value(sample.launches);
    json.key("kept_bytes").value(sample.kept_bytes).key("launches_by_way").open_object();
    for (std::size_t way = 0; way < kWays; ++way) json.key(way_name(static_cast<Way>(way))).value(sample.by_way[way]);
    json.close_object().close_object();
  }
  json.close_array();
}

void Samples::write_graph(JsonWriter& json, std::uint64_t graph) const {
  const auto found = courses_.find(graph);
  if (found == courses_.end() || found->second.rows.empty()) return;
  const std::vector<Row>& rows = found->second.rows;
  json.key("launches_over_time").open_object().key("sample").open_array();
  for (const Row& row : rows) json.value(std::uint64_t{row.sample});
  json.close_array();
  for (std::size_t way = 0; way < kWays; ++way) {
    if (std::all_of(rows.begin(), rows.end(), [way](const Row& row) { return row.by_way[way] == 0; })) continue;
    json.key(way_name(static_cast<Way>(way))).open_array();
    for (const Row& row : rows) json.value(row.by_way[way]);
    json.close_array();
  }
  json.close_object();
}

}  // namespace graphpool
