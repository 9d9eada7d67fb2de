// shared_memory.h: maps the table of permits of a scope, and makes it on first use.
//
//   process   private memory; a forked child finds it empty and makes its own
//   user      a file with the user's number in its name, in XDG_RUNTIME_DIR or /dev/shm, which only that user may open
//   node      a file in /dev/shm that everyone may open
//
// Files are made under another name and linked into place whole, with all the memory they need, so nobody sees half a
// table. The library never removes them: they are small and hold what was learnt. After a restart of the machine other
// ones are made. No descriptor is kept.
#pragma once

#include "policy/values.h"
#include "shim/compile/permit_table.h"

namespace graphpool {

/// Maps the table of a scope, and makes it where there is none. Null: it cannot be made, or what has its name is not to
/// be trusted; the caller then chooses the scope of its process, or goes on without permits. Threads: any; each call
/// maps anew. `folder`: for node and user, in tests.
SharedPermits* open_permits(Scope scope, const char* folder = nullptr) noexcept;

/// Maps the table that processes of a scope have made. Null: none has made one, or it is not to be trusted, or the
/// scope is `process`.
SharedPermits* find_permits(Scope scope, const char* folder = nullptr) noexcept;

/// Unmaps a table that one of these has mapped. Nobody may use it any more.
void close_permits(SharedPermits* memory) noexcept;

}  // namespace graphpool
