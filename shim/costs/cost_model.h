// cost_model.h: what the ways to serve a binding cost on this machine, and which of them is chosen.
//
// Costs begin as built-in figures (measured on one H200, per node or byte). Each is replaced by what the engine's own
// calls take from the first real one on, so nothing is measured at start-up or inside a capture (rule 31). Later
// measurements are averaged in, those that are lower more: what a call takes for the first time, or while it is
// interrupted, it does not take again.
//
// The choice, for a binding that no free exec has:
//   - a binding with volatile words gets no exec of its own (rule 30): patched, or recorded anew for one use; where no
//     exec is left that the next one could be patched into, it is kept for that;
//   - the first few bindings of a recording get an exec each: bindings often come in turn;
//   - then what is cheaper (probe setting_costs_less_than_an_exec is the first guess), but for the first patch of all,
//     which is tried to see what it costs. A patched node also uses up a share of an exec, which is replaced after a
//     budget of patches;
//   - a binding that was there before gets an exec once patching for such bindings has cost a quarter of one.
// Where the program itself asks for an update, its own call is a way too. It is chosen wherever the runtime is not
// known to patch what differs (then the program has what it would have had natively), instead of an exec for one use,
// and instead of more than the first few execs where none can be patched now. A binding that was there before and
// differs in kernels only gets an exec even so, once updates for such have cost a quarter of one, or where the update
// would spoil an exec that is kept. Hysteresis: a recording changes between exec and patch only if the other way costs
// a fifth less.
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

enum class Cost : std::uint8_t {
  kCaptureNode,      ///< one captured operation, when the program captures
  kBuildNode,        ///< one node of a graph of our own
  kInstantiateNode,  ///< one node of an exec
  kFirstLaunchNode,  ///< what an exec's first launch takes, by node
  kPatchNode,        ///< one node's parameters set
  kCopy,             ///< one copy submitted
  kCopyKiB,          ///< 1024 bytes copied on the device: copy_timer.h
};
inline constexpr std::size_t kCosts = 7;
const char* cost_name(Cost cost) noexcept;

/// What execs of one graph took: of a small graph most is paid for the exec and not for its nodes. Threads: any.
class ExecCosts {
 public:
  /// One exec's. Only what is part of an exec counts.
  void observe(Cost cost, std::chrono::nanoseconds took) noexcept;
  /// Nanoseconds, 0: not measured.
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

  /// So many operations took so long.
  void observe(Cost cost, std::chrono::nanoseconds took, std::size_t operations) noexcept;

  /// An exec of so many nodes: built, instantiated, launched for the first time. `measured`: where known, of this
  /// graph.
  double exec_ns(std::size_t nodes, const ExecCosts* measured = nullptr) const noexcept;
  /// So many nodes patched of an exec that costs `exec_ns` and lasts `budget` patches.
  double patch_ns(double exec_ns, std::size_t differing, std::size_t budget) const noexcept;

  /// A binding staged: so many launches, each with so many copies of so many bytes together, and so many copy nodes
  /// given its buffers.
  double staged_ns(double launches, std::size_t copies, std::uint64_t bytes, std::size_t patched) const noexcept;

  struct Question {
    Strategy strategy = Strategy::kAuto;
    double exec_ns = 0;         ///< what an exec costs
    std::size_t differing = 0;  ///< nodes to be patched
    bool patchable = false;     ///< a free exec is there, and all that differs is updated correctly
    std::size_t budget = 1000;  ///< patches an exec lasts
    std::size_t kept = 0;       ///< execs the recording has
    bool base = true;           ///< one of them is there to be patched later, or none is to be
    bool seen = false;          ///< the binding was there before, with fewer in between than execs are kept
    bool is_volatile = false;   ///< words differ that never come back
    double spent_ns = 0;        ///< patching for bindings seen before has cost this since the last exec was made
    Way last = Way::kNewExec;
    std::uint32_t passed_over = 0;  ///< bindings in a row that could have been patched and were not
    bool update = false;            ///< the program asks for an update: its own call can be made
    bool exact = false;             ///< all that differs from what it updates is patched correctly, but maybe not now
    bool kernels = false;           ///< with `update`: only kernels differ; the runtime never refuses to update those
    bool spoils = false;            ///< with `update`: it would change an exec that is kept for its binding
  };
  /// kPatch, kNewExec, kOneShot or, with `update`, kUpdate. Staging: stage_choice.h.
  Way choose(const Question& question) const noexcept;
  Way choose_without_update(const Question& question) const noexcept;

  /// So many bindings after the last patch it is tried again: what it cost then may have been an accident.
  static constexpr std::uint32_t kPatchAgainAfter = 64;
  /// Of what an exec costs, spent on bindings that came back, before one of them gets an exec.
  static constexpr double kSpentBeforeExec = 0.25;
  /// Execs a recording gets before patching is thought of.
  static constexpr std::size_t kExecsBeforePatching = 4;

 private:
  static constexpr std::size_t index(Cost cost) noexcept { return static_cast<std::size_t>(cost); }

  std::array<std::atomic<std::uint64_t>, kCosts> ps_{};  ///< picoseconds, once measured
  std::array<std::atomic<std::uint32_t>, kCosts> counts_{};
};

/// The process's.
CostModel& costs() noexcept;

/// Times what it encloses.
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
