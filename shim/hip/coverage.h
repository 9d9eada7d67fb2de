// coverage.h: finds out whether this library knows every way that the program has into the runtime (rule 5).
//
// A runtime that is newer than our rows may export hip* functions that we do not know. That matters only if a loaded
// object imports one of them, or looks one up. Then the process has no withheld captures any more, unless the policy
// trusts unknown names.
#pragma once

#include <atomic>

namespace graphpool {

/// True once a function that we do not know is in use. Captures then stay the runtime's own.
bool unknown_entries_in_use() noexcept;

/// True where the runtime has no function that we do not know: whatever is loaded, none is in use.
bool every_entry_known() noexcept;

/// Checks all loaded objects, at the first HIP call and in check_objects_loaded_since(). One line of the log names the
/// first unknown function in use.
void check_coverage() noexcept;

/// Checks again, before a capture begins, if objects have been loaded since the last check. Where the runtime has no
/// function that we do not know, this costs one load; else it asks the loader.
void check_objects_loaded_since() noexcept;

/// Notes that a lookup of a name without a row has found a function, if that is a hip* function of the runtime.
void note_unknown_lookup(const char* name, const void* address) noexcept;

}  // namespace graphpool
