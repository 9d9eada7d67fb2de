#include "shim/hip/early_lookup.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstddef>

/// Where the stubs in hooks/forward.S jump to: the functions behind us, which may be those of another preloaded
/// library.
extern "C" {
__attribute__((visibility("hidden"))) graphpool::DlsymFunction gp_next_dlsym = nullptr;
__attribute__((visibility("hidden"))) graphpool::DlvsymFunction gp_next_dlvsym = nullptr;
}

namespace graphpool {

constinit std::atomic<DlsymFunction> g_libc_dlsym{nullptr};
constinit std::atomic<DlvsymFunction> g_libc_dlvsym{nullptr};

namespace {

// Loops of our own: library functions may become calls of strcmp and the like.
bool starts_with(const char* text, const char* prefix) noexcept {
  for (; *prefix != '\0'; ++text, ++prefix)
    if (*text != *prefix) return false;
  return true;
}

bool equal(const char* a, const char* b) noexcept {
  for (; *a == *b; ++a, ++b)
    if (*a == '\0') return true;
  return false;
}

const char* basename(const char* path) noexcept {
  const char* name = path;
  for (; *path != '\0'; ++path)
    if (*path == '/') name = path + 1;
  return name;
}

struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;
};

SymbolTable symbol_table(const link_map& object) noexcept {
  SymbolTable table;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) table.strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) table.gnu_hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_HASH) table.hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
  }
  return table;
}

bool is_definition(const SymbolTable& table, std::uint32_t index, const char* name) noexcept {
  const ElfW(Sym)& symbol = table.symbols[index];
  return symbol.st_shndx != SHN_UNDEF && equal(table.strings + symbol.st_name, name);
}

/// Finds a definition by GNU's hash table; without one among all symbols, whose number the ELF format's own table has.
void* find(const link_map& object, const SymbolTable& table, const char* name) noexcept {
  if (table.gnu_hash != nullptr) {
    const std::uint32_t buckets = table.gnu_hash[0], first = table.gnu_hash[1], bloom_words = table.gnu_hash[2];
    const std::uint32_t* const bucket = table.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
    const std::uint32_t* const chain = bucket + buckets;
    std::uint32_t wanted = 5381;
    for (const char* letter = name; *letter != '\0'; ++letter)
      wanted = wanted * 33 + static_cast<unsigned char>(*letter);
    for (std::uint32_t i = bucket[wanted % buckets]; i >= first; ++i) {
      const std::uint32_t found = chain[i - first];
      if ((found | 1U) == (wanted | 1U) && is_definition(table, i, name))
        return reinterpret_cast<void*>(object.l_addr + table.symbols[i].st_value);
      if ((found & 1U) != 0) break;
    }
  } else if (table.hash != nullptr) {
    for (std::uint32_t i = 1; i < table.hash[1]; ++i)
      if (is_definition(table, i, name)) return reinterpret_cast<void*>(object.l_addr + table.symbols[i].st_value);
  }
  return nullptr;
}

/// Finds dlsym and dlvsym of the C library, and those behind us. Our exports of the same names must not be found, so
/// symbol tables are read directly.
void find_real_functions() noexcept {
  DlsymFunction found = nullptr;
  DlvsymFunction found_v = nullptr;
  for (const link_map* object = _r_debug.r_map; object != nullptr; object = object->l_next) {
    const char* const name = basename(object->l_name);
    // glibc 2.34 moved both from libdl to libc.
    if (!starts_with(name, "libc.so.") && !starts_with(name, "libdl.so.")) continue;
    const SymbolTable table = symbol_table(*object);
    if (table.symbols == nullptr || table.strings == nullptr) continue;
    if (void* const address = find(*object, table, "dlsym")) found = reinterpret_cast<DlsymFunction>(address);
    if (void* const address = find(*object, table, "dlvsym")) found_v = reinterpret_cast<DlvsymFunction>(address);
  }
  void* const next = found(RTLD_NEXT, "dlsym");
  void* const next_v = found(RTLD_NEXT, "dlvsym");
  __atomic_store_n(&gp_next_dlvsym, next_v != nullptr ? reinterpret_cast<DlvsymFunction>(next_v) : found_v,
                   __ATOMIC_RELEASE);
  __atomic_store_n(&gp_next_dlsym, next != nullptr ? reinterpret_cast<DlsymFunction>(next) : found, __ATOMIC_RELEASE);
  g_libc_dlvsym.store(found_v, std::memory_order_release);
  g_libc_dlsym.store(found, std::memory_order_release);
}

}  // namespace

bool may_be_entry(const char* name) noexcept {
  if (starts_with(name, "_Z")) return name[2] != '\0' && name[3] != '\0' && starts_with(name + 4, "hip");
  return starts_with(name, "hip") || starts_with(name, "__hip") || starts_with(name, "amd_dbgapi");
}

/// Whether a row of shim/hip/compile_hooks.def has this name.
static bool is_compile_function(const char* name) noexcept {
#define COMPILE_HOOK(result, function, params, args, what) \
  if (equal(name, #function)) return true;
#include "shim/hip/compile_hooks.def"
#undef COMPILE_HOOK
  return false;
}

/// Called by the stubs.
extern "C" __attribute__((visibility("hidden"))) Answer gp_lookup(void* handle, const char* name, const char* version,
                                                                  const void* caller) noexcept {
  if (g_libc_dlsym.load(std::memory_order_acquire) == nullptr) find_real_functions();
  if (name == nullptr ||
      !(may_be_entry(name) || equal(name, "dlsym") || equal(name, "dlvsym") || is_compile_function(name)))
    return kNotAnswered;
  return answer_lookup(handle, name, version, caller);
}

}  // namespace graphpool
