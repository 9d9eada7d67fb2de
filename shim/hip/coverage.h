// coverage.h: does this library know every way the program has into the runtime? (rule 5)
//
// A runtime newer than our rows may export hip* functions that we do not have. They count only if some loaded object
// imports one, or looks one up; then withheld captures are off for the process, unless the policy trusts unknown names.
#pragma once

#include <atomic>

namespace graphpool {

/// True once a name we do not know is in use. Captures then stay the runtime's own.
bool unknown_entries_in_use() noexcept;

/// True where the runtime has no function that we do not know: whatever is loaded, none is in use.
bool every_entry_known() noexcept;

/// The check over all loaded objects; run at the first HIP call. One line names what was found.
void check_coverage() noexcept;

/// The same once more if objects have been loaded since. Where the runtime has no function unknown to us this is one
/// load; else it asks the loader. Called before a capture begins.
void check_objects_loaded_since() noexcept;

/// A lookup of a hip* name we have no row for found a function.
void note_unknown_lookup(const char* name, const void* address) noexcept;

}  // namespace graphpool
