// early_lookup.h: does the first part of a lookup (lookup.h): says which lookups concern us, and finds the C library's
// own dlsym and dlvsym.
//
// Why apart: a sanitizer's runtime in the program looks its functions up before it has set itself up. Whatever we call
// then may be one of its interceptors, and instrumented code of ours would touch memory it has not mapped. So this part
// is compiled without instrumentation, walks the loader's list of objects by itself, and for a name that does not
// concern us calls no C library function but the real dlsym, in the first lookup. Threads: any. The C library is loaded
// before us and never goes.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphpool {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

/// The C library's own functions, for our own lookups. Through a function that wraps them, RTLD_NEXT would not mean
/// what is behind us. Set when a stub in hooks/forward.S is first entered.
extern constinit std::atomic<DlsymFunction> g_libc_dlsym;
extern constinit std::atomic<DlvsymFunction> g_libc_dlvsym;

/// Whether a function of HIP that we export may have this name; cheap.
bool may_be_entry(const char* name) noexcept;

/// What a stub is to do: return `address` if `answered`, else enter the next function with the program's own frame.
struct Answer {
  void* address;
  std::uint64_t answered;
};
constexpr Answer kNotAnswered{nullptr, 0};

/// Decides about a lookup of a name that may be an entry, a compile function, dlsym or dlvsym (lookup.cpp).
/// version: null for dlsym.
Answer answer_lookup(void* handle, const char* name, const char* version, const void* caller) noexcept;

}  // namespace graphpool
