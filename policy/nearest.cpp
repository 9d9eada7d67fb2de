// nearest.cpp: optimal string alignment distance (Damerau 1964) over three rows.
#include "policy/nearest.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "policy/readers.h"

namespace graphpool {
namespace {

constexpr std::size_t kLongest = 64;

std::size_t distance(std::string_view a, std::string_view b) noexcept {
  using Row = std::array<std::size_t, kLongest + 1>;
  auto same = [](char x, char y) { return reading::lower(x) == reading::lower(y); };
  Row before_last{}, last{}, row{};
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0u : 1u)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) noexcept {
  std::string_view best;
  if (name.empty() || name.size() > kLongest) return best;
  std::size_t best_edits = kLongest;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    std::size_t edits = distance(name, candidate);
    if (edits * 3 > std::max(name.size(), candidate.size()) || edits >= best_edits) continue;
    best = candidate;
    best_edits = edits;
  }
  return best;
}

}  // namespace graphpool
