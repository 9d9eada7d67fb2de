#include "shim/execs/stage_plan_table.h"

#include <utility>

namespace graphpool {
namespace {

bool is_by(const Variant& variant, const StagePlans& plans) noexcept {
  return variant.plan != nullptr &&
         (variant.plan.get() == plans.always.get() || variant.plan.get() == plans.open.get());
}

/// Whether an exec works by the plans, or a thread serves a binding by them now: then others than the table and free
/// variants refer to them.
bool are_used(const Recording& recording, const std::shared_ptr<StagePlans>& plans) noexcept
    REQUIRES(g_recordings_lock) {
  long references = 1;
  for (const auto& variant : recording.variants) {
    if (!is_by(*variant, *plans)) continue;
    if (variant->owner() != nullptr) return true;
    ++references;
  }
  return plans.use_count() > references;
}

}  // namespace

void StagePlanTable::note_not_staged(Recording& recording, const char* reason) noexcept {
  const LockGuard guard(g_recordings_lock);
  recording.not_staged = reason;
}

/// Makes room for one pair of plans. Returns false if all are in use.
bool StagePlanTable::make_room(Recording& recording) {
  if (recording.stage_plans.size() < Recording::kMostStagePlans) return true;
  auto oldest = recording.stage_plans.end();
  for (auto plans = recording.stage_plans.begin(); plans != recording.stage_plans.end(); ++plans)
    if (!are_used(recording, *plans) &&
        (oldest == recording.stage_plans.end() || (*plans)->last_used < (*oldest)->last_used))
      oldest = plans;
  if (oldest == recording.stage_plans.end()) return false;
  for (const auto& variant : recording.variants)
    if (is_by(*variant, **oldest)) variant->keep_no_longer();
  recording.stage_plans.erase(oldest);
  return true;
}

StagePlanTable::Plans StagePlanTable::find(const Recording& recording, const std::vector<std::uint32_t>& rules) {
  for (const auto& plans : recording.stage_plans) {
    if (plans->rules != rules) continue;
    plans->last_used = ++clock_;
    return plans;
  }
  return nullptr;
}

StagePlanTable::Plans StagePlanTable::plans_for(Recording& recording, const Binding& binding) {
  std::vector<std::uint32_t> rules;
  if (!staging_rules(recording.operations, binding, &rules)) return nullptr;
  const char* reason = why_not_staged(recording.operations, binding);
  if (reason == nullptr && recording.communicates()) reason = kCommunicates;
  if (reason != nullptr) {
    note_not_staged(recording, reason);
    return nullptr;
  }
  const auto made = std::make_shared<StagePlans>();
  made->rules = std::move(rules);
  {
    const LockGuard guard(g_recordings_lock);
    if (Plans found = find(recording, made->rules)) return found;
  }
  made->always = StagePlan::make(recording.operations, binding, false);
  made->open = StagePlan::make(recording.operations, binding, true);
  if (made->open != nullptr && !made->open->open()) made->open.reset();
  const LockGuard guard(g_recordings_lock);
  if (Plans found = find(recording, made->rules)) return found;
  if (!make_room(recording)) {
    recording.not_staged = "other rules have all its slots";
    return nullptr;
  }
  made->last_used = ++clock_;
  recording.stage_plans.push_back(made);
  return made;
}

}  // namespace graphpool
