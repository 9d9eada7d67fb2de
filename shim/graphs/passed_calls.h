// passed_calls.h: calls that are left to the runtime by graphs that are not known: how many went straight to it, and
// what the report calls them.
#pragma once

#include "shim/base/owned_count.h"

namespace graphpool {

/// Instantiates, and updates of execs that are not known, by graphs of captures that were left alone: they went
/// straight to the runtime.
inline constinit OwnedCount g_passed_instantiates, g_passed_updates;

inline constexpr const char* kUnknownGraphInstantiated = "a graph that is not known was instantiated";
inline constexpr const char* kUnknownExecUpdated = "an update of an exec that is not known";

}  // namespace graphpool
