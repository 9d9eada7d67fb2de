// waits.h: notes what threads of the program wait for inside the library, so that a report can tell it while they wait.
//
// Threads: any; a wait belongs to the thread that notes it. Noting takes no lock and allocates nothing. There are kMost
// places: when more threads wait, the report does not name the rest. The trace has each wait (trace.h). Texts are
// literals. Units: ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/base/trace.h"

namespace graphpool {

/// Notes a wait that lasts as long as this object.
class NotedWait {
 public:
  /// `graph`: number of its recording; 0: none.
  explicit NotedWait(const char* what, std::uint64_t graph = 0) noexcept;
  ~NotedWait();
  NotedWait(const NotedWait&) = delete;
  NotedWait& operator=(const NotedWait&) = delete;

  /// Notes the reason why the thread still waits. A null pointer takes the noted reason away.
  void because(const char* reason) noexcept;

  static constexpr std::size_t kMost = 64;

 private:
  std::size_t place_ = kMost;
  const TraceSpan traced_;
};

struct WaitSeen {
  const char *what, *reason;
  std::uint64_t graph, thread, ms;
};
/// The waits of this moment. Throws std::bad_alloc.
std::vector<WaitSeen> waits_now();

}  // namespace graphpool
