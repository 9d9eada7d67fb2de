// cost_model.h: knows what the ways to serve a binding cost on this machine, and chooses one of them.
//
// Costs begin as built-in figures (measured on one H200). The engine times its own calls, and its first measurement,
// cut off at a multiple of the figure, replaces it. Nothing is measured at start-up or inside a capture (rule 31), so
// kCaptureNode keeps its built-in figure. Later measurements are averaged in. Lower ones weigh more: a call that was
// the first of its kind, or was interrupted, took longer than the next ones will.
//
// The choice, for a binding that no free exec has:
//   - a binding with volatile words gets no exec of its own (rule 30): an exec is patched, or made for one use. Where
//     no exec is left that the next binding could be patched into, the new exec is kept for that;
//   - the first few bindings of a recording get an exec each: bindings often come in turn;
//   - then the cheaper way is chosen (probe setting_costs_less_than_an_exec is the first guess). The very first patch
//     is tried to see what it costs. A patched node also uses up a share of an exec, which is replaced after a budget
//     of patches;
//   - a binding that was there before gets an exec once serving such bindings without one has cost a quarter of an
//     exec. Hysteresis: a recording changes between exec and patch only if the other way costs a fifth less.
// Where the program itself asks for an update, its own call is a way too. It is chosen instead of an exec for one use,
// and instead of more than the first few execs where none can be patched now. It is also chosen where the runtime is
// not known to patch all that differs: then the program has what it would have natively. There is one exception. A
// binding that was there before, and of which only kernels differ, gets an exec once that quarter of an exec is spent,
// or if the update would spoil an exec that is kept.
//
// Threads: any, without lock. Units: nanoseconds. Not here: whether patching is exact (recording/patch_table.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "policy/values.h"

namespace graphpool {

/// How a binding was served.
enum class Way : std::uint8_t {
  kSame,     ///< an exec had it
  kPatch,    ///< an exec was patched
  kNewExec,  ///< another exec was made, and kept
  kOneShot,  ///< another exec was made, for this use only
  kStage,    ///< copied through slots
  kUpdate,   ///< the program's own update, or its own setting of nodes, was made
};
inline constexpr std::size_t kWays = 6;
const char* way_name(Way way) noexcept;
/// The way in the words of the log, which are those of the command's tables (command/graphpool/reports.py).
const char* way_in_words(Way way) noexcept;

enum class Cost : std::uint8_t {
  kCaptureNode,      ///< one operation that the program captures; never measured
  kBuildNode,        ///< one node of a graph of our own
  kInstantiateNode,  ///< one node of an exec
  kFirstLaunchNode,  ///< the first launch of an exec, per node
  kPatchNode,        ///< the parameters of one node set
  kCopy,             ///< one copy submitted
  kCopyKiB,          ///< 1024 bytes copied on the device: copy_timer.h
};
inline constexpr std::size_t kCosts = 7;
const char* cost_name(Cost cost) noexcept;

/// What execs of one graph took, in all nodes together: a small graph pays mostly for the exec and not for its nodes.
/// Threads: any.
class ExecCosts {
 public:
  /// Notes what one exec took in all, for this cost. Ignores costs that are no part of an exec.
  void observe(Cost cost, std::chrono::nanoseconds took) noexcept;
  /// Nanoseconds of this cost for a whole exec; 0: not measured.
  double ns(Cost cost) const noexcept;

 private:
  static constexpr std::size_t kParts = 3;
  static std::size_t part(Cost cost) noexcept;
  std::array<std::atomic<std::uint64_t>, kParts> ns_{};
};

class CostModel {
 public:
  using Clock = std::chrono::steady_clock;

  double ns(Cost cost) const noexcept;
  bool measured(Cost cost) const noexcept { return counts_[index(cost)].load(std::memory_order_relaxed) != 0; }

  /// Notes that so many operations took so long together.
  void observe(Cost cost, std::chrono::nanoseconds took, std::size_t operations) noexcept;

  /// The cost to build, instantiate and first launch an exec of so many nodes. `measured`: this graph's own costs, used
  /// where they are known; null: none.
  double exec_ns(std::size_t nodes, const ExecCosts* measured = nullptr) const noexcept;
  /// The cost to patch so many nodes of an exec that costs `exec_ns` and lasts `budget` patches.
  double patch_ns(double exec_ns, std::size_t differing, std::size_t budget) const noexcept;

  /// The cost of a staged binding with so many launches. Each launch makes so many copies, of so many bytes together.
  /// `patched`: copy nodes that are given the binding's buffers.
  double staged_ns(double launches, std::size_t copies, std::uint64_t bytes, std::size_t patched) const noexcept;

  struct Question {
    Strategy strategy = Strategy::kAuto;
    double exec_ns = 0;         ///< what an exec costs
    std::size_t differing = 0;  ///< nodes to be patched, or that an update changes
    bool patchable = false;     ///< an exec can be patched now: free or the asking one's, and all is exact
    std::size_t budget = 1000;  ///< patches an exec lasts
    std::size_t kept = 0;       ///< execs the recording keeps, without rings; counted up to kExecsBeforePatching
    bool base = true;           ///< one of them may be patched later, or patching is off
    bool seen = false;          ///< the binding came before, and fewer came between than execs may be kept
    bool is_volatile = false;   ///< words differ that never come back
    double spent_ns = 0;        ///< what patches, updates and slots cost for bindings seen before, since the last exec
    Way last = Way::kNewExec;
    std::uint32_t passed_over = 0;  ///< bindings in a row that could have been patched and were not
    bool update = false;            ///< the program asks for an update, and can make it itself
    bool exact = false;             ///< all that differs from what it updates is patched correctly, but maybe not now
    bool kernels = false;           ///< with `update`: only kernels differ; the runtime never refuses to update those
    bool spoils = false;            ///< with `update`: it would change an exec that is kept for its binding
  };
  /// Returns kPatch, kNewExec, kOneShot or, with `update`, kUpdate. Staging: stage_choice.h.
  Way choose(const Question& question) const noexcept;
  Way choose_without_update(const Question& question) const noexcept;

  /// After so many bindings in a row that could have been patched and were not, one is patched: what patches cost
  /// before may have been an accident.
  static constexpr std::uint32_t kPatchAgainAfter = 64;
  /// The share of an exec's cost to be spent on bindings that came back, before one of them gets an exec.
  static constexpr double kSpentBeforeExec = 0.25;
  /// A recording gets so many execs before it is patched.
  static constexpr std::size_t kExecsBeforePatching = 4;

 private:
  static constexpr std::size_t index(Cost cost) noexcept { return static_cast<std::size_t>(cost); }

  std::array<std::atomic<std::uint64_t>, kCosts> ps_{};  ///< picoseconds, once measured
  std::array<std::atomic<std::uint32_t>, kCosts> counts_{};
};

/// The process's.
CostModel& costs() noexcept;

/// Measures the time from its construction to stop().
class CostTimer {
 public:
  CostTimer() noexcept : began_(CostModel::Clock::now()) {}
  void stop(Cost cost, std::size_t operations, ExecCosts* of_graph = nullptr) const noexcept {
    const auto took = CostModel::Clock::now() - began_;
    costs().observe(cost, took, operations);
    if (of_graph != nullptr) of_graph->observe(cost, took);
  }

 private:
  CostModel::Clock::time_point began_;
};

}  // namespace graphpool
