// glob.cpp: see glob.h.
#include "policy/glob.h"

#include <algorithm>

namespace graphpool {

Glob::Glob(std::string_view pattern) {
  pattern_.reserve(pattern.size());
  for (char c : pattern) {
    if (c == '*' && !pattern_.empty() && pattern_.back() == '*') continue;
    pattern_.push_back(c);
  }
  literal_bytes_ = std::min(pattern_.find_first_of("*?"), pattern_.size());
  least_bytes_ = pattern_.size() - static_cast<std::size_t>(std::count(pattern_.begin(), pattern_.end(), '*'));
}

bool Glob::matches(std::string_view name) const noexcept {
  if (name.size() < least_bytes_) return false;
  if (name.compare(0, literal_bytes_, pattern_, 0, literal_bytes_) != 0) return false;

  // Greedy with one point to go back to: a later `*` makes all choices of an earlier one equally good.
  std::size_t in_name = literal_bytes_;
  std::size_t in_pattern = literal_bytes_;
  std::size_t star = std::string::npos;
  std::size_t star_at = 0;
  while (in_name < name.size()) {
    if (in_pattern < pattern_.size() && pattern_[in_pattern] == '*') {
      star = in_pattern++;
      star_at = in_name;
    } else if (in_pattern < pattern_.size() && (pattern_[in_pattern] == '?' || pattern_[in_pattern] == name[in_name])) {
      ++in_pattern;
      ++in_name;
    } else if (star != std::string::npos) {
      in_pattern = star + 1;
      in_name = ++star_at;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern_.size() && pattern_[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern_.size();
}

}  // namespace graphpool
