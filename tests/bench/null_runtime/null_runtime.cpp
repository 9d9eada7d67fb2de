// null_runtime.cpp: a HIP runtime that does nothing at once: with it found first, a benchmark of an entry measures the
// library alone, to the nanosecond. Memory is host memory that nobody touches.
#include <cstdlib>

#define NULL_RUNTIME_EXPORT extern "C" __attribute__((visibility("default")))

NULL_RUNTIME_EXPORT int hipMalloc(void** pointer, std::size_t bytes) {
  static char memory[64];
  *pointer = memory + bytes % 2;
  return 0;
}
NULL_RUNTIME_EXPORT int hipFree(void*) { return 0; }
NULL_RUNTIME_EXPORT int hipGetDevice(int* device) {
  *device = 0;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
NULL_RUNTIME_EXPORT int hipGetLastError() { return 0; }
NULL_RUNTIME_EXPORT const char* hipGetErrorName(int) { return "hipErrorUnknown"; }
NULL_RUNTIME_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = 50221153;
  return 0;
}
NULL_RUNTIME_EXPORT int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                              unsigned, void*, void**, void**) {
  return 0;
}
NULL_RUNTIME_EXPORT int hipStreamQuery(void*) { return 0; }
