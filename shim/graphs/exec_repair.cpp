#include "shim/graphs/exec_repair.h"

#include <memory>
#include <utility>

#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"

namespace graphpool {

/// Takes the exec that is kept in `real_path`, if it has the binding; else makes a new one, if what is made of the
/// recording is to be trusted, and the program's own calls have not changed the variant.
void ExecRepair::repair(ProgramExec& exec) {
  std::unique_ptr<Variant> made;
  const Variant* distrusted = nullptr;
  HeldRecording recording;
  Binding binding;
  {
    const LockGuard guard(exec.lock);
    if (exec.recording == nullptr || exec.variant == nullptr) return;
    distrusted = exec.variant;
    const bool rebuildable = exec.recording->rebuildable.load(std::memory_order_acquire);
    const bool made_wrongly = !rebuildable && distrusted->graph != nullptr && distrusted->is_broken();
    if (!made_wrongly && distrusted->health() != Health::kDistrusted) return;
    if (exec.real_path != nullptr && equal(exec.real_path->baked_by_holder(), exec.binding)) {
      made = std::move(exec.real_path);
    } else {
      if (!rebuildable || exec.set_by_program()) return;
      recording = hold(*exec.recording);
      binding = exec.binding;
    }
  }
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  if (made == nullptr && builder_.build(*recording, binding, exec.device, &made) != hipSuccess) return;
  bindings_.replace_variant(exec, *distrusted, std::move(made));
}

}  // namespace graphpool
