// step_costs.h: measures whether captures that begin at a place of the program cost less when they are compared than
// when they are left to the runtime.
//
// Why: a comparison costs nearly the same whatever the runtime's calls cost. A small graph, or one of more forks than
// operations, saves little: comparing it may cost more. The runtime, the machine and the program's use of the graph
// decide which is cheaper, so the library tries both.
//
// How: a place whose captures are small, or have more forks than operations, is tried once they have matched for a
// while. The more they fork, the shorter the while: then comparing may cost several times as much. In a trial a few
// captures in a row are compared and a few are left to the runtime. For both the library measures how long the
// program's calls of HIP take, from a capture's beginning to the thread's next one. It counts capturing calls,
// questions about the capture, streams made, instantiate and update, the first launch, and calls that destroy; not
// calls that wait. The medians decide, with a margin. The decision stands for a number of captures, which doubles with
// each trial that says the same. It falls earlier when captures that are left alone become larger than those tried. The
// next trial also comes earlier when samples show that comparing has become dearer than it was in the last one.
//
// Other captures are large. They are tried only if their bindings keep needing work (a patch, an update, an exec), the
// larger, the sooner: a binding that an exec has already costs a comparison and nothing else (probe
// launch_costs_less_than_capture). A trial ends early if each of the first few captures left alone took far longer than
// a compared one. All captures of a trial are small, or of about one size. Both ways are exact: a capture that is left
// alone is the runtime's own. A place is the return address of the call that began the capture.
// Bounded: see place_table.h; places that share an entry share the decision. Threads: any; one lock (kReport), held for
// a few instructions. Units: ticks of the processor's clock, which are only compared.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/base/short_lock.h"
#include "shim/costs/place_table.h"

namespace graphpool {

class StepCosts {
 public:
  static constexpr std::uint32_t kFirstTrial = 256;     ///< captures that match before the first trial of a place
  static constexpr std::uint32_t kForks = 16;           ///< so many event records and waits count as one capture more
  static constexpr std::uint32_t kMostOperations = 32;  ///< a capture with more operations is large
  /// A large capture counts as one capture more, on the way to a trial, for every so many operations of it.
  static constexpr std::uint32_t kOperations = 256;
  static constexpr std::uint32_t kArm = 16;    ///< captures in a row that a trial runs each way
  static constexpr std::uint32_t kWarmUp = 8;  ///< the medians leave out the first so many of them
  static constexpr std::uint32_t kFew = 4;     ///< a trial may end after so many left alone
  static constexpr std::uint32_t kFirstPause = 256, kLongestPause = 4096;   ///< captures left alone
  static constexpr std::uint32_t kFirstStay = 512, kLongestStay = 1 << 14;  ///< captures compared
  static constexpr std::uint32_t kSample = 8;                               ///< one in so many of these is measured
  static constexpr std::uint32_t kAhead = 15;         ///< captures that are left alone without asking, at most
  static constexpr std::uint32_t kLeastBetween = 32;  ///< least captures between two trials, whatever samples say

  /// The decision about one capture: compare it or leave it to the runtime, and whether to measure it.
  struct Step {
    bool follow = true;
    bool timed = false;
    std::uint32_t trial = 0;              ///< which trial it is part of; 0: none
    std::uint32_t most_operations = ~0u;  ///< left alone: the decision does not hold for larger captures
    std::uint32_t ahead = 0;  ///< so many more captures of the thread at this place are left alone without asking
  };
  /// What a timed step has led to. `reached`: a trial has ended with a decision, `follow`.
  struct Verdict {
    bool reached = false, follow = true;
    double ratio = 1;  ///< the time of a compared capture, as a multiple of one left alone
    /// The captures that follow are left alone, by the decision or, if they are large, for the trial.
    bool leaves_alone = false;
  };

  constexpr StepCosts() = default;

  /// Decides about a capture that begins.
  Step begins(const void* place) noexcept;
  /// Notes that a capture that was followed has ended. `forks`: its records and waits of events.
  void ended(const void* place, bool matched, std::uint32_t operations, std::uint32_t forks = 0) noexcept;
  /// Notes that work was done for the binding of a large capture of the place, because no exec had it.
  void served_anew(const void* place, std::uint32_t operations) noexcept;
  /// Notes that a capture that was left alone has ended with more than most_operations.
  void larger_alone(const void* place) noexcept;
  /// Notes how long a timed step took. Returns a Verdict with `reached` if that ended a trial.
  Verdict took(const void* place, const Step& step, std::uint64_t ticks) noexcept;

 private:
  static constexpr double kMostToFollow =
      0.97;  ///< comparing is kept if it takes at most this share of what captures left alone take
  static constexpr double kDearer = 1.05;  ///< a sample is dearer if it takes more than so many times what comparing
                                           ///< took in the trial, and more than leaving alone
  static constexpr double kFar =
      1.5;  ///< a trial ends early if each capture left alone took so many times a compared one
  static constexpr double kSteps = 100;  ///< a trial may lose one part in so many of the time of the captures behind it
  static constexpr std::size_t kMeasured = kArm - kWarmUp;

