#include "shim/graph/cost_model.h"

#include <algorithm>

namespace graphpool {
namespace {

struct CostRow {
  const char* name;
  double ns;
};

// In the order of Cost. Measured on one H200 with CUDA 13 and small kernels, 1000 nodes, until the program's own calls
// say better; building a node is taken for as dear as capturing it.
constexpr std::array<CostRow, kCosts> kBuiltIn{{{"capture_node", 897},
                                                {"build_node", 897},
                                                {"instantiate_node", 2024},
                                                {"first_launch_node", 953},
                                                {"patch_node", 580},
                                                {"copy", 3800},
                                                {"copy_kib", 0.49}}};
constexpr double kHysteresis = 1.25;
/// The weight of a new measurement: one in so many.
constexpr std::uint64_t kAverageOver = 8;

}  // namespace

const char* way_name(Way way) noexcept {
  constexpr std::array<const char*, kWays> kNames{"same", "patch", "variant", "record", "stage"};
  return kNames[static_cast<std::size_t>(way)];
}

const char* cost_name(Cost cost) noexcept { return kBuiltIn[static_cast<std::size_t>(cost)].name; }

double CostModel::ns(Cost cost) const noexcept {
  if (!measured(cost)) return kBuiltIn[index(cost)].ns;
  return static_cast<double>(ps_[index(cost)].load(std::memory_order_relaxed)) / 1000;
}

void CostModel::observe(Cost cost, std::chrono::nanoseconds took, std::size_t operations) noexcept {
  if (operations == 0 || took.count() < 0) return;
  const std::uint64_t each = static_cast<std::uint64_t>(took.count()) * 1000 / operations;
  std::atomic<std::uint64_t>& kept = ps_[index(cost)];
  // Two threads may lose one measurement to each other.
  const std::uint64_t before = kept.load(std::memory_order_relaxed);
  kept.store(measured(cost) ? before - before / kAverageOver + each / kAverageOver : each, std::memory_order_relaxed);
  counts_[index(cost)].store(1, std::memory_order_relaxed);
}

double CostModel::exec_ns(std::size_t nodes) const noexcept {
  return static_cast<double>(nodes) * (ns(Cost::kBuildNode) + ns(Cost::kInstantiateNode) + ns(Cost::kFirstLaunchNode));
}

double CostModel::patch_ns(std::size_t nodes, std::size_t differing, std::size_t budget) const noexcept {
  const double share = exec_ns(nodes) / static_cast<double>(std::max<std::size_t>(budget, 1));
  return static_cast<double>(differing) * (ns(Cost::kPatchNode) + share);
}

Way CostModel::choose(const Question& question) const noexcept {
  const Way made = question.is_volatile ? Way::kRecord : Way::kVariant;
  switch (question.strategy) {
    case Strategy::kVariant:
      return Way::kVariant;
    case Strategy::kRecord:
      return Way::kRecord;
    case Strategy::kPatch:
      return question.patchable ? Way::kPatch : made;
    case Strategy::kAuto:
      break;
  }
  if (!question.patchable) return made;
  const double exec = exec_ns(question.nodes);
  const double patch = patch_ns(question.nodes, question.differing, question.budget);
  if (question.is_volatile) return patch <= exec ? Way::kPatch : Way::kRecord;
  if (question.kept < kExecsBeforePatching) return Way::kVariant;
  if (question.seen && question.spent_ns + patch >= exec) return Way::kVariant;
  const double margin = question.last == Way::kPatch ? 1 / kHysteresis : kHysteresis;
  return patch * margin <= exec ? Way::kPatch : Way::kVariant;
}

CostModel& costs() noexcept {
  static constinit CostModel instance;
  return instance;
}

}  // namespace graphpool
