#include "shim/costs/cost_model.h"

#include <algorithm>

#include "shim/base/units.h"

namespace graphpool {
namespace {

struct CostRow {
  const char* name;
  double ns;
};

// In the order of Cost, in nanoseconds. Measured on one H200 with CUDA 13, with 1000 nodes of small kernels. To build a
// node is taken to cost as much as to capture it.
constexpr std::array<CostRow, kCosts> kBuiltIn{{{"capture_node", 897},
                                                {"build_node", 897},
                                                {"instantiate_node", 2024},
                                                {"first_launch_node", 953},
                                                {"patch_node", 580},
                                                {"copy", 3800},
                                                {"copy_kib", 0.49}}};
constexpr double kHysteresis = 1.25;
/// A new measurement counts as one in so many; a lower one as one in kAverageOverLower.
constexpr std::uint64_t kAverageOver = 8, kAverageOverLower = 2;
/// A measurement is cut off at so many times the known cost: the thread was interrupted.
constexpr std::uint64_t kMostTimes = 4;
/// The same for a first measurement against the built-in figure. Copy rates of devices differ more than calls do.
constexpr double most_times_built_in(Cost cost) noexcept { return cost == Cost::kCopyKiB ? 64 : kMostTimes; }

std::uint64_t averaged(std::uint64_t before, std::uint64_t now) noexcept {
  if (before != 0) now = std::min(now, kMostTimes * before);
  const std::uint64_t over = now < before ? kAverageOverLower : kAverageOver;
  return before - before / over + now / over;
}

}  // namespace

const char* way_name(Way way) noexcept {
  constexpr std::array<const char*, kWays> kNames{"same", "patch", "new_exec", "one_shot", "stage", "native_update"};
  return kNames[static_cast<std::size_t>(way)];
}

const char* way_in_words(Way way) noexcept {
  constexpr std::array<const char*, kWays> kWords{"the same exec",       "a patched exec", "a new exec",
                                                  "an exec for one use", "a staged exec",  "the program's own update"};
  return kWords[static_cast<std::size_t>(way)];
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
  const auto most = static_cast<std::uint64_t>(most_times_built_in(cost) * kBuiltIn[index(cost)].ns * 1000);
  kept.store(measured(cost) ? averaged(before, each) : std::min(each, most), std::memory_order_relaxed);
  counts_[index(cost)].store(1, std::memory_order_relaxed);
}

double CostModel::exec_ns(std::size_t nodes, const ExecCosts* measured) const noexcept {
  double sum = 0;
  for (const Cost cost : {Cost::kBuildNode, Cost::kInstantiateNode, Cost::kFirstLaunchNode}) {
    const double known = measured == nullptr ? 0 : measured->ns(cost);
    sum += known != 0 ? known : static_cast<double>(nodes) * ns(cost);
  }
  return sum;
}

double CostModel::patch_ns(double exec_ns, std::size_t differing, std::size_t budget) const noexcept {
  const double share = exec_ns / static_cast<double>(std::max<std::size_t>(budget, 1));
  return static_cast<double>(differing) * (ns(Cost::kPatchNode) + share);
}

double CostModel::staged_ns(double launches, std::size_t copies, std::uint64_t bytes,
                            std::size_t patched) const noexcept {
  const double launch = static_cast<double>(copies) * ns(Cost::kCopy) +
                        static_cast<double>(bytes) / static_cast<double>(kKiB) * ns(Cost::kCopyKiB);
  return launches * launch + static_cast<double>(patched) * ns(Cost::kPatchNode);
}

std::size_t ExecCosts::part(Cost cost) noexcept {
  switch (cost) {
    case Cost::kBuildNode:
      return 0;
    case Cost::kInstantiateNode:
      return 1;
    case Cost::kFirstLaunchNode:
      return 2;
    default:
      return kParts;
  }
}

void ExecCosts::observe(Cost cost, std::chrono::nanoseconds took) noexcept {
  if (part(cost) == kParts || took.count() <= 0) return;
  std::atomic<std::uint64_t>& kept = ns_[part(cost)];
  const auto now = static_cast<std::uint64_t>(took.count());
  const std::uint64_t before = kept.load(std::memory_order_relaxed);
  kept.store(before == 0 ? now : averaged(before, now), std::memory_order_relaxed);
}

double ExecCosts::ns(Cost cost) const noexcept {
  return part(cost) == kParts ? 0 : static_cast<double>(ns_[part(cost)].load(std::memory_order_relaxed));
}

Way CostModel::choose(const Question& question) const noexcept {
  const Way otherwise = choose_without_update(question);
  if (!question.update || otherwise == Way::kPatch) return otherwise;
  if (otherwise == Way::kOneShot) return Way::kUpdate;
  const double patch = patch_ns(question.exec_ns, question.differing, question.budget);
  const bool pays = question.seen && question.spent_ns + patch >= kSpentBeforeExec * question.exec_ns;
  if (!question.exact) {
    const bool may_change = question.strategy == Strategy::kAuto || question.strategy == Strategy::kNewExec;
    const bool wanted = question.seen && !question.is_volatile && (pays || question.spoils);
    return question.kernels && may_change && wanted ? Way::kNewExec : Way::kUpdate;
  }
  if (question.strategy == Strategy::kNewExec || question.patchable) return otherwise;
  if (question.strategy == Strategy::kPatch) return Way::kUpdate;
  // An exec could be patched if it did not run just now, or were not worn out.
  return question.kept < kExecsBeforePatching || pays ? Way::kNewExec : Way::kUpdate;
}

Way CostModel::choose_without_update(const Question& question) const noexcept {
  const Way made = question.is_volatile ? Way::kOneShot : Way::kNewExec;
  switch (question.strategy) {
    case Strategy::kNewExec:
      return Way::kNewExec;
    case Strategy::kOneShot:
      return Way::kOneShot;
    case Strategy::kPatch:
      return question.patchable ? Way::kPatch : made;
    case Strategy::kAuto:
      break;
  }
  if (!question.patchable) return question.base ? made : Way::kNewExec;
  const double exec = question.exec_ns;
  const double patch = patch_ns(exec, question.differing, question.budget);
  if (question.passed_over >= kPatchAgainAfter) return Way::kPatch;
  const bool wanted = question.is_volatile || question.kept >= kExecsBeforePatching;
  if (wanted && !measured(Cost::kPatchNode) && patch <= kMostTimes * exec) return Way::kPatch;
  if (question.is_volatile) return patch <= exec ? Way::kPatch : Way::kOneShot;
  if (question.kept < kExecsBeforePatching) return Way::kNewExec;
  if (question.seen && question.spent_ns + patch >= kSpentBeforeExec * exec) return Way::kNewExec;
  const double margin = question.last == Way::kPatch ? 1 / kHysteresis : kHysteresis;
  return patch * margin <= exec ? Way::kPatch : Way::kNewExec;
}

CostModel& costs() noexcept {
  static constinit CostModel instance;
  return instance;
}

}  // namespace graphpool
