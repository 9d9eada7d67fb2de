// look_up.h: hipGetProcAddress: a function of the runtime by its name.
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipfront {

/// Looks in the library that this is part of. `version`: the one the program was built for, which decides the form of
/// what changed its structures. `per_thread`: the form for the thread's own stream where the function has one. `status`
/// may be null.
hipError_t look_up(const char* symbol, void** function, int version, int* status, bool per_thread);

}  // namespace hipfront
