#include "shim/graphs/instantiation.h"

#include <utility>

#include "shim/base/trace.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/user_objects.h"
#include "shim/graphs/passed_calls.h"
#include "shim/hip/entry.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {

hipError_t Instantiation::instantiate(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags,
                                      NativeInstantiate native) {
  const TraceSpan traced(TraceKind::kInstantiate);
  const TimedCall timed;
  count_.add();
  const bool plain = flags == 0 || flags == kInstantiateAutoFree;
  const bool may_serve = parts_.settings.reuse && active() && exec != nullptr;
  TrackedGraph* const tracked = parts_.graphs.find(graph);
  hipError_t result = hipSuccess;
  if (tracked != nullptr && plain && may_serve && instantiate_tracked({*tracked, graph, flags, native}, exec, &result))
    return result;
  if (may_serve)
    g_left_to_runtime.count(!plain               ? "instantiated with flags or parameters of its own"
                            : tracked == nullptr ? kUnknownGraphInstantiated
                                                 : "a graph that the program has changed was instantiated");
  tell_trace("the program's own call", 0);
  result = parts_.graphs.expose(&graph, tracked, "instantiated in a way of its own");
  return result == hipSuccess ? retry_with_room([&] { return native(graph, exec); }) : result;
}

/// Instantiates a tracked graph. False: it has no recording, and nothing was done.
bool Instantiation::instantiate_tracked(const Asked& asked, hipGraphExec_t* out, hipError_t* result) {
  const UsedGraph used =
      use_graph(asked.tracked, GraphUsedFor::kInstantiate, parts_.recordings, parts_.settings.track_operands);
  if (used.recording == nullptr) return false;
  Recording& recording = *used.recording;
  const int device = calling_device();
  look_for_completed_objects();
  auto exec = std::make_unique<ProgramExec>();
  exec->objects = used.objects;
  exec->begin(recording, used.binding);
  exec->device = device;
  exec->flags = asked.flags;
  exec->source = asked.tracked.id;
  parts_.limit.prepare(*exec);
  const ExecUse use(parts_.limit, exec.get());
  bool avoided = false;
  *result = hipSuccess;
  if (recording.node_count != 0) {
    Served served;
    *result = serve(asked, used, *exec, &served);
    exec->begin_service(served.variant, served.way);
    avoided = !served.made;
  }
  const hipGraphExec_t handle = *result == hipSuccess ? parts_.table.add(*exec) : nullptr;
  if (handle == nullptr) {
    give_back(*exec);
    if (*result == hipSuccess) *result = hipErrorOutOfMemory;
    return true;
  }
  if (used.real && !used.outlived && used.objects == nullptr) parts_.verifier.keep_real_path(*exec, asked.graph);
  tell_trace(way_name(exec->way_in_call()), recording.number);
  parts_.bindings.note_bound(*exec);
  parts_.limit.note_served(*exec.release());
  *out = handle;
  RetiredVariants retired;
  const LockGuard guard(g_recordings_lock);
  recording.statistics.instantiates_avoided += avoided ? 1 : 0;
  avoided_ += avoided ? 1 : 0;
  parts_.store.evict(recording, &retired);
  return true;
}

hipError_t Instantiation::serve(const Asked& asked, const UsedGraph& used, ProgramExec& exec, Served* served) {
  const auto make = [&](std::unique_ptr<Variant>* made) { return make_native(asked, exec, made); };
  const NativeVariant native_variant(make);
  // Nothing is made of a recording that verification has found to be wrong, although a graph may still be deferred.
  const bool natively =
      (used.real || !used.recording->rebuildable.load(std::memory_order_acquire)) && used.objects == nullptr;
  const OtherSources others{natively ? &native_variant : nullptr, false};
  // What a staged exec would be without staging could not be made any more (unstaged_execs.h).
  return used.outlived ? parts_.supply.obtain_unstaged(exec, *used.recording, used.binding, others, served)
                       : parts_.supply.obtain(exec, used.binding, others, served);
}

/// Makes the exec by the program's own call, of its own graph.
hipError_t Instantiation::make_native(const Asked& asked, const ProgramExec& exec, std::unique_ptr<Variant>* made) {
  auto variant = std::make_unique<Variant>();
  hipGraph_t source = asked.graph;
  hipError_t failed = parts_.graphs.read(&source, "instantiated");
  if (failed == hipSuccess)
    failed = memory_room().retry_after_trim(
        exec.device, [&] { return made_private(asked.native(source, &variant->exec), &variant->exec); });
  if (failed != hipSuccess) {
    variant->exec = nullptr;
    return failed;
  }
  variant->device = exec.device;
  variant->source = asked.tracked.id;
  variant->bake(exec.binding_in_call());
  *made = std::move(variant);
  return hipSuccess;
}

/// Frees what the exec has: the program does not get it after all.
void Instantiation::give_back(ProgramExec& exec) {
  const LockGuard guard(g_recordings_lock);
  --exec.recording_in_call()->users;
  if (exec.variant_in_call() != nullptr) parts_.store.give(*exec.variant_in_call(), nullptr);
}

}  // namespace graphpool
