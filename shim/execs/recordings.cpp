#include "shim/execs/recordings.h"

#include <algorithm>
#include <utility>

#include "shim/execs/exec_size.h"
#include "shim/hip/quirks.h"
#include "shim/kernel/functions.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Host memory of a recording: its operations, their nodes in the tree, its binding and the last one (`history`).
std::size_t recording_memory(const std::vector<Operation>& operations) noexcept {
  std::size_t bytes = sizeof(Recording) + operations.size() * (sizeof(Operation) + sizeof(TreeNode)) +
                      2 * std::size_t{operations.back().payload_offset};
  for (const Operation& operation : operations) bytes += operation.after.size() * sizeof operation.after[0];
  return bytes;
}

/// The name of the kernel that an operation launches, kept for good; null: it launches none, or it is not known.
const char* kernel_name(const Signature& signature) noexcept {
  const void* const kernel = kernel_of(signature);
  return kernel == nullptr ? nullptr : functions().find(kernel).name;
}

bool has_operation(const Recording& recording, OperationTest test) {
  return std::any_of(recording.operations.begin(), recording.operations.end(),
                     [&](const Operation& operation) { return holds(operation, test); });
}

/// The device that was current when its graph and each of its nodes were made, and whose streams were captured, child
/// graphs included; -1: there were several.
int home_of(const Recording& recording) noexcept {
  const int home = current_device_of(recording.operations.front().signature);
  const std::int16_t at_home = packed_devices(home, home);
  const bool own =
      std::all_of(recording.operations.begin(), recording.operations.end(), [&](const Operation& operation) {
        return operation.signature.device == at_home || !makes_node(operation.signature.kind);
      });
  const bool children = std::all_of(recording.children.begin(), recording.children.end(),
                                    [home](const Recording* child) { return child->home == home; });
  return own && children ? home : -1;
}

/// Whether some launch of it has not returned yet.
bool is_launching(const Recording& recording) noexcept REQUIRES(g_recordings_lock) {
  return std::any_of(recording.variants.begin(), recording.variants.end(),
                     [](const auto& variant) { return variant->under_way.load(std::memory_order_acquire) != 0; });
}

}  // namespace

TreeWalk Recordings::walk_begins(const Signature& begin) {
  const LockGuard guard(g_recordings_lock);
  TreeNode* const start = tree_.walk_begins(begin);
  return {start, start != nullptr && settings_.verifies() && wants_verification(*start)};
}

void Recordings::walk_ended() noexcept {
  const LockGuard guard(g_recordings_lock);
  tree_.walk_ended();
}

HeldRecording Recordings::hold(const TreeNode& end) noexcept {
  const LockGuard guard(g_recordings_lock);
  Recording* const recording = end.graph.load(std::memory_order_relaxed);
  if (recording != nullptr) ++recording->users;
  return HeldRecording(recording);
}

bool Recordings::tree_over_limit() const noexcept {
  const LockGuard guard(g_recordings_lock);
  return tree_.over_limit(settings_);
}

/// Whether a capture takes the real path is decided here, but its recording is known only at its end. So `first:K` goes
/// on until every recording with this beginning has been verified K times, but for no more captures than that takes if
/// the recordings come in turn.
bool Recordings::wants_verification(TreeNode& begin) {
  std::uint64_t below = 0;
  bool pending = false;
  for (const auto& recording : recordings_) {
    if (recording->operations.front().signature != begin.operation.signature) continue;
    ++below;
    pending = pending || (recording->rebuildable.load(std::memory_order_relaxed) &&
                          settings_.verify.wants(recording->statistics.verified));
  }
  if (below == 0) return false;
  if (settings_.verify.mode == Verify::Mode::kEvery) return settings_.verify.wants(begin.walks++);
  return pending && begin.walks++ < below * settings_.verify.count;
}

/// Throws std::bad_alloc; then there is no new recording.
Recording& Recordings::make(std::vector<Operation> operations, const Binding& binding,
                            std::vector<Recording*> children) {
  auto made = std::make_unique<Recording>();
  Recording& recording = *made;
  recording.operations = std::move(operations);
  recording.children = std::move(children);
  for (const Operation& operation : recording.operations)
    recording.node_count += makes_node(operation.signature.kind) ? 1 : 0;
  recording.number = ++last_number_;
  recording.away = returns_.away_for(recording.operations);
  if (settings_.track_operands)
    for (const Operation& operation : recording.operations)
      recording.kernels.push_back(kernel_name(operation.signature));
  recording.exec_bytes = exec_memory(recording.operations, runtime_version());
  for (const Operation& operation : recording.operations) recording.argument_bytes += argument_memory(operation);
  recording.host_bytes = recording_memory(recording.operations);
  recording.home = home_of(recording);
  recording.fills_rows = has_operation(recording, [](const Operation& each) { return fills_rows(each); });
  recordings_.reserve(recordings_.size() + 1);
  tree_.insert(recording, binding);
  host_bytes_ += recording.host_bytes;
  for (Recording* const child : recording.children) ++child->users;
  recordings_.push_back(std::move(made));
  RecordingTree::publish(recording);
  return recording;
}

