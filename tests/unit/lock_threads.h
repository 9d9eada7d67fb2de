// lock_threads.h: threads that take turns inside a lock.
#pragma once

#include <mutex>
#include <thread>
#include <vector>

namespace graphpool {

/// So many other threads and the caller enter so often each; how often they did, by a count that only the lock keeps
/// whole. begins(): called by each of the others first.
template <typename Lock, typename Begins>
long turns_inside(Lock& lock, int others, int other_turns, int own_turns, Begins begins) {
  long turns = 0;  // not atomic
  const auto enter = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const std::scoped_lock guard(lock);
      ++turns;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < others; ++i)
    threads.emplace_back([&] {
      begins();
      enter(other_turns);
    });
  enter(own_turns);
  for (std::thread& thread : threads) thread.join();
  return turns;
}

}  // namespace graphpool
