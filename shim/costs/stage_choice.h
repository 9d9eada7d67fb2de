// stage_choice.h: remembers whether a graph is staged now, and adds up whether that pays. It is for graphs that may be
// staged: a rule says `stage = "auto"` of a buffer they use.
//
// Why: staging costs copies at every launch; the other ways cost an exec, or the nodes that differ, at every binding.
// Which is less depends on the program, and may change while it runs. So the loss is added up: how much more the
// present way has cost than the other one would have. Once the loss is what a change costs (slots and their exec, or an
// exec that catches up with the binding), its user has the graph served the other way. So a wrong beginning costs about
// as much as the change itself. Hysteresis: the other way's cost counts kMargin times, and a binding that costs less
// lowers the loss.
//
// Threads: its user locks. Units: nanoseconds. Not here: what the ways cost (cost_model.h), which of the other ways
// serves a binding (execs/way_chooser.h).
#pragma once

#include <algorithm>
#include <cstdint>

namespace graphpool {

class StageChoice {
 public:
  static constexpr double kMargin = 1.25;

  bool staged() const noexcept { return staged_; }
  /// False from refuse() on.
  bool possible() const noexcept { return possible_; }
  std::uint64_t changes() const noexcept { return changes_; }

  /// Notes that a binding comes. `so_far`: launches of the recording in all.
  void note_launches(std::uint64_t so_far) noexcept {
    const auto more = static_cast<double>(so_far - launches_so_far_);
    if (so_far != 0) launches_ += (more - launches_) / (launches_so_far_ == 0 ? 1 : kAverageOver);
    launches_so_far_ = so_far;
  }
  /// How many launches a binding has, on average.
  double launches() const noexcept { return launches_; }

  /// Notes what a binding costs in the present way, and would have cost in the other one. Returns the loss so far.
  double note(double present_ns, double other_ns) noexcept {
    lost_ns_ = std::max(0.0, lost_ns_ + present_ns - kMargin * other_ns);
    return lost_ns_;
  }

  void change(bool staged) noexcept {
    changes_ += staged != staged_ ? 1 : 0;
    staged_ = staged;
    lost_ns_ = 0;
  }
  /// Ends staging for good, because it cannot be done.
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
