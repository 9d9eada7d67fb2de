// engine.h: what happens once at the first HIP call, after next is known.
#pragma once

#include "policy/policy.h"

namespace graphpool {

/// Loads the policy and sets every part of the engine up by it. False: everything is to be passed through.
bool start_engine() noexcept;

/// The process's policy. Only while the library is active or draining.
const Policy& policy() noexcept;

}  // namespace graphpool
