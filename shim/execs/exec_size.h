// exec_size.h: estimates the device memory that an exec holds, and the room that it has for the arguments of patched
// kernels, by version of the runtime.
//
// Why: HIP does not tell, and a difference of hipMemGetInfo counts what other threads do. In clr an exec keeps the
// arguments of its kernels from 6.0 on, and from 6.3 on 128 KiB more for updates. Every update takes new room there. If
// none is left, it takes a chunk of device memory and does not check that it got one: if it did not, the process ends.
// So nothing is patched beyond that room. Each exec has streams of its own. If its operations are one list it has one
// stream before 7.2, and none from 7.2 on; else it has one for each list (from 6.3 on four at most). A stream takes 1
// MiB for the arguments of what it launches. That lies in device memory or the host's, and counts here in both cases.
// Sources: hip_graph_internal.cpp and rocvirtual.cpp of clr at rocm-5.7.1, 6.0.2, 6.1.2, 6.2.2 and f9f995c6 (6.3).
// Units: bytes. Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

/// The memory that a node takes for kernel arguments, hidden arguments and alignment included.
std::size_t argument_memory(const Operation& operation) noexcept;

/// The device memory that an exec of these operations is estimated to hold. Throws std::bad_alloc.
std::size_t exec_memory(const std::vector<Operation>& operations, int version);

/// How much argument memory all patches of one exec may take (probe set_kernel_takes_little_memory).
std::size_t room_for_patches(int version) noexcept;

/// Makes room before the program's own update of an exec. `before`: argument memory that its updates have taken so far;
/// `bytes`: what this one takes; `exec_bytes`: what the arguments of its recording take. If the update needs another
/// chunk, and the device has too little memory left, kept memory goes back, then that of execs nobody uses: natively it
/// would be free. The caller holds no lock.
void make_argument_room(int device, std::size_t before, std::size_t bytes, std::size_t exec_bytes) noexcept;

}  // namespace graphpool
