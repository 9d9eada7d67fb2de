// instantiation.h: serves hipGraphInstantiate.
//
// A free variant whose baked-in binding is the graph's serves the exec; else one is patched or made. The program gets a
// handle of the library's. If the graph is not tracked or was modified, or the call has flags of its own, the exec is
// the runtime's.
// Errors are HIP's. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>

#include "shim/base/function_ref.h"
#include "shim/base/owned_count.h"
#include "shim/execs/exec_supply.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/graph_use.h"
#include "shim/graphs/launch_verifier.h"
#include "shim/graphs/tracked_graphs.h"

namespace graphpool {

/// Makes the exec by the program's own call.
using NativeInstantiate = FunctionRef<hipError_t(hipGraph_t graph, hipGraphExec_t* exec)>;

class Instantiation {
 public:
  /// The parts of the engine that this one needs.
  struct Parts {
    ExecStore& store;
    ExecSupply& supply;
    Recordings& recordings;
    ExecBindings& bindings;
    ExecTable& table;
    ExecLimit& limit;
    TrackedGraphs& graphs;
    LaunchVerifier& verifier;
    const GraphSettings& settings;
  };
  explicit Instantiation(const Parts& parts) noexcept : parts_(parts) {}

  /// Flags: 0 and kInstantiateAutoFree mean the same but for memory nodes, which no recording has. With any other flag
  /// the exec is always made natively.
  hipError_t instantiate(hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags, NativeInstantiate native);

  std::uint64_t count() const noexcept { return count_.load(); }
  std::uint64_t avoided() const noexcept REQUIRES(g_recordings_lock) { return avoided_; }

 private:
  /// A tracked graph to be instantiated.
  struct Asked {
    TrackedGraph& tracked;
    hipGraph_t graph;
    unsigned long long flags;
    NativeInstantiate native;
  };
  bool instantiate_tracked(const Asked& asked, hipGraphExec_t* exec, hipError_t* result);
  hipError_t serve(const Asked& asked, const UsedGraph& used, ProgramExec& exec, Served* served);
  hipError_t make_native(const Asked& asked, const ProgramExec& exec, std::unique_ptr<Variant>* made);
  void give_back(ProgramExec& exec) EXCLUDES(g_recordings_lock);

  Parts parts_;
  OwnedCount count_;
  std::uint64_t avoided_ GUARDED_BY(g_recordings_lock) = 0;
};

}  // namespace graphpool
