#include "shim/graphs/own_execs.h"

#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/reissue.h"

namespace graphpool {
namespace {

constexpr const char* kNodeNamed = "an exec's node is named by it";

bool is_outdated(const Recording& recording) noexcept {
  const LockGuard guard(g_recordings_lock);
  return recording.outdated;
}

}  // namespace

/// Makes an exec that was the program's own before do what the binding says.
hipError_t OwnExecs::bring_up_to_date(const ProgramExec& exec, const Variant& own) {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> nodes;
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  device.set(exec.device);
  hipError_t result = build_graph(exec.recording_in_call()->operations, exec.binding_in_call(), &graph, &nodes);
  if (result != hipSuccess) return result;
  hipGraphNode_t error_node = nullptr;
  hipGraphExecUpdateResult outcome{};
  result = retry_with_room([&] { return next().hipGraphExecUpdate(own.exec, graph, &error_node, &outcome); });
  static_cast<void>(next().hipGraphDestroy(no_longer_private(graph)));
  return result;
}

/// Destroys the variant that was the program's own before. If a launch of it has not returned, the recording keeps it
/// meanwhile; it serves nobody any more.
void OwnExecs::let_go_of(ProgramExec& exec, std::unique_ptr<Variant> former) {
  const LockGuard exec_guard(exec.lock);
  if (former == nullptr || former->under_way.load(std::memory_order_relaxed) == 0) return;
  const LockGuard guard(g_recordings_lock);
  former->use_up(Health::kBroken);
  parts_.store.take_in(*exec.recording, std::move(former), nullptr);
}

/// Finds what is to be the program's own exec. *own stays null: it is the variant that serves now. `unstaged`: what the
/// exec would be without staging, or null.
hipError_t OwnExecs::make_own(ProgramExec& exec, bool stays, std::unique_ptr<Variant> unstaged,
                              std::unique_ptr<Variant>* own) {
  std::unique_ptr<Variant> former = std::move(exec.own);
  if (former != nullptr && !stays && bring_up_to_date(exec, *former) == hipSuccess) {
    *own = std::move(former);
    return hipSuccess;
  }
  if (former != nullptr) exec.source = 0;  // nobody has the program's nodes any more
  let_go_of(exec, std::move(former));
  if (unstaged != nullptr && equal(unstaged->baked_by_holder(), exec.binding_in_call())) {
    *own = std::move(unstaged);  // made while what it names was there
    return hipSuccess;
  }
  const bool unfit = exec.variant_in_call() == nullptr || exec.staged() || exec.variant_in_call()->is_broken();
  if (!unfit && (exec.variant_in_call()->graph != nullptr || exec.variant_in_call()->source == exec.source || stays))
    return hipSuccess;
  const LastErrorScope last_error;
  // What the exec was made over, or its functions, may be gone by now, so that it cannot be built again. Then the
  // program gets it as it is: the nodes that it was made of are the program's own.
  const hipError_t result =
      is_outdated(*exec.recording_in_call())
          ? hipErrorNotSupported
          : parts_.builder.build(*exec.recording_in_call(), exec.binding_in_call(), exec.device, own);
  return unfit ? result : hipSuccess;
}

hipError_t OwnExecs::taint(ProgramExec& exec) {
  if (const hipError_t result = parts_.noted.give(exec); result != hipSuccess) return result;
  if (exec.sets != nullptr) exec.sets.reset();  // a launch may be looking whether there are any
  std::unique_ptr<Variant> own, unstaged = parts_.bindings.take_unstaged(exec);
  const hipError_t result = make_own(exec, ExecBindings::must_stay(exec), std::move(unstaged), &own);
  if (result != hipSuccess) {
    parts_.bindings.note_bound(exec);
    return result;
  }
  const LockGuard exec_guard(exec.lock);
  if (exec.variant != nullptr && own != nullptr) exec.come_behind(*exec.variant);
  const LockGuard guard(g_recordings_lock);
  if (own == nullptr)
    own = parts_.store.remove(*exec.recording, exec.variant);
  else if (exec.variant != nullptr)
    parts_.store.disown(*exec.variant);
  exec.become_own(std::move(own));
  return hipSuccess;
}

hipError_t OwnExecs::expose(hipGraphExec_t* handle, hipGraphNode_t* node, const char* reason) {
  ProgramExec* const exec = parts_.table.find(*handle);
  if (exec == nullptr) {
    if (parts_.table.gave_out(*handle)) return refuse();
    return node == nullptr ? hipSuccess : parts_.nodes.read(node, kNodeNamed);
  }
  const ExecUse use(parts_.limit, exec);
  parts_.repair.before_call(exec);
  if (seeded_defect(Seeded::kTaintedServesOn) && node != nullptr && exec->recording_in_call() != nullptr &&
      exec->variant_in_call() != nullptr) {
    const NodeRef named = parts_.nodes.find(*node);
    *handle = exec->variant_in_call()->exec;
    if (named.index < exec->variant_in_call()->nodes.size()) *node = exec->variant_in_call()->nodes[named.index];
    return hipSuccess;
  }
  if (exec->recording_in_call() != nullptr) {
    const hipError_t result = taint(*exec);
    if (result != hipSuccess) return result;
  }
  exec->leave(reason);
  *handle = exec->own->exec;
  return node == nullptr ? hipSuccess : expose_node(*exec, node);
}

/// Puts the exec's own node in place of the one that the program names.
hipError_t OwnExecs::expose_node(const ProgramExec& exec, hipGraphNode_t* node) {
  const NodeRef named = parts_.nodes.find(*node);
  if (named.graph == nullptr || named.graph->id != exec.source || named.index >= exec.own->nodes.size())
    return parts_.nodes.read(node, kNodeNamed);
  *node = exec.own->nodes[named.index];
  return hipSuccess;
}

}  // namespace graphpool
