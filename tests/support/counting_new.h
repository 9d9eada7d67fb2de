// counting_new.h: linked in, replaces operator new by one that counts, and fails on request. For tests and benchmarks
// of code that must not allocate, or must survive that memory runs out.
#pragma once

#include <cstddef>

namespace graphpool {

/// Calls of operator new by this thread so far.
std::size_t allocations_of_this_thread() noexcept;

/// So many calls of this thread still work, then all throw std::bad_alloc; negative: all work.
void let_allocations_work(int calls) noexcept;

}  // namespace graphpool
