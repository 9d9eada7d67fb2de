// liar.so, for the loader's --audit: one function of a HIP runtime that nobody can change lies.
// LIE=FUNCTION:CODE[:AFTER]: after so many true calls (none) it does nothing and returns CODE. Calls of the runtime
// among itself stay true.
//
// The loader asks la_symbind64() for each reference that it binds, dlsym()'s too; only what is found in libamdhip64
// lies. The object has a namespace and a C library of its own, so it does as little as it can.
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

__attribute__((visibility("hidden"))) long liar_true_calls = 0;
__attribute__((visibility("hidden"))) std::uintptr_t liar_real = 0;
__attribute__((visibility("hidden"))) int liar_code = 0;

/// Takes any arguments: it touches no register that has one.
__attribute__((naked, visibility("hidden"))) void liar_call() {
  asm("lock decq liar_true_calls(%rip)\n"
      "js 1f\n"
      "jmp *liar_real(%rip)\n"
      "1: movl liar_code(%rip), %eax\n"
      "ret\n");
}

__attribute__((visibility("default"))) unsigned la_version(unsigned) { return LAV_CURRENT; }

__attribute__((visibility("default"))) unsigned la_objopen(link_map* map, Lmid_t, std::uintptr_t* cookie) {
  *cookie = std::strstr(map->l_name, "libamdhip64") != nullptr ? 1 : 0;
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

__attribute__((visibility("default"))) std::uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned, std::uintptr_t* from,
                                                                   std::uintptr_t* to, unsigned*, const char* name) {
  const char* const lie = std::getenv("LIE");
  const char* const end = lie != nullptr ? std::strchr(lie, ':') : nullptr;
  if (end == nullptr || *to == 0 || *from != 0) return symbol->st_value;
  const auto length = static_cast<std::size_t>(end - lie);
  if (std::strlen(name) != length || std::strncmp(name, lie, length) != 0) return symbol->st_value;
  if (liar_real == 0) {
    char* rest = nullptr;
    liar_code = static_cast<int>(std::strtol(end + 1, &rest, 10));
    liar_true_calls = *rest == ':' ? std::strtol(rest + 1, nullptr, 10) : 0;
    liar_real = symbol->st_value;
  }
  return reinterpret_cast<std::uintptr_t>(&liar_call);
}

}  // extern "C"
