// lookup.h: answers programs that look HIP functions up instead of linking to them (dlsym, dlvsym, hipGetProcAddress).
//
// A lookup is answered with our entry only if it would have found the runtime's function; otherwise the program sees
// what it would see without us. Threads: any; no lock is held across dl* functions.
#pragma once

#include <string_view>

#include "shim/hip/hook_table.h"

namespace graphpool {

/// Our exported function that forwards to this address; null: there is none.
void* entry_for_next(const void* next_address) noexcept;

/// The id of an exported name; EntryId::kCount when there is none.
EntryId find_entry(std::string_view name) noexcept;

/// The exported name of an entry.
std::string_view entry_name(EntryId id) noexcept;

/// Our exported addresses, by id. Defined where the exports are; absent in unit tests of the engine.
extern "C" void* const gp_entries[kEntryCount] __attribute__((visibility("hidden"), weak));

}  // namespace graphpool
