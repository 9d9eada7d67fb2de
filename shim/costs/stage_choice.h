// stage_choice.h: whether a graph is staged that may be: some rule says `stage = "auto"` of a buffer it uses.
//
// Why: staging pays for copies at every launch, the other ways for execs or for nodes that differ once a binding. Which
// is less depends on the program, and may change while it runs. What the present way has cost more than the other one
// would have is added up. Once that is what a change costs (slots and their exec, or an exec that catches up with the
// binding), the graph is served the other way: so a wrong beginning costs no more than about the change itself.
// Hysteresis: only what is more than kMargin times the other way's cost is added, and what is less is taken off again.
//
// Threads: guarded by its user. Units: nanoseconds. Not here: what the ways cost (cost_model.h),
// which of the other ways serves a binding (execs/way_chooser.h).
#pragma once

#include <algorithm>
#include <cstdint>

namespace graphpool {

class StageChoice {
 public:
  static constexpr double kMargin = 1.25;

  bool staged() const noexcept { return staged_; }
  /// False once it could not be done.
  bool possible() const noexcept { return possible_; }
  std::uint64_t changes() const noexcept { return changes_; }

  /// A binding comes, after so many launches of the recording in all.
  void note_launches(std::uint64_t so_far) noexcept {
    const auto more = static_cast<double>(so_far - launches_so_far_);
    if (so_far != 0) launches_ += (more - launches_) / (launches_so_far_ == 0 ? 1 : kAverageOver);
    launches_so_far_ = so_far;
  }
  /// Launches a binding has, on average.
  double launches() const noexcept { return launches_; }

  /// A binding costs so much as the graph is served, and would have cost `other_ns`. Returns what was lost so far.
  double note(double present_ns, double other_ns) noexcept {
    lost_ns_ = std::max(0.0, lost_ns_ + present_ns - kMargin * other_ns);
    return lost_ns_;
  }

  void change(bool staged) noexcept {
    changes_ += staged != staged_ ? 1 : 0;
    staged_ = staged;
    lost_ns_ = 0;
  }
  /// It cannot be done: never again.
  void refuse() noexcept {
    change(false);
    possible_ = false;
  }

 private:
  static constexpr double kAverageOver = 4;

  bool staged_ = false, possible_ = true;
  double lost_ns_ = 0;
  double launches_ = 1;
  std::uint64_t launches_so_far_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace graphpool
