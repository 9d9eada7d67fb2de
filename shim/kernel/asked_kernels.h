// asked_kernels.h: what only the runtime knows of code: what its devices call themselves, and the arguments of kernels
// whose code objects nobody here can read ("HIPK" wrappers, whose code is in an archive elsewhere; bundles of SPIR-V).
//
// hipKernelGetParamInfo answers where each argument lies: it is what the runtime itself reads of a launch. It says
// nothing of what an argument is, so each is taken for bytes that may be, or hold, an address. AMD's takes the handle
// of a function (later than 7.2.4, which has no such function); a host stub's comes by hipGetFuncBySymbol, which loads
// the code, as the launch would.
//
// Threads: any. Locks: none of this folder's may be held. Cost: a few calls, once a kernel, in the first capture that
// has it; once for the devices.
#pragma once

#include "shim/kernel/code_object.h"
#include "shim/kernel/functions.h"

namespace graphpool {

/// Of all devices of the process, good for ever; none while the runtime does not say.
Architectures device_architectures() noexcept;

/// Asks the runtime for the arguments of a kernel that may be asked for. Returns what is known then.
KernelInfo ask_kernel(const void* stub_or_function, const KernelInfo& unknown) noexcept;

}  // namespace graphpool
