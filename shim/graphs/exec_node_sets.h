// exec_node_sets.h: serves the program's calls that set what a node of its exec does.
//
// The program's binding changes. Bytes that are the same need no call, unless the node may hold on to memory that was
// freed since (memory/freed_memory.h): its address may be that of another allocation now. Other bytes are given to the
// exec's own variant by the program's own call, as natively: nobody else uses that variant while the exec lives (rule
// 20), and launches before and after keep their order because it is the same exec (rule 3). What the variant then has
// baked in is known if the runtime is known to update the class of node correctly (rule 9); else it goes with its
// holder. If a free variant has the new binding, it serves instead and HIP is not called. A staged exec is given the
// new binding as a whole (ExecUpdates::rebind()).
// If bindings come back from launch to launch (execs/exec_sets.h), the library only notes what is set. At the launch
// the exec's variant, whose nodes are the library's own, is given the sets that are still noted (noted_sets.h), by the
// calls that the program has made. That takes host memory only (rule 15; for arguments on the device room is made
// before). A binding that comes back for the second time gets a variant of its own at the set that completes it. Else a
// set makes a variant only for an exec that is staged, was given back or is broken, whatever the policy says: where
// many nodes are set in turn, each set would make an exec that nobody launches.
// Errors are HIP's. Threads: any; see execs/program_exec.h.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <optional>

#include "shim/base/function_ref.h"
#include "shim/execs/exec_builder.h"
#include "shim/execs/exec_sets.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/exec_updates.h"
#include "shim/graphs/noted_sets.h"
#include "shim/graphs/own_execs.h"
#include "shim/graphs/tracked_nodes.h"

namespace graphpool {

using NativeExecNodeCall = FunctionRef<hipError_t(hipGraphExec_t exec, hipGraphNode_t node)>;

class ExecNodeSets {
 public:
  /// The parts of the engine that this one needs.
  struct Parts {
    ExecStore& store;
    ExecBuilder& builder;
    ExecBindings& bindings;
    NotedSets& noted;
    OwnExecs& own;
    ExecUpdates& updates;
    ExecTable& table;
    ExecLimit& limit;
    TrackedNodes& nodes;
    ExecRepair& repair;
    const GraphSettings& settings;
  };
  explicit ExecNodeSets(const Parts& parts) noexcept : parts_(parts) {}

  /// `describe`: what the program sets. `forward` gets the real exec and its node.
  hipError_t set(hipGraphExec_t exec, hipGraphNode_t node, Describe describe, NativeExecNodeCall forward);

 private:
  /// A node that the program sets in an exec, and what it sets there.
  struct NodeSet {
    hipGraphNode_t node;
    std::uint32_t index;  ///< of its operation
    const Operation& operation;
    const Binding& payload;
    ExecSets::Print change;  ///< of the binding's fingerprint
  };
  /// HIP's answer. Empty: the runtime must judge the call, and what it makes of the exec is not known.
  using Answer = std::optional<hipError_t>;

  Answer set_tracked(ProgramExec& exec, hipGraphNode_t node, std::uint32_t index, Describe describe,
                     NativeExecNodeCall forward);
  Answer give_node(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward);
  bool keeps_sets(ProgramExec& exec) const;
  bool serve_set(ProgramExec& exec, const NodeSet& set) EXCLUDES(exec.lock, g_recordings_lock);
  bool note_set(ProgramExec& exec, const NodeSet& set) EXCLUDES(exec.lock, g_recordings_lock);
  Answer set_natively(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward)
      EXCLUDES(exec.lock, g_recordings_lock);
  void note_set_natively(ProgramExec& exec, const NodeSet& set, bool exact) EXCLUDES(exec.lock, g_recordings_lock);

  Parts parts_;
};

}  // namespace graphpool
