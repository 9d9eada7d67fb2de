#include "shim/graphs/graph_report.h"

#include <algorithm>

#include "shim/capture/capture.h"
#include "shim/graphs/graphs.h"
#include "shim/graphs/passed_calls.h"

namespace graphpool {

GraphTotals graph_totals() noexcept {
  Graphs& all = graphs();
  GraphTotals totals;
  const ExecLimit::Counts limited = all.exec_limit.counts();
  totals.execs_given_back = limited.given_back;
  totals.execs_made_again = limited.made_again;
  const LockGuard guard(g_recordings_lock);
  const Recordings::Counts& counts = all.recordings.counts();
  totals.recordings = all.recordings.all().size();
  totals.recordings_dropped = counts.dropped;
  totals.saved_ns = counts.dropped_saved_ns;
  for (const auto& recording : all.recordings.all()) {
    totals.variants += recording->variants.size();
    totals.saved_ns += saved_ns(*recording);
  }
  totals.captures = counts.captures;
  totals.withheld_captures = counts.withheld_captures;
  totals.refused = g_refusals.sum() + all_captures_left_alone();
  totals.instantiates = all.instantiation.count() + g_passed_instantiates.load();
  totals.instantiates_avoided = all.instantiation.avoided();
  totals.updates = all.updates.count();
  totals.updates_avoided = all.updates.avoided();
  totals.launches = all.launcher.count();
  return totals;
}

std::vector<RecordingReport> recording_reports() {
  const LockGuard guard(g_recordings_lock);
  std::vector<RecordingReport> reports;
  for (const auto& recording : graphs().recordings.all()) reports.push_back(report_of(*recording));
  const auto& dropped = graphs().recordings.dropped();
  reports.insert(reports.end(), dropped.begin(), dropped.end());
  return reports;
}

std::vector<ExecMemory> exec_memory_held() {
  const ExecStore& store = graphs().store;
  const LockGuard guard(g_recordings_lock);
  std::vector<ExecMemory> all;
  for (const int device : store.limits.devices()) {
    const VariantLimits::Held held = store.limits.held(device);
    all.push_back({device, held.bytes, held.peak_bytes});
  }
  return all;
}

Reasons graph_refusals() {
  Reasons all = g_refusals.all();
  for (const std::size_t each : {0, 1}) {
    const char* reason = nullptr;
    const std::uint64_t count = captures_left_alone(each, &reason);
    if (count != 0) all.emplace_back(reason, count);
  }
  return all;
}

Reasons left_to_runtime() {
  Reasons all = g_left_to_runtime.all();
  const auto add = [&all](const char* reason, std::uint64_t times) {
    if (times == 0) return;
    const auto found =
        std::find_if(all.begin(), all.end(), [reason](const auto& each) { return each.first == reason; });
    if (found == all.end())
      all.emplace_back(reason, times);
    else
      found->second += times;
  };
  if (graphs().settings.reuse) {
    add(kUnknownGraphInstantiated, g_passed_instantiates.load());
    add(kUnknownExecUpdated, g_passed_updates.load());
  }
  return all;
}

}  // namespace graphpool
