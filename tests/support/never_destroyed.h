// never_destroyed.h: an object as the engine has its tables: one that is never destroyed. What it holds stays
// reachable, so that a leak checker tells it from what was lost.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace graphpool {

template <typename T, typename... Arguments>
T& never_destroyed(Arguments&&... arguments) {
  static std::mutex lock;
  static std::vector<T*>* const all = new std::vector<T*>;
  T* const made = new T(std::forward<Arguments>(arguments)...);
  const std::scoped_lock guard(lock);
  all->push_back(made);
  return *made;
}

}  // namespace graphpool
