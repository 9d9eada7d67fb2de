#include "shim/graphs/launch_verifier.h"

#include <new>
#include <string>
#include <utility>

#include "policy/policy.h"
#include "shim/base/log.h"
#include "shim/graphs/repeated_launch.h"
#include "shim/graphs/staged_comparison.h"
#include "shim/graphs/stream_judge.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/buffer_rules.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/freed_memory.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

/// The name of the rule that stages this buffer.
std::string staged_by(const char* base) {
  const Block* const block = block_table().find(base);
  const BufferRule* const rule = block == nullptr ? nullptr : rule_of(*block);
  return rule == nullptr ? "" : rule->name;
}

unsigned long long number_of(const Recording& recording) noexcept { return recording.number; }

/// Keeps the exec of a launch: the program may destroy it as soon as the launch has begun to run.
class KeptExec {
 public:
  KeptExec(ProgramExec& exec, ExecBindings& bindings) noexcept : exec_(exec), bindings_(bindings) {
    const LockGuard guard(exec.lock);
    exec.launches.begin();
  }
  KeptExec(const KeptExec&) = delete;
  KeptExec& operator=(const KeptExec&) = delete;
  ~KeptExec() {
    if (ends()) bindings_.release_destroyed(exec_);
  }

 private:
  bool ends() noexcept {
    const LockGuard guard(exec_.lock);
    return exec_.launches.end();
  }
  ProgramExec& exec_;
  ExecBindings& bindings_;
};

}  // namespace

void LaunchVerifier::say_not_compared(const Recording& recording, const char* reason) {
  log_once(LogLevel::kWarn, "verify: " + std::to_string(recording.number) + reason, "verify: graph %llu %s",
           number_of(recording), reason);
}

void LaunchVerifier::found_same(Recording& recording) noexcept {
  const LockGuard guard(g_recordings_lock);
  ++recording.statistics.launches_verified;
}

void LaunchVerifier::leave_for_later(Recording& recording, Shadows& shadows, std::unique_ptr<Variant> made) {
  shadows.leave();
  if (made != nullptr) static_cast<void>(store_.adopt(recording, std::move(made), nullptr, Keep::kThisUse));
}

hipError_t LaunchVerifier::launch(const AskedLaunch& asked, LaunchSelected selected) {
  const KeptExec kept(asked.exec, bindings_);
  return launch_kept(asked, selected);
}

/// Whether the launch is to be compared.
bool LaunchVerifier::wants(const FoundExec& found, bool set_by_program) const {
  Recording& recording = *found.recording;
  const bool comparable =
      found.way == Way::kStage || (!found.staged && (found.way == Way::kPatch || found.way == Way::kSame ||
                                                     (found.real_path != nullptr && !set_by_program)));
  // There is nothing to compare with if nothing that is to be trusted can be made of the recording. Peers of a
  // collective do not take part in a second run (rule 12).
  if (!comparable || !recording.rebuildable.load(std::memory_order_acquire) || recording.communicates()) return false;
  std::uint64_t launches = recording.launches.count(found.way);
  if (found.direct) {
    const LockGuard guard(g_recordings_lock);
    launches = recording.statistics.staged.without_copies;
  }
  return settings_.verify.wants(launches);
}

hipError_t LaunchVerifier::launch_kept(const AskedLaunch& asked, LaunchSelected selected) {
  ProgramExec& exec = asked.exec;
  if (captures_open() || stream_is_gone(plain_handle(asked.stream))) return selected();
  repair_.before_call(&exec);
  FoundExec found;
  bool set_by_program = false;
  {
    const LockGuard guard(exec.lock);
    if (exec.recording != nullptr && exec.variant != nullptr) {
      found.recording = hold(*exec.recording);
      found.variant = exec.variant;
      found.binding = exec.binding;
      found.way = exec.way;
      found.staged = exec.staged();
      found.direct = found.staged && exec.variant->ring->direct();
      found.plan = exec.variant->plan;
      found.real_path = std::move(exec.real_path);
      set_by_program = exec.set_by_program();
    }
  }
  if (!found.recording) return selected();
  const bool compared = wants(found, set_by_program);
  // The exec of the real path goes before the launch (see drop_before_launch). A launch without copies needs none: the
  // launch itself is repeated.
  if (!compared || found.direct) found.real_path.reset();
  if (!compared) return selected();
  return found.way == Way::kStage && !found.direct ? StagedComparison(*this, asked, selected, std::move(found)).launch()
                                                   : RepeatedLaunch(*this, asked, selected, std::move(found)).launch();
}

