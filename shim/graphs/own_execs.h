// own_execs.h: makes execs the program's own, because the program may change them past the library (rule 2).
//
// Such an exec has a variant that nobody else will ever use. It is made from a graph of our own, so that its nodes are
// known, unless the exec must stay the variant that it is. The program names its nodes by those of the graph that it
// was made from. Errors: HIP's. Threads: any; see execs/program_exec.h.
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>

#include "shim/execs/exec_builder.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_repair.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/noted_sets.h"
#include "shim/graphs/tracked_nodes.h"

namespace graphpool {

class OwnExecs {
 public:
  /// The parts of the engine that this one needs.
  struct Parts {
    ExecStore& store;
    ExecBuilder& builder;
    ExecBindings& bindings;
    NotedSets& noted;
    ExecTable& table;
    ExecLimit& limit;
    TrackedNodes& nodes;
    ExecRepair& repair;
  };
  explicit OwnExecs(const Parts& parts) noexcept : parts_(parts) {}

  /// Makes an exec, which a recording serves, the program's own.
  hipError_t taint(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);
  /// Gives the real exec for a call that is not followed: the exec is the program's own from now on. `reason`: a
  /// literal. `node`, which may be null, becomes the exec's own node if the program names one of the graph that the
  /// exec was made from; else the real node.
  hipError_t expose(hipGraphExec_t* exec, hipGraphNode_t* node, const char* reason);

 private:
  static hipError_t bring_up_to_date(const ProgramExec& exec, const Variant& own);
  void let_go_of(ProgramExec& exec, std::unique_ptr<Variant> former) EXCLUDES(exec.lock, g_recordings_lock);
  hipError_t make_own(ProgramExec& exec, bool stays, std::unique_ptr<Variant> unstaged, std::unique_ptr<Variant>* own);
  hipError_t expose_node(const ProgramExec& exec, hipGraphNode_t* node);

  Parts parts_;
};

}  // namespace graphpool
