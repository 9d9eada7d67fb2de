// counting_new.h: linked in, replaces operator new by one that counts. For tests and benchmarks of code that must not
// allocate.
#pragma once

#include <cstddef>

namespace graphpool {

/// Calls of operator new by this thread so far.
std::size_t allocations_of_this_thread() noexcept;

}  // namespace graphpool