Recordings::Recorded Recordings::recorded(std::vector<Operation> operations, const Binding& binding,
                                          std::vector<Recording*> children, std::uint64_t left_alone) {
  ++counts_.captures;
  Recording* const known = tree_.find(operations, binding);
  Recording& recording = known != nullptr ? *known : make(std::move(operations), binding, std::move(children));
  const std::uint64_t away = note_captured(recording, left_alone);
  ++recording.users;
  const bool is_first = ++recording.statistics.captures == 1;
  return {recording, away, is_first, !over_limit()};
}

void Recordings::note_used(Recording& recording) noexcept {
  recording.last_used = ++clock_;
  recording.used_at = returns_.now();
}

std::uint64_t Recordings::note_captured(Recording& recording, std::uint64_t left_alone) noexcept {
  const std::uint64_t now = returns_.captured(left_alone);
  const std::uint64_t away = recording.used_at == 0 ? recording.away : now - recording.used_at;
  returns_.came_back(away);
  note_used(recording);
  return away;
}

std::uint64_t Recordings::withheld(Recording& recording, std::uint64_t left_alone) noexcept {
  ++recording.statistics.captures_avoided;
  ++counts_.withheld_captures;
  return note_captured(recording, left_alone);
}

/// Whether there are more recordings, or larger ones, than may be kept.
bool Recordings::over_limit() const noexcept {
  return recordings_.size() > settings_.most_recordings || host_bytes_ > settings_.most_recording_bytes;
}

/// Returns the place of the recording that is to go, or the number of recordings if none can go: only those that nobody
/// refers to can. Usually the least recently used one goes. If recordings often stay away for longer than that one has,
/// it will probably come back. Then the newest recording that has not come back goes instead, unless the newest is
/// known to come back sooner.
std::size_t Recordings::place_to_drop() const noexcept {
  const std::size_t none = recordings_.size();
  std::size_t oldest = none, newest = none;
  for (std::size_t i = 0; i < recordings_.size(); ++i) {
    const Recording& recording = *recordings_[i];
    if (recording.users != 0 || is_launching(recording)) continue;
    if (oldest == none || recording.last_used < recordings_[oldest]->last_used) oldest = i;
    if (!recording.came_back() && (newest == none || recording.last_used > recordings_[newest]->last_used)) newest = i;
  }
  if (oldest == none || newest == none) return oldest;
  const std::uint64_t unused = returns_.now() - recordings_[oldest]->used_at, away = recordings_[newest]->away;
  return !returns_.often_after(unused) || (away != 0 && away < unused) ? oldest : newest;
}

void Recordings::trim(RetiredVariants* retired) {
  drop_outdated(retired);
  while (over_limit()) {
    const std::size_t place = place_to_drop();
    if (place == recordings_.size()) return;
    const Recording& recording = *recordings_[place];
    returns_.let_go(recording.operations, recording.used_at);
    drop(place, "others were used later, and there were too many", retired);
  }
}

void Recordings::drop_outdated(RetiredVariants* retired) {
  if (outdated_ == 0) return;
  for (std::size_t i = recordings_.size(); i-- > 0;)
    if (recordings_[i]->outdated && recordings_[i]->users == 0 && !is_launching(*recordings_[i]))
      drop(i, "a module with a kernel of it was unloaded", retired);
}

/// Pre-condition: nobody refers to it. Throws std::bad_alloc; then the recording is there still, perhaps without execs.
void Recordings::drop(std::size_t place, const char* reason, RetiredVariants* retired) {
  Recording& recording = *recordings_[place];
  retired->reserve(retired->size() + recording.variants.size() + 1);
  while (!recording.variants.empty()) retired->push_back(store_.remove(recording, recording.variants.back().get()));
  retired->push_back(std::move(recording.first));
  if (settings_.track_operands) {
    if (dropped_.size() == kMostDroppedInReport) dropped_.pop_front();
    dropped_.push_back(report_of(recording));
    dropped_.back().dropped = reason;
  }
  tree_.drop(recording);
  if (recording.outdated) --outdated_;
  ++counts_.dropped;
  counts_.dropped_saved_ns += saved_ns(recording);
  host_bytes_ -= recording.host_bytes;
  for (Recording* const child : recording.children) --child->users;
  recordings_.erase(recordings_.begin() + static_cast<std::ptrdiff_t>(place));
}

void Recordings::outdate(OperationTest test, RetiredVariants* retired) {
  for (const auto& recording : recordings_) {
    if (recording->outdated || !has_operation(*recording, test)) continue;
    recording->outdated = true;
    ++outdated_;
    retired->push_back(std::move(recording->first));
    for (std::size_t i = recording->variants.size(); i-- > 0;) {
      Variant* const variant = recording->variants[i].get();
      if (variant->holder() == Holder::kNobody && variant->under_way.load(std::memory_order_acquire) == 0)
        retired->push_back(store_.remove(*recording, variant));
    }
  }
  drop_outdated(retired);
}

void Recordings::keep_no_variants_of(const void* place) {
  for (const auto& recording : recordings_) {
    if (recording->place != place) continue;
    for (std::size_t i = 0; i < recording->free_variants; ++i) recording->variants[i]->keep_no_longer();
  }
}

}  // namespace graphpool
