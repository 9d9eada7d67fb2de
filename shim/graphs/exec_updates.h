// exec_updates.h: serves hipGraphExecUpdate, and whatever else gives an exec another binding.
//
// An update by a graph of the exec's own recording is another binding, served as an instantiate's is. If nothing but a
// new exec would serve it exactly, the program's update call is made on the exec's present variant (update_own()), as a
// rule (costs/cost_model.h). An update by a graph of another recording is the runtime's the first time. If that
// succeeds, variants of the other recording serve such updates from then on (execs/program_exec.h).
//
// Errors are HIP's. Threads: any; see execs/program_exec.h.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "shim/base/owned_count.h"
#include "shim/execs/exec_builder.h"
#include "shim/execs/exec_supply.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_repair.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/graph_use.h"
#include "shim/graphs/launch_verifier.h"
#include "shim/graphs/noted_sets.h"
#include "shim/graphs/own_execs.h"
#include "shim/graphs/tracked_graphs.h"

namespace graphpool {

class ExecUpdates {
 public:
  /// The parts of the engine that this one needs.
  struct Parts {
    ExecStore& store;
    ExecBuilder& builder;
    ExecSupply& supply;
    Recordings& recordings;
    ExecBindings& bindings;
    NotedSets& noted;
    OwnExecs& own;
    ExecTable& table;
    ExecLimit& limit;
    TrackedGraphs& graphs;
    GraphNodes& nodes;
    LaunchVerifier& verifier;
    ExecRepair& repair;
    const GraphSettings& settings;
  };
  explicit ExecUpdates(const Parts& parts) noexcept : parts_(parts) {}

  hipError_t update(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                    hipGraphExecUpdateResult* result);
  /// Notes the result of the runtime's update, by a graph that nobody followed, of an exec that no recording serves.
  void updated_unfollowed(ProgramExec& exec, hipGraphNode_t* error_node, const hipGraphExecUpdateResult* result,
                          hipError_t failed);
  /// Lets the exec serve this binding, because the program has set a node. Launches in flight keep the old binding.
  /// Fails where the program's own call must do it.
  hipError_t rebind(ProgramExec& exec, const Binding& binding) { return rebind(exec, binding, nullptr); }

  std::uint64_t count() const noexcept { return count_.load(); }
  std::uint64_t avoided() const noexcept REQUIRES(g_recordings_lock) { return avoided_; }

 private:
  /// What the program asks for.
  struct Asked {
    hipGraphExec_t handle;
    hipGraph_t graph;
    hipGraphNode_t* error_node;
    hipGraphExecUpdateResult* result;
    ProgramExec* exec;      ///< what the handle stands for; null: it is not the library's, or gone
    TrackedGraph* tracked;  ///< what the graph's handle stands for; null: it is not known

    bool tells() const noexcept { return error_node != nullptr && result != nullptr; }
  };
  /// The graph of an update, if it is of the exec's own recording.
  struct UpdateBy {
    hipGraph_t graph = nullptr;
    bool real = false;    ///< the runtime has it
    bool native = false;  ///< set by update_own(): the program's own call was made
  };
  /// What is known of the graph of an update that is the program's own call.
  struct NativeUpdate {
    hipGraph_t graph = nullptr;
    HeldRecording recording;           ///< what it is; none: not known
    const Binding* binding = nullptr;  ///< its binding; null: not known, or memory that it names may be freed
    bool plain = false;                ///< the graph is not tracked: a capture left alone, for example
  };

  hipError_t update_found(const Asked& asked);
  hipError_t update_unfollowed(const Asked& asked);
  /// Null: it is done. Else the reason why the program's own call must do it.
  const char* serve_update(const Asked& asked, const UsedGraph& used);
  hipError_t forward(const Asked& asked, NativeUpdate by, const char* reason);
  hipError_t rebind(ProgramExec& exec, const Binding& binding, UpdateBy* by);
  hipError_t update_own(ProgramExec& exec, const Binding& binding, UpdateBy* by);
  hipError_t move_to(ProgramExec& exec, Recording& recording, const Binding& binding);
  hipError_t update_natively(ProgramExec& exec, NativeUpdate by, const Asked& asked);
  void note_native_update(ProgramExec& exec, HeldRecording former, NativeUpdate by, std::uint64_t freed_before);
  bool may_serve_again(const ProgramExec& exec, const NativeUpdate& by) noexcept EXCLUDES(g_recordings_lock);
  void serve_again(ProgramExec& exec, NativeUpdate by, std::uint64_t freed_before)
      EXCLUDES(exec.lock, g_recordings_lock);

  Parts parts_;
  OwnedCount count_;
  std::uint64_t avoided_ GUARDED_BY(g_recordings_lock) = 0;
};

}  // namespace graphpool
