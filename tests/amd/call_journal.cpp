// call_journal: stands between the library and AMD's runtime, and notes each call that reaches the runtime, as the CPU
// runtime does itself: a line with its name in the file CPUHIP_JOURNAL. Besides what the tests of tests/preload ask the
// CPU runtime: cpuhip_fail is here, too; a test that needs what only the CPU runtime has ends its process with code 77.
//
// Why: the tests count what has reached HIP. AMD's runtime keeps no such list.
// How: call_entries.S has a function for each that the runtime has (call_names.inc, made by preload_tests.py). It keeps
// the registers that hold arguments, asks journal_call() where to go on, and jumps there. Calls that the runtime makes
// to itself are not noted. hipMalloc is not among them, for then the library would find that somebody else owns memory
// (rule 39): it gets a jump in the padding before the runtime's own function, and the runtime's symbol the address of
// that jump. Threads: any.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

struct Row {
  const char* name;
  bool fallible;  // its result is a hipError_t, and its own
};
/// Whether the result is an error that another call has left: such a call does not fail, on the CPU runtime either.
constexpr bool tells_of_another(std::string_view name) { return name.ends_with("LastError"); }
constexpr Row kRows[] = {
#define CALL(name, fallible) {#name, fallible != 0 && !tells_of_another(#name)},
#include "call_names.inc"
};
constexpr std::size_t kRowCount = sizeof kRows / sizeof *kRows;
std::atomic<void*> real[kRowCount];
std::atomic<long long> calls_left{0};  // until one fails; 0: none does
std::atomic<int> failure{0};

struct Text {
  std::uintptr_t begin = 0, end = 0;
};
Text runtime_text;

int find_text(dl_phdr_info* info, std::size_t, void*) {
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  if (std::strncmp(slash != nullptr ? slash + 1 : info->dlpi_name, "libamdhip64.so", 14) != 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    runtime_text = {info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz};
  }
  return 1;
}

void note(const char* name) {
  static const int file = [] {
    const char* const path = std::getenv("CPUHIP_JOURNAL");
    return path == nullptr ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  }();
  char line[128];
  const int length = std::snprintf(line, sizeof line, "%s\n", name);
  if (file >= 0 && write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

int failed() { return failure; }

/// Where the runtime's own function is, for the jump of hipMalloc: kept from before its symbol was changed.
std::atomic<void*> real_malloc{nullptr};

[[noreturn]] void need(const char* what) {
  std::fprintf(stderr, "needs the CPU runtime: %s\n", what);
  _exit(77);
}

}  // namespace

extern "C" {

/// Where a call goes on: in the runtime, or in a function that fails.
void* journal_call(std::uint64_t row, std::uintptr_t caller) {
  void* target = real[row];
  if (target == nullptr) real[row] = target = dlsym(RTLD_NEXT, kRows[row].name);
  if (caller >= runtime_text.begin && caller < runtime_text.end) return target;
  note(kRows[row].name);
  if (kRows[row].fallible && calls_left > 0 && --calls_left == 0) return reinterpret_cast<void*>(&failed);
  return target;
}
void* journal_malloc(std::uintptr_t caller) {
  if (caller >= runtime_text.begin && caller < runtime_text.end) return real_malloc;
  note("hipMalloc");
  if (calls_left > 0 && --calls_left == 0) return reinterpret_cast<void*>(&failed);
  return real_malloc;
}
void journal_malloc_entry();

__attribute__((visibility("default"))) void cpuhip_fail(unsigned long long after, int code) {
  failure = code;
  calls_left = code == 0 ? 0 : static_cast<long long>(after);
}
__attribute__((visibility("default"))) int cpuhip_held_up(void*) { need("cpuhip_held_up"); }
__attribute__((visibility("default"))) int cpuhip_looks_up(const char*, const char*) { need("cpuhip_looks_up"); }
__attribute__((visibility("default"))) void cpuhip_statistics(void*) { need("cpuhip_statistics"); }

}  // extern "C"

namespace {

constexpr std::size_t kJumpBytes = 5;

bool is_padding(const unsigned char* at, std::size_t bytes) {
  static constexpr unsigned char kNops[][9] = {{0x0f, 0x1f, 0x80, 0, 0, 0, 0},
                                               {0x1f, 0x84, 0, 0, 0, 0, 0},
                                               {0xcc, 0xcc, 0xcc, 0xcc, 0xcc},
                                               {0x90, 0x90, 0x90, 0x90, 0x90}};
  static constexpr std::size_t kBytes[] = {7, 7, 5, 5};
  for (std::size_t i = 0; i < 4; ++i)
    if (bytes >= kBytes[i] && std::memcmp(at + bytes - kBytes[i], kNops[i], kBytes[i]) == 0) return true;
  return false;
}

bool set_access(std::uintptr_t at, std::size_t bytes, int access) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)), first = at / page * page;
  return mprotect(reinterpret_cast<void*>(first), at + bytes - first, access) == 0;
}

/// Before the program's first call. One of its threads only.
__attribute__((constructor)) void enter_malloc() {
  dl_iterate_phdr(&find_text, nullptr);
  void* const function = dlsym(RTLD_NEXT, "hipMalloc");
  Dl_info info{};
  ElfW(Sym)* symbol = nullptr;
  if (function == nullptr || dladdr1(function, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr)
    return;
  real_malloc = function;
  // Any exported function of the runtime's with room for a jump before it will do.
  for (const Row& row : kRows) {
    auto* const after = static_cast<unsigned char*>(dlsym(RTLD_NEXT, row.name));
    const auto at = reinterpret_cast<std::uintptr_t>(after) - kJumpBytes;
    if (after == nullptr || at < runtime_text.begin + 16 || at >= runtime_text.end || !is_padding(after - 16, 16))
      continue;
    const auto distance = static_cast<std::intptr_t>(reinterpret_cast<std::uintptr_t>(&journal_malloc_entry)) -
                          reinterpret_cast<std::intptr_t>(after);
    if (distance != static_cast<std::int32_t>(distance)) break;
    const auto near = static_cast<std::int32_t>(distance);
    if (!set_access(at, kJumpBytes, PROT_READ | PROT_WRITE | PROT_EXEC) ||
        !set_access(reinterpret_cast<std::uintptr_t>(symbol), sizeof *symbol, PROT_READ | PROT_WRITE))
      break;
    after[-static_cast<int>(kJumpBytes)] = 0xe9;
    std::memcpy(after - 4, &near, sizeof near);
    symbol->st_value = at - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    symbol->st_size = kJumpBytes;
    set_access(at, kJumpBytes, PROT_READ | PROT_EXEC);
    set_access(reinterpret_cast<std::uintptr_t>(symbol), sizeof *symbol, PROT_READ);
    return;
  }
  std::fprintf(stderr, "call_journal: no room for a jump to hipMalloc\n");
  _exit(1);
}

}  // namespace
