// memory_calls.h: what tests of memory ask of the runtime, each with its success expected.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <cstddef>

namespace memory_calls {

inline char* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  EXPECT_EQ(hipSuccess, hipMalloc(&pointer, bytes));
  return static_cast<char*>(pointer);
}

inline std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(hipSuccess, hipMemGetInfo(&free, &total));
  return free;
}

}  // namespace memory_calls
