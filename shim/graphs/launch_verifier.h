// launch_verifier.h: compares launches that `verify` wants compared with what the program's own path gives.
//
// A staged launch (staged_comparison.h): the graph runs without staging for the program, and staged on copies. A launch
// of an exec that was patched, or that had the binding before, or is staged without copies (repeated_launch.h): that
// exec serves the program, and a new one, made of the recording, works on copies. A launch of a new exec, if an exec of
// the program's own graph is there: that one serves the program, and one made of the recording works on copies. If they
// differ the program has the real result, one line says so, and the recording is served otherwise from there on: it is
// not staged any more, or never without copies; none of its execs is patched any more; the exec that had the binding
// serves nobody any more; or captures of the recording are left to the runtime.
//
// All of it waits, but each time only for so long (verify/bounded_wait.h). A launch that is not complete in time is not
// compared. Nor is a launch that is run again by a new exec, where the device has other work before it or gets any
// before its end: what that writes could not be told apart.
// Threads: any. Once the launch has begun to run the program may change or destroy the exec (program_exec.h). So a
// comparison is about what the launch has found (FoundExec), and the next call on the exec carries out what the
// comparison has found (exec_repair.h). Not here: which operations may run twice (verify/both_ways.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/execs/exec_builder.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_repair.h"
#include "shim/graphs/tracked_graphs.h"
#include "shim/hip/entry.h"
#include "shim/verify/both_ways.h"

namespace graphpool {

using NativeExecCall = FunctionRef<hipError_t(hipGraphExec_t exec)>;

/// A launch of the program's.
struct AskedLaunch {
  ProgramExec& exec;
  StreamArgument stream;
  NativeExecCall native;  ///< the program's call
};
/// Makes the launch by whatever serves the exec. hipErrorNotReady: the ring was to work on copies, and no slot set
/// serves the launch; nothing was enqueued.
using LaunchSelected = FunctionRef<hipError_t()>;

/// What a launch has found its exec to be.
struct FoundExec {
  HeldRecording recording;           ///< none: the exec is not served by one, or has nothing to do
  const Variant* variant = nullptr;  ///< serves the exec; may be gone once the launch has begun to run
  Binding binding;
  Way way = Way::kSame;
  bool staged = false, direct = false;  ///< the exec works on slots; launches of it do not copy
  std::shared_ptr<const StagePlan> plan;
  std::unique_ptr<Variant> real_path;  ///< an exec of the program's own graph, or null
};

class LaunchVerifier {
 public:
  LaunchVerifier(ExecStore& store, ExecBuilder& builder, ExecBindings& bindings, ExecRepair& repair,
                 TrackedGraphs& graphs, const GraphSettings& settings) noexcept
      : store_(store), builder_(builder), bindings_(bindings), repair_(repair), graphs_(graphs), settings_(settings) {}

  /// Makes the launch, and compares it where that is due.
  hipError_t launch(const AskedLaunch& asked, LaunchSelected selected);
  /// Keeps an exec of the program's own graph beside the exec for its next launch, where that will be compared. The
  /// exec itself has been given what was made of the recording.
  void keep_real_path(ProgramExec& exec, hipGraph_t graph) EXCLUDES(exec.lock, g_recordings_lock);

  // --- what a comparison has found ---

  static void found_same(Recording& recording) noexcept EXCLUDES(g_recordings_lock);
  /// Lets nothing of the recording be staged from here on.
  static void staging_differs(const FoundExec& found, const Shadows::Difference& difference,
                              const std::vector<char*>& bases) EXCLUDES(g_recordings_lock);
  /// Lets nothing be made of the recording any more.
  static void rebuilt_differs(const FoundExec& found, const Shadows::Difference& difference)
      EXCLUDES(g_recordings_lock);
  /// If the launch was a ring's, the recording's launches through rings always copy from now on. Else its variant
  /// serves nobody any more. If that was patched, neither do the recording's other patched ones, and none is patched
  /// any more.
  static void repeated_differs(const FoundExec& found, const Shadows::Difference& difference)
      EXCLUDES(g_recordings_lock);
  /// Lets `real`, whose launches are complete, serve the exec from the next call on it, if the exec still is what the
  /// launch found.
  static void serve_by_real(ProgramExec& exec, const FoundExec& found, std::unique_ptr<Variant> real)
      EXCLUDES(exec.lock);
  /// Keeps `real`, which may still run: later launches of the exec come behind it, unless they may overlap.
  void keep_running(ProgramExec& exec, const FoundExec& found, std::unique_ptr<Variant> real)
      EXCLUDES(exec.lock, g_recordings_lock);
  static void say_not_compared(const Recording& recording, const char* reason);
  /// Call it where the launch has failed: the program must find that error, so nothing is destroyed now. `made` goes
  /// later, as any exec that is not kept, and the shadows go with the next verification.
  void leave_for_later(Recording& recording, Shadows& shadows, std::unique_ptr<Variant> made)
      EXCLUDES(g_recordings_lock);

 private:
  friend class StagedComparison;
  friend class RepeatedLaunch;

  hipError_t launch_kept(const AskedLaunch& asked, LaunchSelected selected) EXCLUDES(g_recordings_lock);
  bool wants(const FoundExec& found, bool set_by_program) const EXCLUDES(g_recordings_lock);

  ExecStore& store_;
  ExecBuilder& builder_;
  ExecBindings& bindings_;
  ExecRepair& repair_;
  TrackedGraphs& graphs_;
  const GraphSettings& settings_;
};

/// What both comparisons know of the launch that they compare.
class ComparedLaunch {
 protected:
  ComparedLaunch(LaunchVerifier& verifier, const AskedLaunch& asked, LaunchSelected selected, FoundExec found) noexcept
      : verifier_(verifier),
        asked_(asked),
        selected_(selected),
        exec_(asked.exec),
        found_(std::move(found)),
        recording_(*found_.recording),
        stream_(plain_handle(asked.stream)),
        real_path_(std::move(found_.real_path)) {}

  LaunchVerifier& verifier_;
  const AskedLaunch& asked_;
  LaunchSelected selected_;
  ProgramExec& exec_;
  FoundExec found_;
  Recording& recording_;
  const hipStream_t stream_;
  std::unique_ptr<Variant> real_path_;  ///< an exec of the program's own graph, or null
};

/// Call it before a launch that is not to be compared. Destroys what was made to compare it with. After the launch that
/// would be too late: before HIP 7 a successful call of the library's would then clear the error that the launch may
/// have left for hipGetLastError.
template <typename AnyShadows, typename... Made>
void drop_before_launch(AnyShadows& shadows, std::unique_ptr<Made>&... made) {
  (made.reset(), ...);
  shadows.drop();
}

}  // namespace graphpool
