// next.h: the next table, the only way from the engine to HIP.
//
// Why: the engine must never call an exported name (it would enter itself) and must be testable with fakes.
// Threads: filled under a lock before any body runs; a function found later (by a lookup) replaces its stand-in
// atomically; read freely.
#pragma once

#include "shim/hip/hook_table.h"

namespace graphpool {

extern Next g_next __asm__("gp_next") __attribute__((visibility("hidden")));

/// The table of next functions. Callable at any time after the first HIP call of the process has entered the library.
inline const Next& next() noexcept { return g_next; }

/// True when the runtime itself has this function; false when a stub stands in for it.
bool has(EntryId id) noexcept;

/// Finds the HIP runtime and fills the table: what stands behind us in the global scope, else the loaded runtime object
/// itself (a program may have opened it RTLD_LOCAL). Reads symbol tables and calls no dl* function: dlerror() stays as
/// it is, and no lock of the loader's is waited for that a constructor could hold. Idempotent.
void resolve_next() noexcept;

/// A runtime that the program opened itself must outlive our pointers into it: makes the loader keep it. Calls dlopen:
/// not under a lock.
void keep_runtime_loaded() noexcept;

/// Whether an address is in an object that was loaded with the program, and so has the global scope for its own.
bool in_startup_object(const void* address) noexcept;

/// A lookup of the program found `address` for this entry. Returns true when that is what we forward to (taking it as
/// next if there was none): then our entry may be the answer. False: another runtime's function, to be left alone.
bool adopt_next(EntryId id, void* address) noexcept;

/// True when hipMalloc is the runtime's own function; false when another preloaded library owns memory (rule 39).
bool runtime_owns_memory() noexcept;

/// Unit tests replace entries by fakes: `test_next().hipMalloc = &fake_malloc;`. All entries start as stubs.
inline Next& test_next() noexcept { return g_next; }

}  // namespace graphpool
