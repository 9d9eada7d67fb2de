#include "tests/support/counting_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t t_allocations = 0;
thread_local int t_left = -1;

void count_allocation() {
  ++t_allocations;
  if (t_left == 0) throw std::bad_alloc();
  if (t_left > 0) --t_left;
}

}  // namespace

// The forms that are not replaced call these, or are a sanitizer's own with their own form of delete.
void* operator new(std::size_t bytes) {
  count_allocation();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count_allocation();
  const auto multiple = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace graphpool {

std::size_t allocations_of_this_thread() noexcept { return t_allocations; }
void let_allocations_work(int calls) noexcept { t_left = calls; }

}  // namespace graphpool
