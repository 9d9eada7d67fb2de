// next.h: the next table, the only way from the engine to HIP.
//
// Why: the engine must never call an exported name (it would enter itself) and must be testable with fakes.
// Threads: filled by resolve_next() under its own lock before any hook body runs; read freely afterwards.
#pragma once

#include "shim/hook_table.h"

namespace graphpool {

extern Next g_next;

/// The table of next functions. Callable at any time after the first HIP call of the process has entered the library.
inline const Next& next() noexcept { return g_next; }

/// True when the runtime itself has this function; false when a stub stands in for it.
bool has(EntryId id) noexcept;

/// Unit tests replace entries by fakes: `test_next().hipMalloc = &fake_malloc;`. All entries start as stubs.
inline Next& test_next() noexcept { return g_next; }

}  // namespace graphpool
