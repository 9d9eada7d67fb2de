#include "shim/callsite/unwinder.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

namespace graphpool {

AddressRange object_around(const void* address) noexcept {
  struct Search {
    std::uintptr_t address;
    AddressRange found;
  } search{reinterpret_cast<std::uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) -> int {
        auto* search = static_cast<Search*>(data);
        AddressRange range{UINTPTR_MAX, 0};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          const std::uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          range.begin = std::min(range.begin, begin);
          range.end = std::max(range.end, begin + info->dlpi_phdr[i].p_memsz);
        }
        if (!range.contains(search->address)) return 0;
        search->found = range;
        return 1;
      },
      &search);
  return search.found;
}

Status Unwinder::open(AddressRange own, const char* library) noexcept {
  if (ready()) return Status::kOk;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* function = handle == nullptr ? nullptr : dlsym(handle, "unw_backtrace");
  if (function == nullptr) {
    (void)dlerror();  // the host must not find our failure there
    if (handle != nullptr) dlclose(handle);
    return Status::kNotFound;
  }
  const LockGuard guard(lock_);
  if (ready()) return Status::kOk;
  own_ = own;
  backtrace_.store(reinterpret_cast<Function*>(function), std::memory_order_release);
  return Status::kOk;
}

void Unwinder::unwind(Backtrace* stack) const noexcept {
  stack->count = 0;
  stack->whole = true;
  Function* backtrace = backtrace_.load(std::memory_order_acquire);
  if (backtrace == nullptr) return;
  std::array<void*, Backtrace::kMaxFrames> frames;
  const int got = backtrace(frames.data(), static_cast<int>(frames.size()));
  stack->whole = got < static_cast<int>(frames.size());
  for (int i = 0; i < got; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (address != 0 && !own_.contains(address)) stack->addresses[stack->count++] = address;
  }
}

}  // namespace graphpool
