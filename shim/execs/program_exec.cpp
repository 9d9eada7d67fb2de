#include "shim/execs/program_exec.h"

#include <cassert>

#include "shim/recording/reason_counts.h"

namespace graphpool {

void ProgramExec::leave(const char* reason) noexcept {
  if (!std::exchange(touched_, true)) g_left_to_runtime.count(reason);
}

void ProgramExec::come_behind(Variant& former) {
  former.launches.seal();
  // If it was not launched since the last change, `before` stays as it is.
  if (auto launched = former.launches.copy()) before = std::move(launched);
}

void ProgramExec::become_own(std::unique_ptr<Variant> exec) {
  assert(recording != nullptr && (exec == nullptr || exec->holder() == Holder::kApart));
  own = std::move(exec);
  variant = own.get();
  --recording->users;
  recording = nullptr;
  written = nullptr;
}

void ProgramExec::become_served(Recording& by, Variant& serving) {
  assert(recording == nullptr && serving.owner() == this);
  recording = &by;
  variant = &serving;
}

}  // namespace graphpool