  enum class Phase : std::uint8_t { kWatch, kFollowed, kAlone };
  struct Arm {
    std::array<std::uint64_t, kMeasured> ticks{};
    std::uint32_t taken = 0, begun = 0;
    std::uint64_t least = ~std::uint64_t{0};  ///< of all measurements, the first ones included
    std::uint64_t median() const noexcept;
  };
  struct Entry {
    Phase phase = Phase::kWatch;
    bool follow = true;                ///< the decision that stands
    std::uint32_t left = kFirstTrial;  ///< captures until the next trial
    std::uint32_t stands = 0;          ///< captures for which the decision was to stand; 0: there was none
    std::uint32_t since = 0;           ///< captures since the last trial
    std::uint32_t trial = 0;           ///< the number of the last trial
    std::uint32_t operations = 0;      ///< the most that a capture compared in the trial had
    std::uint32_t dearer = 0;          ///< dearer samples in a row
    std::uint64_t followed_ticks = 0;  ///< what comparing took in the trial; 0: there was none
    std::uint64_t alone_ticks = 0;     ///< what leaving alone took in it
    Arm followed, alone;
  };
  static void watch(Entry& entry, std::uint32_t captures) noexcept;
  static void begin_trial(Entry& entry) noexcept;
  static Verdict decide(Entry& entry, std::uint64_t alone_ticks) noexcept;

  ShortLock<LockRank::kReport> lock_;
  PlaceTable<Entry> places_ GUARDED_BY(lock_);
};

/// The process's.
StepCosts& step_costs() noexcept;

inline std::uint64_t ticks_now() noexcept { return __builtin_ia32_rdtsc(); }

/// The calling thread's step: from the beginning of a capture to the beginning of the thread's next one.
struct ThreadStep {
  static constexpr std::uintptr_t kNoStream = ~std::uintptr_t{0};

  const void* place = nullptr;
  std::uintptr_t stream = 0;  ///< StreamKey of the capture's stream
  StepCosts::Step step;
  bool timed = false;       ///< `ticks` adds up what its calls take
  bool launched = false;    ///< only the first launch counts
  bool left_alone = false;  ///< its capture is open and left to the runtime
  bool complete = false;    ///< its capture has ended
  /// The stream on which the thread's capture began, if that is left alone. Launches there go straight to the runtime.
  std::uintptr_t passes_on = kNoStream;
  /// Of such a capture: the graph it ended in, and the exec that was made of this graph, or updated by it, last. The
  /// library knows neither.
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  std::uint64_t lost_seen = 0;    ///< g_left_alone_lost when it began
  std::uint64_t ended_seen = 0;   ///< g_unknown_ended when it began
  std::uint32_t operations = 0;   ///< launches seen in a capture that is left alone
  std::uint32_t served_anew = 0;  ///< operations of a large graph whose exec needed work; 0: none did
  std::uint64_t ticks = 0;

  /// Notes that an exec of so many operations needs work for its binding. Does nothing for a small one.
  void note_work(std::size_t of_operations) noexcept {
    if (place != nullptr && of_operations > StepCosts::kMostOperations)
      served_anew = static_cast<std::uint32_t>(of_operations);
  }
};
extern constinit thread_local ThreadStep t_step __attribute__((tls_model("initial-exec")));

/// How many captures at a place the thread leaves alone without asking, even if the place is judged anew meanwhile.
struct ThreadAhead {
  const void* place = nullptr;
  std::uint32_t left = 0;
  std::uint32_t most_operations = 0;

  bool covers(const void* other) const noexcept { return left != 0 && place == other; }
};
extern constinit thread_local ThreadAhead t_ahead __attribute__((tls_model("initial-exec")));

/// Decides about a capture that the thread begins at this place; a decision made ahead costs no lock.
inline StepCosts::Step step_begins(const void* place) noexcept {
  if (t_ahead.covers(place)) {
    --t_ahead.left;
    return {false, false, 0, t_ahead.most_operations, 0};
  }
  const StepCosts::Step step = step_costs().begins(place);
  t_ahead = {place, step.ahead, step.most_operations};
  return step;
}

/// Adds its own lifetime to the ticks of the thread's step, if that is timed.
class TimedCall {
 public:
  explicit TimedCall(bool counts = true) noexcept : began_(counts && t_step.timed ? ticks_now() : 0) {}
  ~TimedCall() {
    if (began_ != 0) [[unlikely]]
      t_step.ticks += ticks_now() - began_;
  }
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

 private:
  const std::uint64_t began_;
};

/// Ends the thread's step. Tells StepCosts what it took and needed, and logs the decision if the step led to one.
/// Returns the place whose captures are left alone from now on (StepCosts::Verdict); null: none.
const void* tell_step() noexcept;
/// As tell_step(), which is called only if there is something to tell.
inline const void* end_step() noexcept {
  const void* const left_alone = t_step.timed || t_step.served_anew != 0 ? tell_step() : nullptr;
  t_step = {};
  return left_alone;
}

}  // namespace graphpool
