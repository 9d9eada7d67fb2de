// shared_memory.h: the table of permits of a scope: mapped, made on first use.
//
//   process   private memory; a forked child finds it empty and makes its own
//   user      a file named by the user in XDG_RUNTIME_DIR, else in /dev/shm, which only that user may open
//   node      a file in /dev/shm that everyone may open
//
// Files are made under another name and linked into place whole, with all the memory they need, so nobody sees half a
// table. They stay until the machine is started again: they are small and hold what was learnt. No descriptor is kept.
#pragma once

#include "policy/values.h"
#include "shim/compile/permit_table.h"

namespace graphpool {

/// Null: there is no such memory, or what is there under the name is not ours to trust. A scope of processes that
/// cannot be had is the caller's to replace. Threads: any; each call maps anew. folder: for node and user in tests.
SharedPermits* open_permits(Scope scope, const char* folder = nullptr) noexcept;

/// The table that processes of the scope have made; null: none has, or it is not ours to trust. Never one of a process.
SharedPermits* find_permits(Scope scope, const char* folder = nullptr) noexcept;

/// Unmaps what one of these has mapped. Nobody may use it any more.
void close_permits(SharedPermits* memory) noexcept;

}  // namespace graphpool
