// freed_memory.h: counts how often memory has really gone: was freed, unmapped, unregistered or closed.
//
// Why: a copy or fill node of an exec may hold the allocation it was made with, not only its address. CUDA's driver
// does: when the memory was freed and the address handed out again, launching the exec fails, crashes or writes
// elsewhere. The program's own graph would be made anew, so an exec with such nodes serves a later binding only if
// nothing was freed since it was made. Kernel arguments are addresses and nothing else. Kept memory is not freed.
// Threads: any. Units: calls.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphpool {

inline constinit std::atomic<std::uint64_t> g_memory_freed{0};

/// Call it before memory goes. If graphs are told of it, execs are made meanwhile: call it again before the memory
/// goes, and these count as made before.
inline void note_memory_freed() noexcept { g_memory_freed.fetch_add(1, std::memory_order_release); }
inline std::uint64_t memory_freed() noexcept { return g_memory_freed.load(std::memory_order_acquire); }

}  // namespace graphpool
