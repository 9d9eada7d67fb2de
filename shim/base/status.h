// status.h: codes by which the engine's own functions say that something did not work. HIP calls have hipError_t.
#pragma once

namespace graphpool {

enum class [[nodiscard]] Status{
    kOk,
    kNotFound,     ///< what was asked for is not there
    kUnsupported,  ///< the runtime or the input cannot be served; the program's own path is taken
    kMalformed,    ///< input that breaks its format
    kNoMemory,     ///< host or device memory ran out; nothing was changed
    kFailed,       ///< a HIP call failed; nothing was changed
};

}  // namespace graphpool
