// runtime_free.h: what the runtime's own free does, had by freeing a page of ours: it waits, and it judges an address.
//
// Threads: any; no lock held, for the calls wait.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/base/function_ref.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// Waits for all streams of the device, also where no fence can be made. Returns false where there was no page to free.
bool wait_like_free(StreamWork& work, int device) noexcept;

/// What the runtime answers where an allocation made on the device by `make` is freed by `free`: at its base, or at an
/// address inside. The answer stays for the program to find as its last error. Without memory for the page, of a free
/// that frees nothing.
hipError_t judge_free(int device, bool inside, FunctionRef<hipError_t(void**)> make,
                      FunctionRef<hipError_t(void*)> free) noexcept;

/// An allocation for judge_free(): a page of hipMalloc.
hipError_t make_page(void** page) noexcept;

}  // namespace graphpool
