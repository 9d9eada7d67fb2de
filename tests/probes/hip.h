// hip.h: HIP's and hipRTC's functions by their names, in the runtime that was opened.
//
// Why: one binary asks every runtime, whatever its SONAME, and also one that lacks functions: calling one that is not
// there throws Unknown. Rows: shim/hip/hip_hooks.def. Threads: any, after open_runtime().
#pragma once

#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <stdexcept>
#include <string>

#include "shim/hip/hip_abi.h"

namespace probes {

/// The question cannot be asked here; what() says why.
struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Opens the runtime: this file, or null: the newest libamdhip64 that the loader finds. Throws Unknown.
void open_runtime(const char* file);

/// Throws Unknown where neither the runtime nor its hipRTC has the function.
void* function_named(const char* name);

namespace hip {

using graphpool::DriverEntryPointResult;
using graphpool::DriverLaunchConfig;
using graphpool::InstantiateParams;
using graphpool::LaunchConfig;
using graphpool::MemoryOperation;
using graphpool::ProcAddressResult;

#define PROBES_FUNCTION(result, name, parameters, arguments, node, declared, effect)                \
  inline result name parameters {                                                                   \
    static const auto the_runtimes = reinterpret_cast<result(*) parameters>(function_named(#name)); \
    return the_runtimes arguments;                                                                  \
  }
#define HIP_HOOK PROBES_FUNCTION
#define HIP_NEXT PROBES_FUNCTION
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#undef PROBES_FUNCTION

}  // namespace hip
}  // namespace probes
