#include "shim/memory/runtime_free.h"

#include "shim/base/units.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/never_address.h"

namespace graphpool {

bool wait_like_free(StreamWork& work, int device) noexcept {
  const SavedDevice current(device);
  void* page = nullptr;
  if (!current.ok() || !PrivateCalls::worked([&] { return make_page(&page); })) return false;
  const WorkCounts::Snapshot waited_for = work.counts.before_device_sync(device);
  if (!PrivateCalls::gave_back([&] { return next().hipFree(page); })) return false;
  work.counts.idle(waited_for);
  return true;
}

hipError_t judge_free(int device, bool inside, FunctionRef<hipError_t(void**)> make,
                      FunctionRef<hipError_t(void*)> free) noexcept {
  void* page = nullptr;
  {
    const PrivateCalls private_calls;
    const SavedDevice current(device);
    if (!current.ok() || !PrivateCalls::worked([&] { return make(&page); })) page = nullptr;
  }
  // Without memory nothing can be tried. With all of AMD's runtimes an address inside an allocation frees it.
  if (page == nullptr) return free(inside ? nullptr : never_allocated_address());
  const hipError_t error = free(static_cast<char*>(page) + (inside ? 1 : 0));
  if (error != hipSuccess) {
    const PrivateCalls private_calls;
    (void)PrivateCalls::gave_back([&] { return next().hipFree(page); });
  }
  return error;
}

hipError_t make_page(void** page) noexcept { return next().hipMalloc(page, kPageBytes); }

}  // namespace graphpool
