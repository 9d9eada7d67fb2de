// exec_size.h: the device memory an exec is taken to hold, and the room it has for the arguments of kernels that are
// patched, by version of the runtime.
//
// Why: HIP does not tell, and a difference of hipMemGetInfo counts what other threads do. In clr an exec keeps the
// arguments of its kernels from 6.0 on, and from 6.3 on 128 KiB more for updates; every update takes new room there,
// and where there is none left a chunk of device memory, without a look whether there is one: where there is not, the
// process ends. So nothing is patched beyond that room. Each exec has streams of its own: one up to 7.1 even where its
// operations are one list, and where they are not, one for each list (from 6.3 on four at most). A stream takes 1 MiB
// for the arguments of what it launches, which lies in device memory or the host's: it counts here wherever it lies.
// Sources: hip_graph_internal.cpp and rocvirtual.cpp of clr at rocm-5.7.1, 6.0.2, 6.1.2, 6.2.2 and f9f995c6 (6.3).
// Units: bytes. Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

/// Kernel argument memory a node takes, hidden arguments and alignment with it.
std::size_t argument_memory(const Operation& operation) noexcept;

/// Device memory an exec of these operations is taken to hold. Throws std::bad_alloc.
std::size_t exec_memory(const std::vector<Operation>& operations, int version);

/// How much argument memory patches of one exec may take (probe set_kernel_takes_little_memory).
std::size_t room_for_patches(int version) noexcept;

/// An update of the program's takes so much for an exec that has taken `before` for updates already, and the exec is
/// as large. Where it needs another chunk the device is given memory back that is kept or held by execs nobody uses, if
/// it has too little left: natively that would be free. Without a lock held.
void make_argument_room(int device, std::size_t before, std::size_t bytes, std::size_t exec_bytes) noexcept;

}  // namespace graphpool
