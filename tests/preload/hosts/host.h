// host.h: what the hosts share. Hosts are plain HIP programs that know nothing of the library; what they print is the
// same in every run, so a native run and one under the library compare byte by byte.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdio>

/// Prints and flushes: a host may end in any way.
inline void say(const char* what, int value) {
  std::printf("%s %d\n", what, value);
  std::fflush(stdout);
}

/// Allocates, fills, reads back and frees; prints every error code and the byte read.
inline void use_device(const char* who) {
  void* pointer = nullptr;
  char byte = 0;
  const int allocated = hipMalloc(&pointer, 4096);
  const int filled = hipMemset(pointer, 42, 4096);
  const int copied = hipMemcpy(&byte, static_cast<char*>(pointer) + 4095, 1, hipMemcpyDeviceToHost);
  const int freed = hipFree(pointer);
  std::printf("%s: malloc %d, memset %d, memcpy %d -> %d, free %d\n", who, allocated, filled, copied, byte, freed);
  std::fflush(stdout);
}
