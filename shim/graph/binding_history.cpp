#include "shim/graph/binding_history.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

namespace graphpool {
namespace {

constexpr std::size_t kWord = 8;

std::uint64_t fingerprint(const Binding& binding) noexcept {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(binding.data()), binding.size()});
}

}  // namespace

BindingHistory::Noted BindingHistory::note(const Binding& binding) {
  Noted noted;
  const std::uint64_t print = fingerprint(binding);
  const std::size_t known = std::min(noted_, kRemembered);
  noted.seen = std::find(prints_.begin(), prints_.begin() + static_cast<std::ptrdiff_t>(known), print) !=
               prints_.begin() + static_cast<std::ptrdiff_t>(known);
  const std::size_t words = binding.size() / kWord;
  if (last_.size() != binding.size()) {
    streaks_.assign(words, 0);
    last_ = binding;
  } else if (noted.seen) {
    std::fill(streaks_.begin(), streaks_.end(), std::uint8_t{0});
    last_ = binding;
  } else {
    for (std::size_t i = 0; i < words; ++i) {
      if (std::memcmp(last_.data() + i * kWord, binding.data() + i * kWord, kWord) == 0) {
        streaks_[i] = 0;
        continue;
      }
      if (streaks_[i] < kVolatileAfter) ++streaks_[i];
      noted.is_volatile = noted.is_volatile || streaks_[i] == kVolatileAfter;
    }
    std::memcpy(last_.data(), binding.data(), binding.size());
  }
  if (!noted.seen) prints_[noted_++ % kRemembered] = print;
  return noted;
}

std::size_t BindingHistory::volatile_words() const noexcept {
  return static_cast<std::size_t>(std::count(streaks_.begin(), streaks_.end(), kVolatileAfter));
}

}  // namespace graphpool
