// exec_sets.h: follows what a program sets in the nodes of one exec. It knows which of the bindings that are launched
// come back, and which nodes have been set that the exec's variant does not have yet.
//
// Why: a program whose buffers change places sets the same few nodes before each launch, to one of a few bindings in
// turn. Each of them can have an exec of its own, and then no node has to be set. But while some nodes have been set
// and others not, the binding in between is never launched: to give it to an exec would spoil that exec.
// How: a binding that was launched is remembered by a fingerprint. Once one has come back, sets are only noted
// (graphs/exec_node_sets.h). Noting ends when an exec has the binding, or when the binding has come back so often that
// an exec is made for it. It also ends at a launch: then the exec's own variant is given the noted sets.
// Bounded: kRemembered bindings; after more than kMostLost execs that were gone, or busy, when their binding came back,
// no more are made. Threads: those of the exec (program_exec.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

class ExecSets {
 public:
  static constexpr std::size_t kRemembered = 16;
  static constexpr std::uint32_t kReturns = 2;  ///< after so many arrivals a binding gets an exec at the next one
  static constexpr std::uint32_t kMostLost = 4;

  using Print = std::uint64_t;

  /// `launched`: the exec has this binding, and was launched with it.
  ExecSets(const std::vector<Operation>& operations, const Binding& binding, bool launched) {
    for (std::size_t i = 0; i < operations.size(); ++i)
      print_ ^= part(i, binding.begin() + operations[i].payload_offset, operations[i].signature.payload_bytes);
    if (launched) arrive();
  }

  /// The change of the fingerprint when an operation's payload changes.
  static Print change(std::uint32_t index, const std::byte* from, const std::byte* to, std::size_t bytes) noexcept {
    return part(index, from, bytes) ^ part(index, to, bytes);
  }
  /// Notes that the binding has changed.
  void set(Print change) noexcept {
    print_ ^= change;
    changed_ = changed_ || change != 0;
  }
  /// Notes a launch with the present binding. Cost: a look, where nothing was set since the last one.
  void launched() noexcept {
    if (changed_) arrive();
  }

  /// Whether sets may be noted instead of made, because bindings come back.
  bool may_note() const noexcept { return returns_ != 0 && lost_ <= kMostLost; }
  /// Whether the binding that the change leads to has come back often enough for an exec of its own.
  bool wants_own(Print change) const noexcept {
    const Entry* const entry = find(print_ ^ change);
    return may_note() && entry != nullptr && entry->arrivals >= kReturns;
  }
  /// Notes that an exec was made for the present binding.
  void own_made() noexcept {
    if (Entry* const entry = find(print_)) lost_ += std::exchange(entry->made, true) ? 1 : 0;
  }

  /// The operations that have been set in the binding, but not in the variant.
  const std::vector<std::uint32_t>& noted() const noexcept { return noted_; }
  void note(std::uint32_t index) {
    if (std::find(noted_.begin(), noted_.end(), index) == noted_.end()) noted_.push_back(index);
  }
  void given(std::uint32_t index) noexcept { std::erase(noted_, index); }
  void all_given() noexcept { noted_.clear(); }

  /// Lets accept_child() note one more without memory.
  void make_room_for_child() { children_.reserve(children_.size() + 1); }
  /// Notes that the runtime has taken another child graph of the same recording for this operation.
  void accept_child(std::uint32_t index) {
    if (!accepts_child(index)) children_.push_back(index);
  }
  bool accepts_child(std::uint32_t index) const noexcept {
    return std::find(children_.begin(), children_.end(), index) != children_.end();
  }

 private:
  struct Entry {
    Print print = 0;
    std::uint32_t arrivals = 0;  ///< launches with it after a change of the binding; 0: the entry is free
    bool made = false;           ///< an exec of its own was made
    std::uint64_t last = 0;
  };

  static Print part(std::size_t index, const std::byte* payload, std::size_t bytes) noexcept {
    Print print = (index + 1) * 0x9e3779b97f4a7c15u;
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, payload + i, std::min(sizeof word, bytes - i));
      print = (print ^ word) * 0xff51afd7ed558ccdu;
      print ^= print >> 32;
    }
    return print;
  }
  const Entry* find(Print print) const noexcept {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [print](const Entry& entry) {
      return entry.arrivals != 0 && entry.print == print;
    });
    return found == entries_.end() ? nullptr : &*found;
  }
  Entry* find(Print print) noexcept { return const_cast<Entry*>(std::as_const(*this).find(print)); }
  void arrive() noexcept {
    changed_ = false;
    Entry* entry = find(print_);
    if (entry == nullptr) {
      entry = &*std::min_element(entries_.begin(), entries_.end(),
                                 [](const Entry& a, const Entry& b) { return a.last < b.last; });
      *entry = {print_, 0, false, 0};
    }
    returns_ += ++entry->arrivals > 1 ? 1 : 0;
    entry->last = ++clock_;
  }

  Print print_ = 0;       ///< of the binding
  bool changed_ = false;  ///< since the last launch
  std::array<Entry, kRemembered> entries_{};
  std::uint64_t clock_ = 0, returns_ = 0;
  std::uint32_t lost_ = 0;
  std::vector<std::uint32_t> noted_, children_;
};

}  // namespace graphpool
