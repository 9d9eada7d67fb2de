#include "shim/graphs/exec_bindings.h"

#include <new>
#include <utility>

#include "shim/streams/open_captures.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

/// Lets go of the user objects of the graph that the exec was instantiated from, once its launches are complete.
/// Without host memory for the list of these the objects go with the exec.
void let_go_of_objects_of(ProgramExec& exec) noexcept {
  try {
    Launches launches;
    if (exec.variant_in_call() != nullptr) launches.push_back(exec.variant_in_call()->launches.copy());
    {
      const LockGuard guard(exec.lock);
      launches.push_back(std::move(exec.before));
    }
    let_go_of_objects(std::move(exec.objects), std::move(launches));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

void ExecBindings::switch_to(ProgramExec& exec, const Served& served, const Binding& binding) {
  Variant* former = nullptr;
  std::unique_ptr<Variant> real_path;  // destroyed when the lock is not held any more
  {
    const LockGuard guard(exec.lock);
    former = exec.variant;
    real_path = std::move(exec.real_path);
    exec.bind(binding, served.way);
    if (served.variant != former) {
      if (former != nullptr) exec.come_behind(*former);
      const LockGuard recordings(g_recordings_lock);
      exec.variant = served.variant;
      if (former != nullptr) store_.disown(*former);
    }  // else it was patched, or is a ring that was given other buffers
  }
  limit_.note_served(exec);
  if (former == nullptr) limit_.note_made_again();
  note_bound(exec);
}

void ExecBindings::replace_variant(ProgramExec& exec, const Variant& instead_of, std::unique_ptr<Variant> made) {
  const bool of_program = made->graph == nullptr;
  const LockGuard guard(exec.lock);
  Variant* const former = exec.variant;
  if (former != &instead_of || exec.recording == nullptr || exec.becoming_own) return;
  exec.come_behind(*former);
  Variant* const adopted = store_.adopt(*exec.recording, std::move(made), &exec);
  exec.way = Way::kNewExec;
  const LockGuard recordings(g_recordings_lock);
  if (of_program) adopted->worsen(Health::kUnsure);
  exec.variant = adopted;
  store_.disown(*former);
}

void ExecBindings::note_bound(ProgramExec& exec) {
  if (settings_.check) note_allocations(exec);
  bool needs_other = false;
  {
    const LockGuard guard(exec.lock);
    needs_other = exec.staged() || exec.given_back();
  }
  if (needs_other)
    unstaged_.bound(&exec.unstaged, *exec.recording_in_call(), exec.device, exec.binding_in_call());
  else
    take_unstaged(exec);
}

void ExecBindings::note_allocations(ProgramExec& exec) noexcept {
  const LockGuard guard(exec.lock);
  try {
    exec.allocations = StaleAddresses::allocations_of(exec.recording->operations, exec.binding);
  } catch (const std::bad_alloc&) {
    exec.allocations.clear();
  }
}

bool ExecBindings::must_stay(ProgramExec& exec) {
  if (!captures_open() || exec.variant_in_call() == nullptr || exec.staged() || exec.variant_in_call()->is_broken())
    return false;
  const LockGuard guard(exec.lock);
  return !exec.variant->launches.seal();
}

void ExecBindings::disown(Variant& used) noexcept {
  const LockGuard guard(g_recordings_lock);
  store_.disown(used);
}

void ExecBindings::release_destroyed(ProgramExec& exec) noexcept {
  try {
    release(std::unique_ptr<ProgramExec>(&exec), nullptr);
  } catch (const std::bad_alloc&) {
  }
}

void ExecBindings::release(std::unique_ptr<ProgramExec> exec, RetiredVariants* retired) {
  if (exec->objects != nullptr) let_go_of_objects_of(*exec);
  if (exec->recording_in_call() == nullptr) return;  // tainted: its own exec goes with it
  const std::unique_ptr<Variant> unstaged = take_unstaged(*exec);
  const LockGuard guard(g_recordings_lock);
  --exec->recording_in_call()->users;
  if (exec->variant_in_call() != nullptr) {
    store_.give(*exec->variant_in_call(), nullptr);
    if (exec->variant_in_call()->health() != Health::kGood) {
      exec->variant_in_call()->keep_no_longer();
      if (retired != nullptr) retired->push_back(store_.remove(*exec->recording_in_call(), exec->variant_in_call()));
    }
  }
  if (retired == nullptr) return;
  store_.evict(*exec->recording_in_call(), retired);
  recordings_.trim(retired);
}

}  // namespace graphpool
