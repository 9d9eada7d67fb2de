// passed_calls.h: counts the calls with graphs of captures that were left alone, which went straight to the runtime,
// and has the report's words for them.
#pragma once

#include "shim/base/owned_count.h"

namespace graphpool {

/// Instantiates, and updates of execs that are not known, by graphs of captures that were left alone: they went
/// straight to the runtime.
inline constinit OwnedCount g_passed_instantiates, g_passed_updates;

inline constexpr const char* kUnknownGraphInstantiated = "a graph that is not known was instantiated";
inline constexpr const char* kUnknownExecUpdated = "an update of an exec that is not known";

}  // namespace graphpool
