// launch_verifier.h: launches that `verify` wants compared with what the program's own path gives.
//
// A staged launch (staged_comparison.h): the graph runs without staging for the program, and staged on copies. A launch
// of an exec that was patched, or that had the binding before, or is staged without copies (repeated_launch.h): that
// exec serves the program, and a new one, made of the recording, works on copies. A launch of a new exec, where the
// program's own graph is there: an exec made of that serves the program, and the recording's works on copies. Where
// they differ the program has the real result, one line says so, and the recording is served otherwise from there on:
// it is not staged any more, or never without copies; none of its execs is patched any more; or its captures are left
// to the runtime.
//
// All of it waits, which only `verify` does (verify/bounded_wait.h). A launch that is not complete in time is not
// compared. An exec beside a new one is not either where the device has other work before the launch or gets any before
// its end, for what that writes could not be told apart.
// Threads: any. Not here: which operations may run twice (verify/both_ways.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/execs/exec_builder.h"
#include "shim/graphs/exec_bindings.h"
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
/// Makes it by whatever serves the exec. hipErrorNotReady: its ring works on copies, and no slot set serves the launch;
/// nothing was enqueued.
using LaunchSelected = FunctionRef<hipError_t()>;

class LaunchVerifier {
 public:
  LaunchVerifier(ExecStore& store, ExecBuilder& builder, ExecBindings& bindings, TrackedGraphs& graphs,
                 const GraphSettings& settings) noexcept
      : store_(store), builder_(builder), bindings_(bindings), graphs_(graphs), settings_(settings) {}

  /// Makes the launch, and compares it where that is due.
  hipError_t launch(const AskedLaunch& asked, LaunchSelected selected);
  /// The exec has been given what was made of the recording; for its next launch one of the program's own graph is kept
  /// beside, where that launch will be compared.
  void keep_real_path(ProgramExec& exec, hipGraph_t graph) EXCLUDES(exec.lock, g_recordings_lock);

  // --- what a comparison has found ---

  static void found_same(Recording& recording) noexcept EXCLUDES(g_recordings_lock);
  /// The exec is served by `real`, without staging, and so is every other of its recording from here on.
  void staging_differs(ProgramExec& exec, std::unique_ptr<Variant> real, const Shadows::Difference& difference,
                       const std::vector<char*>& bases) EXCLUDES(g_recordings_lock);
  /// Nothing is made of the recording any more.
  void rebuilt_differs(ProgramExec& exec, std::unique_ptr<Variant> real_path, const Shadows::Difference& difference)
      EXCLUDES(g_recordings_lock);
  /// Launches of a ring copy from now on. Where the variant was patched, none of the recording's is any more, and those
  /// that were serve nobody.
  void repeated_differs(ProgramExec& exec, const Shadows::Difference& difference) EXCLUDES(g_recordings_lock);
  static void say_not_compared(const Recording& recording, const char* reason);
  /// The launch has failed, and the program must find that error, so nothing is destroyed now: `made` goes later, as
  /// any exec that is not kept, and the shadows with the next verification.
  void leave_for_later(Recording& recording, Shadows& shadows, std::unique_ptr<Variant> made)
      EXCLUDES(g_recordings_lock);

 private:
  friend class StagedComparison;
  friend class RepeatedLaunch;

  void replace_distrusted(ProgramExec& exec) EXCLUDES(g_recordings_lock);
  void distrust(ProgramExec& exec, bool patched) REQUIRES(g_recordings_lock);

  ExecStore& store_;
  ExecBuilder& builder_;
  ExecBindings& bindings_;
  TrackedGraphs& graphs_;
  const GraphSettings& settings_;
};

/// What both comparisons know of the launch that they compare.
class ComparedLaunch {
 protected:
  ComparedLaunch(LaunchVerifier& verifier, const AskedLaunch& asked, LaunchSelected selected,
                 std::unique_ptr<Variant> real_path) noexcept
      : verifier_(verifier),
        asked_(asked),
        selected_(selected),
        exec_(asked.exec),
        recording_(*asked.exec.recording),
        stream_(plain_handle(asked.stream)),
        real_path_(std::move(real_path)) {}

  LaunchVerifier& verifier_;
  const AskedLaunch& asked_;
  LaunchSelected selected_;
  ProgramExec& exec_;
  Recording& recording_;
  const hipStream_t stream_;
  std::unique_ptr<Variant> real_path_;  ///< an exec of the program's own graph, or null
};

/// A launch of the program's that is not to be compared comes next. Destroys what was made to compare it with. After
/// the launch that would be too late: before HIP 7 a successful call of the library's would then clear the error that
/// the launch may have left for hipGetLastError.
template <typename AnyShadows, typename... Made>
void drop_before_launch(AnyShadows& shadows, std::unique_ptr<Made>&... made) {
  (made.reset(), ...);
  shadows.drop();
}

}  // namespace graphpool
