#include "shim/graphs/repeated_launch.h"

#include "shim/hip/restore.h"
#include "shim/streams/stream_state.h"
#include "shim/verify/bounded_wait.h"

namespace graphpool {
namespace {

constexpr const char* kBesideOtherWork = "is launched beside other work; such launches are not compared";
constexpr const char* kNoCopies = "cannot be run twice: no copies of what it names (memory?)";

}  // namespace

/// Addresses that the exec may write to although its binding does not name them.
std::vector<std::uint64_t> RepeatedLaunch::reached() const {
  const LockGuard exec_guard(exec_.lock);
  const LockGuard guard(g_recordings_lock);
  std::vector<std::uint64_t> reached = exec_.variant->reached;
  if (exec_.staged())
    for (const char* const base : exec_.variant->ring->direct_bases())
      reached.push_back(reinterpret_cast<std::uint64_t>(base));
  return reached;
}

/// Returns why the launch cannot be repeated, or null.
const char* RepeatedLaunch::prepare() {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  plan_ = StagePlan::of_all_memory(recording_.operations, found_.binding, reached(), &bases_);
  if (plan_ == nullptr)
    return "cannot be run twice: copies cannot stand for its memory; only its captures are compared";
  if (plan_->device() != exec_.device || calling_device() != exec_.device)
    return "cannot be run twice: it is launched on another device; only its captures are compared";
  if (!may_run_both_ways(recording_.operations, found_.binding, *plan_))
    return "cannot be run twice: it may use memory that it does not name; only its captures are compared";
  if (!wait_until_idle(exec_.device)) return kBesideOtherWork;
  Shadows::free_left();
  return copy_memory();
}

const char* RepeatedLaunch::copy_memory() {
  if (shadows_.allocate(*plan_) != hipSuccess ||
      verifier_.builder_.build(recording_, plan_->translated(found_.binding, shadows_.bases()), exec_.device, &anew_) !=
          hipSuccess)
    return kNoCopies;
  std::vector<MemoryLook::Buffer> buffers;
  for (std::size_t i = 0; i < bases_.size(); ++i) buffers.push_back({bases_[i], plan_->bytes(i)});
  if (!look_.begin(buffers)) return kBesideOtherWork;
  bool addresses = false;
  if (shadows_.copy_from(bases_, stream_) != hipSuccess ||
      shadows_.look_for_addresses(stream_, &addresses) != hipSuccess)
    return kNoCopies;
  return addresses ? "cannot be run twice: its memory may hold addresses" : nullptr;
}

/// Whether no recording serves the exec any more.
bool RepeatedLaunch::has_become_own() const noexcept {
  const LockGuard guard(exec_.lock);
  return exec_.recording == nullptr;
}

hipError_t RepeatedLaunch::launch() {
  if (const char* const reason = prepare()) {
    look_.end();
    drop_before_launch(shadows_, anew_, real_path_);
    LaunchVerifier::say_not_compared(recording_, reason);
    return selected_();
  }
  const hipError_t result = real_path_ == nullptr ? selected_() : asked_.native(real_path_->exec);
  if (result != hipSuccess) {
    verifier_.leave_for_later(recording_, shadows_, std::move(anew_));
    verifier_.leave_for_later(recording_, shadows_, std::move(real_path_));
    return result;
  }
  if (real_path_ != nullptr) real_path_->launches.add(stream_key(asked_.stream), stream_, next_launch());
  if (has_become_own()) {
    if (real_path_ != nullptr) verifier_.keep_running(exec_, found_, std::move(real_path_));
    return result;
  }
  if (real_path_ != nullptr) {
    const LockGuard guard(exec_.lock);
    exec_.count_launch();
  }
  work_counts().note_work(stream_);
  const bool complete = wait_for(fences().make_behind(exec_.device, stream_));
  if (complete && is_alone()) {
    repeat();
    return result;
  }
  if (!complete) shadows_.leave();
  LaunchVerifier::say_not_compared(recording_, kBesideOtherWork);
  if (real_path_ != nullptr) verifier_.keep_running(exec_, found_, std::move(real_path_));
  return result;
}

/// Runs the launch again by the new exec, on the shadows. Reports nothing if other work came between.
void RepeatedLaunch::repeat() {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  Shadows::Difference difference;
  hipError_t repeated = asked_.native(anew_->exec);
  if (repeated == hipSuccess) repeated = shadows_.compare(bases_, stream_, &difference);
  if (repeated != hipSuccess || !is_alone()) return;
  if (!difference.found) {
    LaunchVerifier::found_same(recording_);
  } else if (real_path_ != nullptr) {
    LaunchVerifier::rebuilt_differs(found_, difference);
    LaunchVerifier::serve_by_real(exec_, found_, std::move(real_path_));
  } else {
    static_cast<void>(shadows_.restore(bases_, stream_));
    LaunchVerifier::repeated_differs(found_, difference);
  }
}

}  // namespace graphpool
