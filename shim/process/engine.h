// engine.h: sets the engine up at the first HIP call, once next is known.
#pragma once

namespace graphpool {

// The steps of the start, in this order, once the policy has been read. Every thread that finds the library starting
// takes the first one, without a lock. One thread takes the second, under a lock; of dl* functions it calls only
// dl_iterate_phdr, which waits for no constructor of another thread.

/// Opens the libraries that the policy needs, and has the kernel register the process for barriers in its threads.
void open_what_policy_needs() noexcept;

/// Sets every part of the engine up by the policy. False: everything is to be passed through.
bool start_engine() noexcept;

}  // namespace graphpool
