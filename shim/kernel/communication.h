// communication.h: tells whether a kernel is one of a communication library.
//
// Why: such a kernel meets its peers while it runs, and they read and write buffers of this process through addresses
// that no argument names. A graph that has such a kernel works on the program's memory, and is run once (rule 12).
//
// The test: the kernel's name in its code object, or the name of the file that its host stub or its module came from,
// contains, in any case: nccl (so RCCL's kernels too, which are called ncclDev...), rccl, msccl, rocshmem or nvshmem. A
// handle of hipGetFuncBySymbol is told by the kernel's name alone. If another kernel has such a name, its graph is not
// staged, not verified by two runs, and not given back under graph.exec_memory; nothing else. A program's own kernels
// that meet peers are told by the memory that they reach (memory/shared_memory.h).
//
// Threads: any. Lock: kKernels. The caller holds no lock, because the loader is asked, too.
#pragma once

#include <string_view>

namespace graphpool {

/// Whether a name is one of those above.
bool names_communication(std::string_view name) noexcept;

bool is_communication_kernel(const void* stub_or_function) noexcept;

}  // namespace graphpool
