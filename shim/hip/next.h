// next.h: the next table, the only way from the engine to HIP.
//
// Why: the engine must never call an exported name (it would enter itself) and must be testable with fakes.
// Threads: filled under a lock before any body runs. A function that is found later, after objects were loaded,
// replaces its stand-in atomically. Read freely.
#pragma once

#include "shim/hip/hook_table.h"

namespace graphpool {

extern Next g_next __asm__("gp_next") __attribute__((visibility("hidden")));

/// The table of next functions. Callable at any time after the first HIP call of the process has entered the library.
inline const Next& next() noexcept { return g_next; }

/// True when a next function was found; false while a stand-in has its place.
bool has(EntryId id) noexcept;

/// Finds the HIP runtime and fills the table: what stands behind us in the global scope, else the loaded runtime object
/// itself (a program may have opened it RTLD_LOCAL). Reads symbol tables and calls no dl* function but dl_iterate_phdr:
/// dlerror() stays as it is, and no lock of the loader's is waited for that a constructor could hold. Idempotent.
void resolve_next() noexcept;

/// Makes the loader keep a runtime that the program opened itself, because we have pointers into it. Calls dlopen: hold
/// no lock.
void keep_runtime_loaded() noexcept;

/// Whether an address is in an object that was loaded with the program, and so has the global scope for its own.
bool in_startup_object(const void* address) noexcept;

/// Judges the `address` that a lookup of the program found for this entry. Returns true when we forward to it (if no
/// runtime was known, the one that has this address becomes next): then our entry may be the answer. False: another
/// runtime's function, to be left alone.
bool adopt_next(EntryId id, void* address) noexcept;

/// True when hipMalloc is the runtime's own function; false when another preloaded library owns memory (rule 39).
bool runtime_owns_memory() noexcept;

/// Unit tests replace entries by fakes: `test_next().hipMalloc = &fake_malloc;`. All entries begin as stand-ins.
inline Next& test_next() noexcept { return g_next; }

}  // namespace graphpool
