// verified_launches.cpp: launches that `verify` wants compared with what the program's own path gives.
//
// Staged: the graph runs without staging for the program, and staged on copies. By an exec that was patched, or that
// had the binding before, or staged without copies: that exec serves the program, and a new one, made of the recording,
// works on copies. By a new exec, where the program's own graph is there: one made of that serves the program, and the
// recording's works on copies. Where they differ the program has the real result, one line says so, and the recording
// is served otherwise from there on: it is not staged any more, or never without copies; none of its execs is patched
// any more; or its captures are left to the runtime.
//
// All of it waits, which only `verify` does, kLongestWait at most: what it waits for could depend on what the program
// does next. A staged launch that is not complete by then is not compared. An exec beside a new one is not either where
// the device has other work before the launch or gets any before its end, for what that writes could not be told apart.
#include <chrono>
#include <string>

#include "policy/policy.h"
#include "shim/base/back_off.h"
#include "shim/base/log.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/buffer_rules.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/pool.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"
#include "shim/verify/memory_look.h"

namespace graphpool {
namespace {

constexpr std::chrono::seconds kLongestWait{1};

/// The name of the rule that stages this buffer.
std::string staged_by(const char* base) {
  const Block* const block = pool().table().find(base);
  const BufferRule* const rule = block == nullptr ? nullptr : rule_of(*block);
  return rule == nullptr ? "" : rule->name;
}

/// False: it has not been passed in time, or nobody can tell.
bool wait_for(Fence* fence) {
  if (fence == nullptr) return false;
  const PrivateCalls private_calls;
  BackOff wait(kLongestWait);
  bool passed = stream_work().passed(fence);
  while (!passed && wait.again()) passed = stream_work().passed(fence);
  stream_work().release(fence);
  return passed;
}

bool wait_until_idle(int device) {
  return stream_work().is_idle(device) || (wait_for(stream_work().make_fence(device)) && stream_work().is_idle(device));
}

/// Freeing waits for the device: where that takes too long, they are left.
class BoundedShadows : public Shadows {
 public:
  explicit BoundedShadows(int device) noexcept : device_(device) {}
  BoundedShadows(const BoundedShadows&) = delete;
  BoundedShadows& operator=(const BoundedShadows&) = delete;
  ~BoundedShadows() { drop(); }
  void drop() noexcept {
    if (!bases().empty() && !stream_work().is_idle(device_) && !wait_for(stream_work().make_fence(device_))) leave();
    Shadows::drop();
  }

