#include "shim/execs/recording_report.h"

#include "shim/recording/materialisation.h"

namespace graphpool {
namespace {

void add_kernels(const Recording& recording, RecordingReport* report) {
  for (const char* const kernel : recording.kernels) {
    if (kernel == nullptr) continue;
    if (report->first_kernel == nullptr) report->first_kernel = kernel;
    report->last_kernel = kernel;
  }
}

void add_moved(const Recording& recording, RecordingReport* report) REQUIRES(g_recordings_lock) {
  report->captured_by = recording.captured_by;
  report->captured_at = recording.captured_at;
  report->other_moves = recording.moved.others();
  for (const MovedOperand& operand : recording.moved.operands()) {
    const Signature& signature = recording.operations[operand.operation].signature;
    const bool named = operand.operation < recording.kernels.size();
    report->moved.push_back(
        {operand, kind_name(signature.kind), named ? recording.kernels[operand.operation] : nullptr});
  }
}

void add_variants(const Recording& recording, RecordingReport* report) REQUIRES(g_recordings_lock) {
  report->variants = recording.variants.size();
  for (const auto& variant : recording.variants) {
    report->device_bytes += variant->device_bytes();
    if (variant->ring == nullptr) continue;
    report->slot_sets += variant->ring->sets();
    report->slots += variant->ring->slots();
    report->slot_bytes += variant->ring->slot_bytes();
  }
}

}  // namespace

double saved_ns(const Recording& recording) noexcept {
  const Recording::Statistics& counts = recording.statistics;
  const CostModel& model = costs();
  const auto times = [](std::uint64_t count, double ns) { return static_cast<double>(count) * ns; };
  const std::uint64_t nodes = recording.node_count;
  return times(counts.captures_avoided * nodes, model.ns(Cost::kCaptureNode)) +
         times(counts.instantiates_avoided * nodes,
               model.ns(Cost::kInstantiateNode) + model.ns(Cost::kFirstLaunchNode)) +
         times(counts.updates_avoided * nodes, model.ns(Cost::kPatchNode)) -
         times(counts.instead_of_update, model.exec_ns(nodes, &recording.exec_costs)) -
         times(counts.built_for_update * nodes, model.ns(Cost::kBuildNode)) -
         times(counts.patched_nodes, model.ns(Cost::kPatchNode)) -
         times(counts.staged.bytes / 1024, model.ns(Cost::kCopyKiB));
}

RecordingReport report_of(const Recording& recording) {
  RecordingReport report{};
  report.number = recording.number;
  report.operations = recording.node_count;
  report.host_bytes = recording.host_bytes;
  report.volatile_words = recording.history.volatile_words();
  report.statistics = recording.statistics;
  for (std::size_t i = 0; i < kWays; ++i) report.launches[i] = recording.launches.count(static_cast<Way>(i));
  report.saved_ns = saved_ns(recording);
  report.not_staged = recording.not_staged;
  report.staging_open = recording.staging_open();
  report.staging_chosen = recording.stage_choice.staged();
  report.staging_changes = recording.stage_choice.changes();
  add_kernels(recording, &report);
  add_moved(recording, &report);
  add_variants(recording, &report);
  return report;
}

}  // namespace graphpool
