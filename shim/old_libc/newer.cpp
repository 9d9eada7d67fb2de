// newer.cpp: functions, and a variable, that the C library got after version 2.28 and that this library uses, or the
// libstdc++ and libgcc in it; written with functions that 2.28 has. They are hidden, so the program still uses those of
// its own C library.
//
// Not here: functions that only tests or sanitizers call.
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// Up to version 2.32 stat64() and its like called these functions, whose first argument is the number of the
// structure's layout: 1 on x86-64.
int __xstat64(int layout, const char* path, struct stat64* status) noexcept;
int __lxstat64(int layout, const char* path, struct stat64* status) noexcept;
int __fxstat64(int layout, int file, struct stat64* status) noexcept;
constexpr int kLayout = 1;

HIDDEN int stat64(const char* path, struct stat64* status) noexcept { return __xstat64(kLayout, path, status); }
HIDDEN int lstat64(const char* path, struct stat64* status) noexcept { return __lxstat64(kLayout, path, status); }
HIDDEN int fstat64(int file, struct stat64* status) noexcept { return __fxstat64(kLayout, file, status); }

HIDDEN pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

/// Where this is true, libstdc++ leaves out atomic operations. It is never true here: a preloaded library cannot know
/// whether the program has other threads.
HIDDEN char __libc_single_threaded = 0;

HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  static_cast<void>(getentropy(&value, sizeof value));
  return value;
}

/// What look_in_object() is given: the address to find, and where the result goes.
struct FindObject {
  std::uintptr_t address;
  dl_find_object* result;
};

/// Returns 1 and fills in the result if the loaded object holds the address and has an unwind table; else 0.
static int look_in_object(dl_phdr_info* info, std::size_t, void* given) noexcept {
  const auto& find = *static_cast<FindObject*>(given);
  std::uintptr_t first = ~std::uintptr_t{0}, last = 0;
  void* table = nullptr;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) table = reinterpret_cast<void*>(begin);
    if (part.p_type != PT_LOAD) continue;
    inside = inside || (begin <= find.address && find.address < end);
    first = begin < first ? begin : first;
    last = end > last ? end : last;
  }
  if (!inside || table == nullptr) return 0;
  *find.result = {};
  find.result->dlfo_map_start = reinterpret_cast<void*>(first);
  find.result->dlfo_map_end = reinterpret_cast<void*>(last);
  find.result->dlfo_eh_frame = table;
  return 1;
}

/// The C library has this function since version 2.35. A libgcc that was built beside such a version calls it to find
/// the unwind table of an address. Returns 0 if a loaded object contains the address and has such a table, else -1.
HIDDEN int _dl_find_object(void* address, dl_find_object* result) noexcept {
  FindObject find{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(look_in_object, &find) != 0 ? 0 : -1;
}

}  // extern "C"
