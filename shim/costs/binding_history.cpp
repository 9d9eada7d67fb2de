#include "shim/costs/binding_history.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace graphpool {
namespace {

constexpr std::size_t kWord = 8;
/// Words looked at together.
constexpr std::size_t kBlock = 8;

std::uint64_t word_at(const std::byte* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Takes in whole words only. Makes several sums side by side, so that no multiplication waits for the one before.
std::uint64_t fingerprint(const Binding& binding) noexcept {
  constexpr std::size_t kLanes = 4;
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
  std::uint64_t sums[kLanes] = {1, 2, 3, 4};
  const std::size_t words = binding.size() / kWord;
  const auto add = [&](std::size_t lane, std::size_t word) {
    sums[lane] = (std::rotl(sums[lane], 23) ^ word_at(binding.data() + word * kWord)) * kFactor;
  };
  std::size_t i = 0;
  for (; i + kLanes <= words; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
  for (; i < words; ++i) add(i % kLanes, i);
  std::uint64_t print = words;
  for (const std::uint64_t sum : sums) print = (std::rotl(print, 29) ^ sum ^ sum >> 32) * kFactor;
  return print;
}

}  // namespace

BindingHistory::Noted BindingHistory::note(const Binding& binding) {
  Noted noted;
  const std::uint64_t print = fingerprint(binding);
  const std::size_t known = std::min(noted_, kRemembered);
  const std::size_t place = static_cast<std::size_t>(
      std::find(prints_.begin(), prints_.begin() + static_cast<std::ptrdiff_t>(known), print) - prints_.begin());
  noted.seen = place != known;
  const std::size_t words = binding.size() / kWord;
  if (last_.size() != binding.size()) {
    streaks_.assign(words, 0);
  } else if (noted.seen) {
    std::fill(streaks_.begin(), streaks_.end(), std::uint8_t{0});
  } else {
    for (std::size_t first = 0; first < words; first += kBlock) {
      const std::size_t end = std::min(first + kBlock, words);
      if (std::memcmp(last_.data() + first * kWord, binding.data() + first * kWord, (end - first) * kWord) == 0) {
        std::fill_n(streaks_.begin() + static_cast<std::ptrdiff_t>(first), end - first, std::uint8_t{0});
        continue;
      }
      for (std::size_t i = first; i < end; ++i) {
        if (word_at(last_.data() + i * kWord) == word_at(binding.data() + i * kWord)) {
          streaks_[i] = 0;
          continue;
        }
        if (streaks_[i] < kVolatileAfter) ++streaks_[i];
        noted.is_volatile = noted.is_volatile || streaks_[i] == kVolatileAfter;
      }
    }
  }
  last_ = binding;
  const std::size_t index = noted.seen ? place : noted_++ % kRemembered;
  ++clock_;
  if (noted.seen) noted.ago = clock_ - times_[index];
  prints_[index] = print;
  times_[index] = clock_;
  return noted;
}

std::size_t BindingHistory::volatile_words() const noexcept {
  return static_cast<std::size_t>(std::count(streaks_.begin(), streaks_.end(), kVolatileAfter));
}

}  // namespace graphpool
