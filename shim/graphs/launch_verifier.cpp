#include "shim/graphs/launch_verifier.h"

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
  ProgramExec& exec = asked.exec;
  if (exec.recording_in_call() == nullptr || exec.variant_in_call() == nullptr || captures_open() ||
      stream_is_gone(plain_handle(asked.stream)))
    return selected();
  replace_distrusted(exec);
  std::unique_ptr<Variant> real_path;
  Way way;
  bool direct = false, comparable = false;
  {
    const LockGuard guard(exec.lock);
    real_path = std::move(exec.real_path);
    way = exec.way;
    direct = exec.staged() && exec.variant->ring->direct();
    comparable = way == Way::kStage || (!exec.staged() && (way == Way::kPatch || way == Way::kSame ||
                                                           (real_path != nullptr && !exec.set_by_program())));
  }
  std::uint64_t launches = exec.recording_in_call()->launches.count(way);
  if (direct) {
    const LockGuard guard(g_recordings_lock);
    launches = exec.recording_in_call()->statistics.staged.without_copies;
  }
  // Where nothing can be made of the recording, or not to be trusted, there is nothing to compare with. Its peers do
  // not take part in a second run (rule 12).
  comparable = comparable && exec.recording_in_call()->rebuildable.load(std::memory_order_acquire) &&
               !exec.recording_in_call()->communicates();
  const bool compared = comparable && settings_.verify.wants(launches);
  // The exec of the real path goes before the launch (see drop_before_launch). At home the launch itself is repeated,
  // so it is not needed there.
  if (!compared || direct) real_path.reset();
  if (!compared) return selected();
  return way == Way::kStage && !direct ? StagedComparison(*this, asked, selected, std::move(real_path)).launch()
                                       : RepeatedLaunch(*this, asked, selected, std::move(real_path)).launch();
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
  exec.real_path = std::move(made);
}

void LaunchVerifier::staging_differs(ProgramExec& exec, std::unique_ptr<Variant> real,
                                     const Shadows::Difference& difference, const std::vector<char*>& bases) {
  Recording& recording = *exec.recording_in_call();
  bindings_.replace_variant(exec, std::move(real));
  recording.may_stage.store(false, std::memory_order_relaxed);
  {
    const LockGuard guard(g_recordings_lock);
    ++recording.statistics.differences;
  }
  if (difference.found)
    log_error(
        "verify: graph %llu, staged buffer %zu (%s): byte %zu differs from the graph run without staging; "
        "it is not staged any more",
        number_of(recording), difference.buffer, staged_by(bases[difference.buffer]).c_str(), difference.offset);
  else
    log_error("verify: graph %llu fails when it is staged; it is not staged any more", number_of(recording));
}

void LaunchVerifier::rebuilt_differs(ProgramExec& exec, std::unique_ptr<Variant> real_path,
                                     const Shadows::Difference& difference) {
  Recording& recording = *exec.recording_in_call();
  recording.rebuildable.store(false);
  recording.may_stage.store(false, std::memory_order_relaxed);
  {
    const LockGuard guard(g_recordings_lock);
    recording.may_patch = false;
    for (const auto& variant : recording.variants)
      if (variant->graph != nullptr) variant->use_up(Health::kBroken);
    ++recording.statistics.differences;
  }
  bindings_.replace_variant(exec, std::move(real_path));
  log_error(
      "verify: graph %llu, made of its recording: byte %zu of buffer %zu differs from what the program's own graph "
      "makes "
      "of it; captures of it are left to the runtime from now on",
      number_of(recording), difference.offset, difference.buffer);
}

void LaunchVerifier::distrust(ProgramExec& exec, bool patched) {
  Recording& recording = *exec.recording_in_call();
  if (patched) recording.may_patch = false;
  for (const auto& variant : recording.variants)
    if (variant.get() == exec.variant_in_call() || (patched && variant->patches != 0))
      variant->use_up(Health::kDistrusted);
  ++recording.statistics.differences;
}

void LaunchVerifier::repeated_differs(ProgramExec& exec, const Shadows::Difference& difference) {
  Recording& recording = *exec.recording_in_call();
  if (exec.staged()) {
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
    patched = exec.variant_in_call()->patches != 0;
    distrust(exec, patched);
  }
  replace_distrusted(exec);
  log_error("verify: graph %llu, %s: byte %zu of buffer %zu differs from what a new exec makes of it; %s",
            number_of(recording), patched ? "patched" : "served by an exec that had the binding", difference.offset,
            difference.buffer, patched ? "its execs are not patched any more" : "that exec is not used any more");
}

/// Gives the exec a new variant where verification has found that its own does something else than it should.
void LaunchVerifier::replace_distrusted(ProgramExec& exec) {
  Recording& recording = *exec.recording_in_call();
  if (exec.variant_in_call()->health() != Health::kDistrusted || exec.set_by_program() ||
      !recording.rebuildable.load(std::memory_order_acquire))
    return;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  std::unique_ptr<Variant> made;
  if (builder_.build(recording, exec.binding_in_call(), exec.device, &made) == hipSuccess)
    bindings_.replace_variant(exec, std::move(made));
}

}  // namespace graphpool
