// engine.h: what happens once at the first HIP call, after next is known.
#pragma once

namespace graphpool {

/// Loads the policy and sets every part of the engine up by it. False: everything is to be passed through.
bool start_engine() noexcept;

}  // namespace graphpool
