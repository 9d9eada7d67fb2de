#include "shim/costs/step_costs.h"

#include <algorithm>
#include <utility>

#include "shim/base/log.h"

namespace graphpool {

constinit thread_local ThreadAhead t_ahead __attribute__((tls_model("initial-exec"))){};
constinit thread_local ThreadStep t_step __attribute__((tls_model("initial-exec"))){};

std::uint64_t StepCosts::Arm::median() const noexcept {
  std::array<std::uint64_t, kMeasured> sorted = ticks;
  std::sort(sorted.begin(), sorted.end());
  return sorted[kMeasured / 2];
}

/// Takes the decision back: captures are compared, and a trial begins after so many that matched.
void StepCosts::watch(Entry& entry, std::uint32_t captures) noexcept {
  entry.phase = Phase::kWatch;
  entry.follow = true;
  entry.left = captures;
  entry.stands = 0;
  entry.operations = 0;
  entry.dearer = 0;
  entry.followed_ticks = entry.alone_ticks = 0;
}

void StepCosts::begin_trial(Entry& entry) noexcept {
  entry.phase = Phase::kFollowed;
  ++entry.trial;
  entry.operations = 0;
  entry.followed = entry.alone = {};
}

/// How many operations a capture may have to count as being of about the same size.
static constexpr std::uint32_t twice(std::uint32_t operations) noexcept { return 2 * operations + 4; }

StepCosts::Step StepCosts::begins(const void* place) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (entry.phase == Phase::kWatch && entry.left == 0) begin_trial(entry);
  if (entry.phase == Phase::kFollowed && entry.followed.begun == kArm) entry.phase = Phase::kAlone;
  // The trial has no decision yet: a step of another thread has not ended, and perhaps never will.
  if (entry.phase == Phase::kAlone && entry.alone.begun == kArm) watch(entry, kFirstTrial);
  const std::uint32_t most = twice(entry.operations);
  switch (entry.phase) {
    case Phase::kFollowed:
      ++entry.followed.begun;
      return {true, true, entry.trial, ~0u};
    case Phase::kAlone:
      ++entry.alone.begun;
      return {false, true, entry.trial, most};
    case Phase::kWatch:
      break;
  }
  ++entry.since;
  if (!entry.follow) {
    const std::uint32_t ahead = std::min(--entry.left, kAhead);
    entry.left -= ahead;
    entry.since += ahead;
    return {false, false, 0, most, ahead};
  }
  return {true, entry.followed_ticks != 0 && entry.since % kSample == 0, 0, ~0u};
}

void StepCosts::ended(const void* place, bool matched, std::uint32_t operations, std::uint32_t forks) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  const bool large = operations > kMostOperations;
  if (entry.phase == Phase::kWatch) {
    if (entry.follow && matched && (!large || forks > operations))
      entry.left -= std::min(entry.left, 1 + forks / kForks);
    return;
  }
  const auto [less, more] = std::minmax({entry.operations != 0 ? entry.operations : operations, operations});
  if (!matched || (more > kMostOperations && more > twice(less))) {
    // If the place was left alone before, it has only begun something new.
    const bool new_there = !matched && entry.stands != 0 && !entry.follow;
    watch(entry, new_there ? kLeastBetween : kFirstTrial);
  } else {
    entry.operations = more;
  }
}

void StepCosts::served_anew(const void* place, std::uint32_t operations) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (entry.phase == Phase::kWatch && entry.follow) entry.left -= std::min(entry.left, 1 + operations / kOperations);
}

void StepCosts::larger_alone(const void* place) noexcept {
  const LockGuard guard(lock_);
  watch(places_.entry(place), kLeastBetween);
}

StepCosts::Verdict StepCosts::took(const void* place, const Step& step, std::uint64_t ticks) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (step.trial == 0) {
    if (entry.phase != Phase::kWatch || !entry.follow || entry.followed_ticks == 0) return {};
    const double limit =
        std::max(kDearer * static_cast<double>(entry.followed_ticks), static_cast<double>(entry.alone_ticks));
    entry.dearer = static_cast<double>(ticks) > limit ? entry.dearer + 1 : 0;
    if (entry.dearer >= 2 && entry.since >= kLeastBetween) entry.left = 0;
    return {};
  }
  if (entry.phase == Phase::kWatch || step.trial != entry.trial) return {};
  Arm& arm = step.follow ? entry.followed : entry.alone;
  if (arm.taken++ >= kWarmUp && arm.taken <= kArm) arm.ticks[arm.taken - 1 - kWarmUp] = ticks;
  arm.least = std::min(arm.least, ticks);
  if (step.follow && arm.taken == kArm) return {.leaves_alone = entry.operations > kMostOperations};
  if (entry.followed.taken < kArm || entry.alone.taken < kFew) return {};
  if (entry.alone.taken >= kArm) return decide(entry, entry.alone.median());
  const bool far = static_cast<double>(entry.alone.least) > kFar * static_cast<double>(entry.followed.median());
  return entry.alone.taken == kFew && far ? decide(entry, entry.alone.least) : Verdict{};
}

StepCosts::Verdict StepCosts::decide(Entry& entry, std::uint64_t alone_ticks) noexcept {
  const std::uint64_t followed = entry.followed.median(), alone = std::max<std::uint64_t>(alone_ticks, 1);
  const double ratio = static_cast<double>(followed) / static_cast<double>(alone);
  const bool follow = ratio <= kMostToFollow;
  const bool again = entry.stands != 0 && follow == entry.follow;
  const std::uint32_t longest = follow ? kLongestStay : kLongestPause;
  std::uint32_t stands = again ? std::min(2 * entry.stands, longest) : follow ? kFirstStay : kFirstPause;
  if (follow && ratio < 1) {
    const double saved = kSteps * entry.alone.taken * (1 / std::max(ratio, 1e-3) - 1);
    stands = std::max(stands, static_cast<std::uint32_t>(std::min<double>(saved, longest)));
  }
  entry.phase = Phase::kWatch;
  entry.follow = follow;
  entry.stands = stands;
  entry.left = entry.stands;
  entry.since = 0;
  entry.dearer = 0;
  entry.followed_ticks = followed;
  entry.alone_ticks = alone;
  return {true, follow, ratio, !follow};
}

StepCosts& step_costs() noexcept {
  static constinit StepCosts instance;
  return instance;
}

const void* tell_step() noexcept {
  const ThreadStep ended = std::exchange(t_step, {});
  if (ended.served_anew != 0) step_costs().served_anew(ended.place, ended.served_anew);
  if (!ended.complete || !ended.timed) return nullptr;
  const StepCosts::Verdict verdict = step_costs().took(ended.place, ended.step, ended.ticks);
  if (verdict.reached)
    log_info("comparing the captures that begin at %p costs %.2f times as much as leaving them alone: they are %s",
             ended.place, verdict.ratio, verdict.follow ? "compared" : "left alone for a while");
  return verdict.leaves_alone ? ended.place : nullptr;
}

}  // namespace graphpool
