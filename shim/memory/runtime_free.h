// runtime_free.h: waits, and judges an address, as the runtime's own free does: by freeing a page of ours.
//
// Threads: any. The calls wait, so the caller holds no lock.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/base/function_ref.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// Waits for all streams of the device, even if no fence can be made. Returns false if no page could be made and freed.
bool wait_like_free(StreamWork& work, int device) noexcept;

/// What the runtime answers when an allocation that `make` makes on the device is freed by `free`: at its base or, with
/// `inside`, at an address inside. The program finds the answer as its last error. Without memory for the allocation,
/// `free` gets an address of no allocation or, with `inside`, null.
hipError_t judge_free(int device, bool inside, FunctionRef<hipError_t(void**)> make,
                      FunctionRef<hipError_t(void*)> free) noexcept;

/// Makes the page to be freed: an allocation of hipMalloc.
hipError_t make_page(void** page) noexcept;

}  // namespace graphpool
