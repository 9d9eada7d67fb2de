// asked_kernels.h: asks the runtime what only it knows of code: the architectures of its devices, and the arguments of
// kernels whose code objects the library cannot read ("HIPK" wrappers, whose code is in an archive elsewhere; bundles
// of SPIR-V).
//
// hipKernelGetParamInfo answers where each argument lies: these bytes are what the runtime itself reads of a launch. It
// does not say what an argument is, so each is taken for bytes that may be, or hold, an address. AMD's function (7.2.4
// has none, later versions do) takes the handle of a kernel's function. For a host stub hipGetFuncBySymbol gives that
// handle, and loads the code as the launch would.
//
// Threads: any. The caller holds no lock of this folder. Cost: a few calls for each kernel, in the first capture that
// has it; and once for the devices.
#pragma once

#include "shim/kernel/code_object.h"
#include "shim/kernel/functions.h"

namespace graphpool {

/// The architectures of the process's devices; the answer stays valid. None while the runtime does not say.
Architectures device_architectures() noexcept;

/// Asks the runtime for the arguments of a kernel that may be asked for (KernelInfo). Returns what is known then.
KernelInfo ask_kernel(const void* stub_or_function, const KernelInfo& unknown) noexcept;

}  // namespace graphpool