 private:
  const int device_;
};

/// A launch of the program's that is not to be compared comes next. Destroys what was made to compare it with. After
/// the launch that would be too late: before HIP 7 a successful call of the library's would then clear the error that
/// the launch may have left for hipGetLastError.
template <typename AnyShadows, typename... Made>
void drop_before_launch(AnyShadows& shadows, std::unique_ptr<Made>&... made) {
  (made.reset(), ...);
  shadows.drop();
}

/// Call it when the launch has failed. The program must find that error, so nothing is destroyed now (see
/// drop_before_launch). The variants destroy `made` later, as any exec that they do not keep; the next verification
/// frees the shadows.
void leave_for_later(Variants& variants, Recording& recording, Shadows& shadows, std::unique_ptr<Variant> made) {
  shadows.leave();
  if (made == nullptr) return;
  made->keep = false;
  static_cast<void>(variants.adopt(recording, std::move(made), nullptr));
}

}  // namespace

void Graphs::say_not_compared(const Recording& recording, const char* why) {
  log_once(LogLevel::kWarn, "verify: " + std::to_string(recording.number) + why, "verify: graph %llu %s",
           static_cast<unsigned long long>(recording.number), why);
}

hipError_t Graphs::launch_verified(ProgramExec& exec, StreamArgument stream, NativeExecCall native) {
  if (exec.recording == nullptr || exec.variant == nullptr || captures_open() || stream_is_gone(plain_handle(stream)))
    return launch_selected(exec, stream, native);
  replace_distrusted(exec);
  std::unique_ptr<Variant> real_path;
  Way way;
  bool at_home = false, comparable = false;
  {
    const LockGuard guard(exec.lock);
    real_path = std::move(exec.real_path);
    way = exec.way;
    at_home = exec.variant->ring != nullptr && exec.variant->ring->at_home();
    comparable = way == Way::kStage || (exec.variant->ring == nullptr && !exec.set_by_program &&
                                        (way == Way::kPatch || way == Way::kSame || real_path != nullptr));
  }
  std::uint64_t launches = exec.recording->launches.count(way);
  if (at_home) {
    const LockGuard guard(lock_);
    launches = exec.recording->statistics.staged.without_copies;
  }
  // Where nothing can be made of the recording, or not to be trusted, there is nothing to compare with. Its peers do
  // not take part in a second run (rule 12).
  comparable =
      comparable && exec.recording->rebuildable.load(std::memory_order_acquire) && !exec.recording->communicates();
  const bool compared = comparable && settings_.verify.wants(launches);
  // The exec of the real path goes before the launch (see drop_before_launch). At home the launch itself is repeated,
  // so it is not needed there.
  if (!compared || at_home) real_path.reset();
  if (!compared) return launch_selected(exec, stream, native);
  return way == Way::kStage && !at_home ? launch_both_ways(exec, stream, native, std::move(real_path))
                                        : launch_and_repeat(exec, stream, native, std::move(real_path));
}

void Graphs::keep_real_path(ProgramExec& exec, hipGraph_t graph) {
  if (settings_.verify.mode == Verify::Mode::kOff || exec.variant == nullptr) return;
  const bool anew = exec.variant->graph != nullptr && (exec.way == Way::kNewExec || exec.way == Way::kOneShot);
  if (!(anew || exec.way == Way::kStage) || !settings_.verify.wants(exec.recording->launches.count(exec.way))) return;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  device.set(exec.device);
  auto made = std::make_unique<Variant>();
  made->memory_freed = memory_freed();
  if (const TrackedGraph* const known = known_.find(graph)) made->source = known->id;
  if (known_.read(&graph, "verified") != hipSuccess) return;
  if (made_private(next().hipGraphInstantiate(&made->exec, graph, nullptr, nullptr, 0), &made->exec) != hipSuccess) {
    made->exec = nullptr;
    return;
  }
  made->device = exec.device;
  made->baked = exec.binding;
  const LockGuard guard(exec.lock);
  exec.real_path = std::move(made);
}

/// The exec is served by this variant from here on; no other is by one of the program's own graph, for what is made of
/// the recording may differ from that.
void Graphs::serve_by(ProgramExec& exec, std::unique_ptr<Variant> made) {
  made->unsure = made->graph == nullptr;
  const LockGuard guard(exec.lock);
  Variant* const old = exec.variant;
  old->launches.seal();
  if (auto launched = old->launches.copy()) exec.before = std::move(launched);
  Variant* const adopted = variants_.adopt(*exec.recording, std::move(made), &exec);
  exec.way = Way::kNewExec;
  const LockGuard templates(lock_);
  exec.variant = adopted;
  disown(*old);
}

// --- staged ---

/// A staged launch, and the same without staging for the program: by `real`, or, where there is none, a new exec.
hipError_t Graphs::launch_both_ways(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                                    std::unique_ptr<Variant> real) {
  Recording& recording = *exec.recording;
  const hipStream_t handle = plain_handle(stream);
  const std::shared_ptr<const StagePlan> staged_by_plan = exec.variant->plan;
  if (stream_work().is_idle(exec.device)) Shadows::free_left();
  BoundedShadows shadows(exec.device);
  bool ready = false;
  {
    const PrivateCalls private_calls;
    const LastErrorScope last_error;
    const SavedDevice device;
    device.set(exec.device);
    const StagePlan& plan = *staged_by_plan;
    ready = may_run_both_ways(recording.operations, exec.binding, plan) && shadows.allocate(plan) == hipSuccess &&
            (real != nullptr || variants_.build(recording, exec.binding, exec.device, &real) == hipSuccess);
  }
  if (!ready) {
    drop_before_launch(shadows, real);
    say_not_compared(recording, "cannot be run both ways; only what it was captured from is compared");
    return launch_selected(exec, stream, native);
  }
  std::vector<char*> bases;
  hipError_t result, staged = hipErrorUnknown;  // unless there is a ring
  {
    const LockGuard guard(exec.lock);
    // The exec's launches are in order: the real one too comes behind those before it.
    if (exec.before != nullptr) static_cast<void>(exec.before->order_before(stream_key(stream), handle));
    if (SlotRing* const ring = exec.variant->ring.get()) {
      bases = ring->bases();
      static_cast<void>(ring->order_behind_last(stream_key(stream), handle));
      const LastErrorScope last_error;
      staged = shadows.copy_from(bases, handle);
    }
    result = native(real->exec);
  }
  if (result != hipSuccess) {
    leave_for_later(variants_, recording, shadows, std::move(real));
    return result;
  }
  real->launches.add(stream_key(stream), handle, next_launch());
  const auto wait_until_complete = [&] {
    stream_work().note_work(handle);
    return wait_for(stream_work().make_stream_fence(exec.device, handle));
  };
  bool complete = false;
  if (staged != hipSuccess) {
    complete = wait_until_complete();
  } else {
    const PrivateCalls private_calls;
    const LastErrorScope last_error;
    const auto bind = [&](const std::vector<char*>& to) {
      const LockGuard guard(exec.lock);
      RingCounts counts;
      return exec.variant->ring == nullptr ? hipErrorUnknown : exec.variant->ring->work_on(to, &counts);
    };
    const auto on_shadows = [&](bool now) {
      const LockGuard guard(exec.lock);
      exec.on_shadows = now;
    };
    staged = bind(shadows.bases());
    if (staged == hipSuccess) {
      // Without staging the graph would work on the program's own buffers once more.
      on_shadows(true);
      staged = launch_selected(exec, stream, native);
      on_shadows(false);
    }
    const hipError_t bound = bind(bases);
    if (staged == hipSuccess) staged = bound;
    Shadows::Difference difference;
    const bool not_made = staged == hipErrorNotReady && bound == hipSuccess;
    if (not_made) say_not_compared(recording, "was not run both ways: no slot set came free in time");
    complete = wait_until_complete();
    if (staged == hipSuccess && complete) staged = shadows.compare(bases, handle, &difference);
    if (not_made) {
      // Said.
    } else if (staged == hipSuccess && !complete) {
      say_not_compared(recording, "was not complete in time; such launches are not compared");
    } else if (staged == hipSuccess && !difference.found) {
      const LockGuard guard(lock_);
      ++recording.statistics.launches_verified;
    } else {
      staging_differs(exec, std::move(real), difference, bases);
    }
  }
  if (!complete) shadows.leave();
  if (complete || real == nullptr) return result;
  // Nothing goes while it may still run, and the next launch comes behind it.
  real->keep = false;
  real->launches.seal();
  if (!staged_by_plan->overlap()) {
    const LockGuard guard(exec.lock);
    exec.before = real->launches.copy();
  }
  static_cast<void>(variants_.adopt(recording, std::move(real), nullptr));
  return result;
}

/// The exec is served without staging from here on, and so is every other of its recording.
void Graphs::staging_differs(ProgramExec& exec, std::unique_ptr<Variant> real, const Shadows::Difference& difference,
                             const std::vector<char*>& bases) {
  Recording& recording = *exec.recording;
  serve_by(exec, std::move(real));
  {
    const LockGuard guard(lock_);
    recording.may_stage = false;
    ++recording.statistics.differences;
  }
  if (difference.found)
    log_error(
        "verify: graph %llu, staged buffer %zu (%s): byte %zu differs from the graph run without staging; "
        "it is not staged any more",
        static_cast<unsigned long long>(recording.number), difference.buffer,
        staged_by(bases[difference.buffer]).c_str(), difference.offset);
  else
    log_error("verify: graph %llu fails when it is staged; it is not staged any more",
              static_cast<unsigned long long>(recording.number));
}

// --- patched, found again by its binding, without copies, or new ---

/// A launch, and the same by a new exec on copies. What the variant may still write to of earlier bindings, where the
/// runtime has updated it wrongly, is copied too, so that it can be given back. With `real_path` that serves the
/// program.
hipError_t Graphs::launch_and_repeat(ProgramExec& exec, StreamArgument stream, NativeExecCall native,
                                     std::unique_ptr<Variant> real_path) {
  Recording& recording = *exec.recording;
  const hipStream_t handle = plain_handle(stream);
  const std::uint64_t submitted = stream_work().submitted();
  std::unique_ptr<Variant> anew;
  std::unique_ptr<StagePlan> plan;
  std::vector<char*> bases;
  Shadows shadows;
  MemoryLook look;
  const char* const beside_other_work = "is launched beside other work; such launches are not compared";
  const char* const no_copies = "cannot be run twice: no copies of what it names (memory?)";
  const auto prepared = [&] {
    const PrivateCalls private_calls;
    const LastErrorScope last_error;
    std::vector<std::uint64_t> reached;
    {
      const LockGuard exec_guard(exec.lock);
      const LockGuard guard(lock_);
      reached = exec.variant->reached;
      if (exec.variant->ring != nullptr)
        for (const char* const base : exec.variant->ring->home_bases())
          reached.push_back(reinterpret_cast<std::uint64_t>(base));
    }
    plan = StagePlan::of_all_memory(recording.operations, exec.binding, reached, &bases);
    if (plan == nullptr || plan->device() != exec.device || calling_device() != exec.device ||
        !may_run_both_ways(recording.operations, exec.binding, *plan))
      return "cannot be run twice; only what it was captured from is compared";
    if (!wait_until_idle(exec.device)) return beside_other_work;
    Shadows::free_left();
    bool addresses = false;
    if (shadows.allocate(*plan) != hipSuccess ||
        variants_.build(recording, plan->translated(exec.binding, shadows.bases()), exec.device, &anew) != hipSuccess)
      return no_copies;
    std::vector<MemoryLook::Buffer> buffers;
    for (std::size_t i = 0; i < bases.size(); ++i) buffers.push_back({bases[i], plan->bytes(i)});
    if (!look.begin(buffers)) return beside_other_work;
    if (shadows.copy_from(bases, handle) != hipSuccess || shadows.look_for_addresses(handle, &addresses) != hipSuccess)
      return no_copies;
    return addresses ? "cannot be run twice: its memory may hold addresses" : static_cast<const char*>(nullptr);
  };
  if (const char* const why = prepared()) {
    look.end();
    drop_before_launch(shadows, anew, real_path);
    say_not_compared(recording, why);
    return launch_selected(exec, stream, native);
  }
  const hipError_t result = real_path == nullptr ? launch_selected(exec, stream, native) : native(real_path->exec);
  if (exec.recording == nullptr) return result;  // it has become the program's own
  if (result != hipSuccess) {
    leave_for_later(variants_, recording, shadows, std::move(anew));
    leave_for_later(variants_, recording, shadows, std::move(real_path));
    return result;
  }
  if (real_path != nullptr) {
    real_path->launches.add(stream_key(stream), handle, next_launch());
    const LockGuard guard(exec.lock);
    count_launch(exec);
  }
  stream_work().note_work(handle);
  const bool complete = wait_for(stream_work().make_stream_fence(exec.device, handle));
  const auto alone = [&] { return stream_work().submitted() == submitted + 1; };
  if (!complete || !alone()) {
    if (!complete) shadows.leave();
    say_not_compared(recording, beside_other_work);
    if (real_path != nullptr) serve_by(exec, std::move(real_path));  // it may still run
    return result;
  }
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  Shadows::Difference difference;
  hipError_t repeated = native(anew->exec);
  if (repeated == hipSuccess) repeated = shadows.compare(bases, handle, &difference);
  if (repeated != hipSuccess || !alone()) return result;
  if (difference.found && real_path != nullptr) {
    rebuilt_differs(exec, std::move(real_path), difference);
  } else if (difference.found) {
    static_cast<void>(shadows.restore(bases, handle));
    repeated_differs(exec, difference);
  } else {
    const LockGuard guard(lock_);
    ++recording.statistics.launches_verified;
  }
  return result;
}

/// Nothing is made of the recording any more.
void Graphs::rebuilt_differs(ProgramExec& exec, std::unique_ptr<Variant> real_path,
                             const Shadows::Difference& difference) {
  Recording& recording = *exec.recording;
  recording.rebuildable.store(false);
  {
    const LockGuard guard(lock_);
    recording.may_patch = recording.may_stage = false;
    for (const auto& variant : recording.variants) {
      if (variant->graph == nullptr) continue;
      variant->broken = true;
      variant->keep = false;
    }
    ++recording.statistics.differences;
  }
  serve_by(exec, std::move(real_path));
  log_error(
      "verify: graph %llu, made of its recording: byte %zu of buffer %zu differs from what the program's own graph "
      "makes "
      "of it; captures of it are left to the runtime from now on",
      static_cast<unsigned long long>(recording.number), difference.offset, difference.buffer);
}

/// Launches of a ring copy from now on. Where the variant was patched, none of the recording's is any more, and those
/// that were serve nobody.
void Graphs::repeated_differs(ProgramExec& exec, const Shadows::Difference& difference) {
  Recording& recording = *exec.recording;
  bool patched = false;
  if (exec.variant->ring != nullptr) {
    recording.may_be_at_home.store(false);
    {
      const LockGuard guard(lock_);
      ++recording.statistics.differences;
    }
    log_error(
        "verify: graph %llu, staged and launched without copies: byte %zu of buffer %zu differs from what a new "
        "exec makes of it; its launches always copy from now on",
        static_cast<unsigned long long>(recording.number), difference.offset, difference.buffer);
    return;
  }
  {
    const LockGuard guard(lock_);
    patched = exec.variant->patches != 0;
    exec.variant->distrusted = true;
    if (patched) recording.may_patch = false;
    for (const auto& variant : recording.variants) {
      variant->distrusted = variant->distrusted || (patched && variant->patches != 0);
      if (!variant->distrusted) continue;
      variant->broken = true;
      variant->keep = false;
    }
    ++recording.statistics.differences;
  }
  replace_distrusted(exec);
  log_error("verify: graph %llu, %s: byte %zu of buffer %zu differs from what a new exec makes of it; %s",
            static_cast<unsigned long long>(recording.number),
            patched ? "patched" : "served by an exec that had the binding", difference.offset, difference.buffer,
            patched ? "its execs are not patched any more" : "that exec is not used any more");
}

/// Gives the exec a new variant where verification has found that its own does something else than it should.
void Graphs::replace_distrusted(ProgramExec& exec) {
  Recording& recording = *exec.recording;
  {
    const LockGuard guard(lock_);
    if (!exec.variant->distrusted || exec.set_by_program || !recording.rebuildable.load(std::memory_order_acquire))
      return;
  }
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  std::unique_ptr<Variant> anew;
  if (variants_.build(recording, exec.binding, exec.device, &anew) == hipSuccess) serve_by(exec, std::move(anew));
}

}  // namespace graphpool
