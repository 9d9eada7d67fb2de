// materialisations.h: counts for the report how often a withheld capture or a deferred graph was made real, by reason,
// graph and operation. Bounded: kMost are told apart, others by their reason only. Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/recording/materialisation.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class Materialisations {
 public:
  void note(const Materialisation& made) noexcept EXCLUDES(g_recordings_lock) {
    const LockGuard guard(g_recordings_lock);
    count(made);
  }
  void count(const Materialisation& made) REQUIRES(g_recordings_lock);
  std::vector<Materialisation> all() const EXCLUDES(g_recordings_lock) {
    const LockGuard guard(g_recordings_lock);
    return counted_;
  }

 private:
  static constexpr std::size_t kMost = 256;

  bool count_known(const Materialisation& made) noexcept REQUIRES(g_recordings_lock);

  std::vector<Materialisation> counted_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
