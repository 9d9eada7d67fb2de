#include "shim/callsite/callsite.h"

#include <span>

namespace graphpool {
namespace {

/// The questions whose answers are remembered: does this frame match the glob; does any frame from here outwards.
constexpr std::uint32_t frame_question(std::uint32_t glob) noexcept { return 2 * glob; }
constexpr std::uint32_t any_question(std::uint32_t glob) noexcept { return 2 * glob + 1; }

}  // namespace

Status CallSites::open() noexcept { return unwinder_.open(object_around(reinterpret_cast<const void*>(&callsites))); }

CallSites::Index CallSites::here() noexcept {
  if (!ready()) return FrameTree::kUnknown;
  Backtrace stack;
  unwinder_.unwind(&stack);
  return tree_.intern({stack.addresses.data(), stack.count}, stack.whole);
}

std::string_view CallSites::text(Index frame) noexcept {
  return tree_.depth(frame) == 0 ? std::string_view("?") : symbols_.text(tree_.address(frame), Symbols::generation());
}

std::string_view CallSites::caller_module(const void* return_address) noexcept {
  return symbols_.module(reinterpret_cast<std::uintptr_t>(return_address), Symbols::generation());
}

std::uint32_t CallSites::number_of(const Glob& glob) noexcept {
  std::uint32_t number = 0;
  for (; number < kMaxGlobs; ++number) {
    const Glob* there = globs_[number].load(std::memory_order_relaxed);
    if (there == nullptr && globs_[number].compare_exchange_strong(there, &glob, std::memory_order_relaxed)) break;
    if (there == &glob) break;
  }
  return number;
}

bool CallSites::any_frame_matches(Index stack, const Glob& glob, std::uint64_t generation) noexcept {
  const std::uint32_t number = number_of(glob);
  const std::uint32_t question = any_question(number);
  const bool remembers = number < kMaxGlobs;
  bool answer = false;
  Index decided = stack;  // outwards from here nothing needs to be looked at
  for (; tree_.depth(decided) > 0; decided = tree_.parent(decided)) {
    if (const std::optional<bool> known = remembers ? answers_.find(question, decided, generation) : std::nullopt) {
      answer = *known;
      break;
    }
    answer = frame_matches(decided, glob, generation);
    if (answer) {
      if (remembers) answers_.keep(question, decided, generation, true);
      break;
    }
  }
  if (tree_.depth(decided) == 0) answer = false;
  for (Index frame = stack; remembers && frame != decided; frame = tree_.parent(frame)) {
    answers_.keep(question, frame, generation, answer);
  }
  return answer;
}

bool CallSites::begins_with(Index stack, const std::vector<Glob>& globs, std::uint64_t generation) noexcept {
  const std::size_t depth = tree_.depth(stack);
  if (stack == FrameTree::kUnknown || depth < globs.size()) return false;
  Index frame = tree_.ancestor(stack, depth - globs.size());
  for (std::size_t left = globs.size(); left > 0; --left, frame = tree_.parent(frame)) {
    const Glob& glob = globs[left - 1];
    const std::uint32_t number = number_of(glob);
    std::optional<bool> answer;
    if (number < kMaxGlobs) answer = answers_.find(frame_question(number), frame, generation);
    if (!answer.has_value()) {
      answer = frame_matches(frame, glob, generation);
      if (number < kMaxGlobs) answers_.keep(frame_question(number), frame, generation, *answer);
    }
    if (!*answer) return false;
  }
  return frame == FrameTree::kRoot;
}

CallSites& callsites() noexcept {
  static constinit CallSites all;
  return all;
}

std::string_view StackSite::frame(std::size_t index) noexcept {
  if (frame_ == FrameTree::kUnknown || index < frame_index_) {
    frame_index_ = 0;
    frame_ = stack_;
  }
  for (; frame_index_ < index; ++frame_index_) frame_ = sites_.tree().parent(frame_);
  return sites_.symbols().text(sites_.tree().address(frame_), generation_);
}

}  // namespace graphpool
