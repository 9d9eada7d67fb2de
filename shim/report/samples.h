// samples.h: keeps counters over the time of the process: of everything together, and for each graph what served its
// launches.
//
// How: each writing of the report takes one sample of counters that are there anyway, so that no launch does anything
// for it. Where there are kMost samples, every second one is dropped; those left are spread over the whole time.
// Bounds: kMost samples of 88 bytes. Of kMostGraphs graphs at most a row of 56 bytes for each sample in which they were
// launched: 1.7 MB where all were, in all of them.
// Threads: one at a time, under the caller's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "shim/costs/cost_model.h"
#include "shim/report/json.h"

namespace graphpool {

using LaunchesByWay = std::array<std::uint64_t, kWays>;

/// The counters at one moment.
struct Sample {
  std::uint64_t ms, captures, captures_served, launches, kept_bytes;
  LaunchesByWay by_way;
};

/// All launches of one graph so far.
struct GraphLaunches {
  std::uint64_t graph;
  LaunchesByWay by_way;
};

class Samples {
 public:
  static constexpr std::size_t kMost = 240;
  static constexpr std::size_t kMostGraphs = 128;

  /// Adds a sample. Forgets graphs that are not among `graphs` any more. Graphs beyond kMostGraphs are followed from
  /// the sample on in which there is room for them. Throws std::bad_alloc.
  void take(const Sample& sample, std::span<const GraphLaunches> graphs);

  /// The value of `samples`: an array.
  void write(JsonWriter& json) const;
  /// The key `launches_over_time` of one graph; nothing where it was never launched or is not followed.
  void write_graph(JsonWriter& json, std::uint64_t graph) const;

 private:
  /// The launches since the sample before.
  struct Row {
    std::size_t sample;
    LaunchesByWay by_way;
  };
  struct Course {
    LaunchesByWay before;
    std::vector<Row> rows;
  };
  void drop_every_second();
  void forget_others(std::span<const GraphLaunches> graphs);
  void follow(const GraphLaunches& graph);

  std::vector<Sample> samples_;
  std::map<std::uint64_t, Course> courses_;
  bool was_full_ = false;  ///< a graph found no room in the sample before
};

}  // namespace graphpool
