#include "shim/costs/returns.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace graphpool {

std::uint64_t Returns::captured(std::uint64_t left_alone) noexcept {
  now_ = std::max(now_, ++looked_into_ + left_alone);
  return now_;
}

void Returns::came_back(std::uint64_t captures) noexcept {
  if (captures != 0) took_[next_++ % kJudged] = captures;
}

bool Returns::often_after(std::uint64_t captures) const noexcept {
  const auto many =
      std::count_if(took_.begin(), took_.end(), [captures](std::uint64_t took) { return took >= captures; });
  return captures != 0 && static_cast<std::size_t>(many) >= kOften;
}

/// A number of what makes two recordings equal: signatures and order. Never 0, which says that a place is free.
std::uint64_t Returns::number_of(const std::vector<Operation>& operations) noexcept {
  std::uint64_t number = operations.size();
  const auto mix = [&number](std::uint64_t word) {
    number = (number ^ word) * 0x9e3779b97f4a7c15u;
    number ^= number >> 29;
  };
  for (const Operation& operation : operations) {
    std::uint64_t words[sizeof(Signature) / sizeof(std::uint64_t)];
    static_assert(sizeof words == sizeof(Signature), "a signature is whole words");
    std::memcpy(words, &operation.signature, sizeof words);
    for (const std::uint64_t word : words) mix(word);
    for (const std::uint32_t after : operation.after) mix(after);
  }
  return number | 1;
}

void Returns::let_go(const std::vector<Operation>& operations, std::uint64_t used_at) noexcept {
  if (departures_ == nullptr) departures_.reset(new (std::nothrow) Departure[kRemembered]);
  if (departures_ == nullptr) return;
  const std::uint64_t number = number_of(operations);
  departures_[(number >> 32) % kRemembered] = {number, used_at};
}

std::uint64_t Returns::away_for(const std::vector<Operation>& operations) const noexcept {
  if (departures_ == nullptr) return 0;
  const std::uint64_t number = number_of(operations);
  const Departure& departure = departures_[(number >> 32) % kRemembered];
  return departure.number == number ? now_ + 1 - departure.used_at : 0;
}

}  // namespace graphpool
