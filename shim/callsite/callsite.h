// callsite.h: finds where in the program a call came from, and whether that is what a rule asks for.
//
// Life of a call: here() unwinds the stack (0.3 us) and interns it; from then on the stack is a number. A StackSite
// shows it to the policy as a policy CallSite. Answers are remembered by (glob, frame), so a rule asked again about a
// known stack mostly compares no text and copies nothing.
// CallSites stays closed if nothing in the policy needs call sites, or if there is no libunwind. Then every stack is
// kUnknown, and the caller gives the policy no CallSite. Threads: everything from any thread; a StackSite is one
// thread's. Locks: kCallSites, only for what is new. Hold no ranked lock: unwinding and naming take the loader's lock.
// Never destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "shim/base/status.h"
#include "shim/callsite/frame_tree.h"
#include "shim/callsite/symbols.h"
#include "shim/callsite/unwinder.h"

namespace graphpool {

/// Remembers yes or no for each (question, frame) in one word, so that no lock is needed. An answer may be forgotten,
/// never wrong. Answers of another generation do not count (Symbols::generation()).
class AnswerCache {
 public:
  static constexpr std::uint32_t kMaxQuestions = 1u << 10;

  constexpr AnswerCache() = default;

  /// The answer, if it is remembered.
  std::optional<bool> find(std::uint32_t question, FrameTree::Index frame, std::uint64_t generation) const noexcept {
    const std::uint64_t word = slots_[slot(question, frame)].load(std::memory_order_relaxed);
    if ((word | 1) != word_of(question, frame, generation, true)) return std::nullopt;
    return (word & 1) != 0;
  }

  void keep(std::uint32_t question, FrameTree::Index frame, std::uint64_t generation, bool answer) noexcept {
    slots_[slot(question, frame)].store(word_of(question, frame, generation, answer), std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 13;
  static_assert(FrameTree::kMaxFrames <= std::size_t{1} << 20, "a frame must fit its part of a word");

  static constexpr std::size_t slot(std::uint32_t question, FrameTree::Index frame) noexcept {
    return static_cast<std::size_t>((frame + question * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu >> 40) % kSlots;
  }
  /// 20 bits frame, 10 question, 32 generation (wraps), 1 used, 1 answer.
  static constexpr std::uint64_t word_of(std::uint32_t question, FrameTree::Index frame, std::uint64_t generation,
                                         bool answer) noexcept {
    return std::uint64_t{frame} << 44 | std::uint64_t{question} << 34 | (generation & 0xffffffff) << 2 | 2 | answer;
  }

  std::array<std::atomic<std::uint64_t>, kSlots> slots_{};
};

class CallSites {
 public:
  using Index = FrameTree::Index;

  constexpr CallSites() = default;

  /// Opens libunwind; leaves out the frames of the object this code is in. kNotFound: there is none.
  Status open() noexcept;
  /// For tests: leaves out the frames in `own`.
  Status open(AddressRange own) noexcept { return unwinder_.open(own); }
  bool ready() const noexcept { return unwinder_.ready(); }

  /// The caller's stack; kUnknown when closed or when the tree is full.
  Index here() noexcept;

  /// How often the function was called for the same stack before: that is the position of an allocation among those of
  /// its call site. 0 for kUnknown.
  std::uint32_t next_order(Index stack) noexcept { return stack == FrameTree::kUnknown ? 0 : tree_.count(stack); }

  /// The text (symbols.h) of a stack's innermost frame; "?" for kUnknown.
  std::string_view text(Index frame) noexcept;

  /// The module of the code that holds a return address. Works while closed, too.
  std::string_view caller_module(const void* return_address) noexcept;

  bool any_frame_matches(Index stack, const Glob& glob, std::uint64_t generation) noexcept;
  /// Whether the stack's frames, from the outermost on, match the globs. False for a stack whose outer end was not
  /// seen.
  bool begins_with(Index stack, const std::vector<Glob>& globs, std::uint64_t generation) noexcept;

  FrameTree& tree() noexcept { return tree_; }
  Symbols& symbols() noexcept { return symbols_; }

 private:
  static constexpr std::size_t kMaxGlobs = AnswerCache::kMaxQuestions / 2;

  /// A small number for a glob, the same every time; kMaxGlobs when there is none left.
  std::uint32_t number_of(const Glob& glob) noexcept;
  bool frame_matches(Index frame, const Glob& glob, std::uint64_t generation) noexcept {
    return glob.matches(symbols_.text(tree_.address(frame), generation));
  }

  Unwinder unwinder_;
  FrameTree tree_;
  Symbols symbols_;
  AnswerCache answers_;
  std::array<std::atomic<const Glob*>, kMaxGlobs> globs_{};
};

/// The one object of the process.
CallSites& callsites() noexcept;

/// A stack as the policy sees it. Made for one query: names are those of the moment.
class StackSite final : public CallSite {
 public:
  StackSite(CallSites& sites, CallSites::Index stack, std::uint64_t order) noexcept
      : sites_(sites), stack_(stack), order_(order), generation_(Symbols::generation()) {}

  std::size_t depth() noexcept override { return sites_.tree().depth(stack_); }
  std::string_view frame(std::size_t index) noexcept override;
  std::uint64_t order() noexcept override { return order_; }
  bool any_frame_matches(const Glob& glob) noexcept override {
    return sites_.any_frame_matches(stack_, glob, generation_);
  }
  bool begins_with(const std::vector<Glob>& globs) noexcept override {
    return sites_.begins_with(stack_, globs, generation_);
  }

 private:
  CallSites& sites_;
  CallSites::Index stack_;
  std::uint64_t order_, generation_;
  std::size_t frame_index_ = 0;  ///< index of frame_
  CallSites::Index frame_ = FrameTree::kUnknown;
};

}  // namespace graphpool
