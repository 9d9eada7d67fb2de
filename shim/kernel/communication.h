// communication.h: whether a kernel is one of a communication library.
//
// Why: such a kernel meets its peers while it runs, and they read and write buffers of this process through addresses
// that no argument names. A graph that has one works on the program's memory, and is run once (rule 12).
//
// The test: the kernel's name in its code object, or the name of the file that its host stub or its module came from,
// contains, in any case: nccl (so RCCL's kernels too, which are called ncclDev...), rccl, msccl, rocshmem or nvshmem.
// A kernel of another that has such a name costs its graph staging and comparing, nothing else. Kernels of a program's
// own that meet peers are told by the memory they reach (memory/shared_memory.h).
//
// Threads: any. Locks: kKernels; not to be asked under one, for the loader is asked too.
#pragma once

#include <string_view>

namespace graphpool {

/// Whether a name is one of those above.
bool names_communication(std::string_view name) noexcept;

bool is_communication_kernel(const void* stub_or_function) noexcept;

}  // namespace graphpool