void LaunchVerifier::keep_real_path(ProgramExec& exec, hipGraph_t graph) {
  if (!settings_.verifies() || exec.variant_in_call() == nullptr) return;
  const bool is_new = exec.variant_in_call()->graph != nullptr &&
                      (exec.way_in_call() == Way::kNewExec || exec.way_in_call() == Way::kOneShot);
  if (!(is_new || exec.way_in_call() == Way::kStage) ||
      !settings_.verify.wants(exec.recording_in_call()->launches.count(exec.way_in_call())))
    return;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  device.set(exec.device);
  auto made = std::make_unique<Variant>();
  made->memory_freed = memory_freed();
  if (const TrackedGraph* const tracked = graphs_.find(graph)) made->source = tracked->id;
  if (graphs_.read(&graph, "verified") != hipSuccess) return;
  if (made_private(next().hipGraphInstantiate(&made->exec, graph, nullptr, nullptr, 0), &made->exec) != hipSuccess) {
    made->exec = nullptr;
    return;
  }
  made->device = exec.device;
  made->bake(exec.binding_in_call());
  const LockGuard guard(exec.lock);
  std::swap(exec.real_path, made);
}

void LaunchVerifier::serve_by_real(ProgramExec& exec, const FoundExec& found, std::unique_ptr<Variant> real) {
  const LockGuard guard(exec.lock);
  if (exec.recording != &*found.recording || exec.variant != found.variant || !equal(exec.binding, found.binding))
    return;
  exec.come_behind(*real);
  std::swap(exec.real_path, real);
}

void LaunchVerifier::keep_running(ProgramExec& exec, const FoundExec& found, std::unique_ptr<Variant> real) {
  real->launches.seal();
  if (found.plan == nullptr || !found.plan->overlap()) {
    const LockGuard guard(exec.lock);
    exec.before = real->launches.copy();
  }
  static_cast<void>(store_.adopt(*found.recording, std::move(real), nullptr, Keep::kThisUse));
}

void LaunchVerifier::staging_differs(const FoundExec& found, const Shadows::Difference& difference,
                                     const std::vector<char*>& bases) {
  Recording& recording = *found.recording;
  recording.may_stage.store(false, std::memory_order_relaxed);
  {
    const LockGuard guard(g_recordings_lock);
    ++recording.statistics.differences;
    for (const auto& variant : recording.variants)
      if (variant.get() == found.variant) variant->use_up(Health::kDistrusted);
  }
  if (difference.found)
    log_error(
        "verify: graph %llu, staged buffer %zu (%s): byte %zu differs from the graph run without staging; "
        "it is not staged any more",
        number_of(recording), difference.buffer, staged_by(bases[difference.buffer]).c_str(), difference.offset);
  else
    log_error("verify: graph %llu fails when it is staged; it is not staged any more", number_of(recording));
}

void LaunchVerifier::rebuilt_differs(const FoundExec& found, const Shadows::Difference& difference) {
  Recording& recording = *found.recording;
  recording.rebuildable.store(false);
  recording.may_stage.store(false, std::memory_order_relaxed);
  {
    const LockGuard guard(g_recordings_lock);
    recording.may_patch = false;
    for (const auto& variant : recording.variants)
      if (variant->graph != nullptr) variant->use_up(Health::kBroken);
    ++recording.statistics.differences;
  }
  log_error(
      "verify: graph %llu, made of its recording: byte %zu of buffer %zu differs from what the program's own graph "
      "makes "
      "of it; captures of it are left to the runtime from now on",
      number_of(recording), difference.offset, difference.buffer);
}

void LaunchVerifier::repeated_differs(const FoundExec& found, const Shadows::Difference& difference) {
  Recording& recording = *found.recording;
  if (found.staged) {
    recording.may_be_direct.store(false);
    {
      const LockGuard guard(g_recordings_lock);
      ++recording.statistics.differences;
    }
    log_error(
        "verify: graph %llu, staged and launched without copies: byte %zu of buffer %zu differs from what a new "
        "exec makes of it; its launches always copy from now on",
        number_of(recording), difference.offset, difference.buffer);
    return;
  }
  bool patched = false;
  {
    const LockGuard guard(g_recordings_lock);
    for (const auto& variant : recording.variants)
      patched = patched || (variant.get() == found.variant && variant->patches != 0);
    if (patched) recording.may_patch = false;
    for (const auto& variant : recording.variants)
      if (variant.get() == found.variant || (patched && variant->patches != 0)) variant->use_up(Health::kDistrusted);
    ++recording.statistics.differences;
  }
  log_error("verify: graph %llu, %s: byte %zu of buffer %zu differs from what a new exec makes of it; %s",
            number_of(recording), patched ? "patched" : "served by an exec that had the binding", difference.offset,
            difference.buffer, patched ? "its execs are not patched any more" : "that exec is not used any more");
}

}  // namespace graphpool
