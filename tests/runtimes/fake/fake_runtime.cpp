// A HIP runtime of a few functions, for what the CPU runtime cannot show: it lacks most functions, calls its own
// exports through the PLT as AMD's 5.2 does, prints what reaches it, and exports functions that nobody has heard of
// yet.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

FAKE_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = 79901234;
  return 0;
}
FAKE_EXPORT int hipGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}
FAKE_EXPORT int hipGetDevice(int* device) {
  *device = 0;
  return 0;
}
FAKE_EXPORT int hipGetLastError() { return 0; }
FAKE_EXPORT int hipPeekAtLastError() { return 0; }
FAKE_EXPORT int hipMalloc(void** pointer, std::size_t bytes) {
  std::printf("runtime: hipMalloc of %zu bytes\n", bytes);
  *pointer = std::malloc(bytes);
  return 0;
}
FAKE_EXPORT int hipFree(void* pointer) {
  std::printf("runtime: hipFree\n");
  std::free(pointer);
  return 0;
}
FAKE_EXPORT int hipMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  std::printf("runtime: hipMallocPitch\n");
  *pitch = (width + 255) / 256 * 256;
  const int result = hipMalloc(pointer, *pitch * height);
  std::printf("runtime: hipMallocPitch returns\n");  // keeps the call above from being a jump
  return result;
}
// Many arguments of several classes: a stub that forwards any function must keep them all.
FAKE_EXPORT int hipMemcpy2DArrayToArray(void* dst, std::size_t a, std::size_t b, const void* src, std::size_t c,
                                        std::size_t d, std::size_t width, std::size_t height, int kind) {
  std::printf("runtime: %zu %zu %zu %zu %zu %zu %zu %zu %d\n", reinterpret_cast<std::size_t>(dst), a, b,
              reinterpret_cast<std::size_t>(src), c, d, width, height, kind);
  return 0;
}
FAKE_EXPORT int hipTexRefSetMipmapLevelClamp(void* reference, float least, float most) {
  std::printf("runtime: %zu %g %g\n", reinterpret_cast<std::size_t>(reference), static_cast<double>(least),
              static_cast<double>(most));
  return 0;
}
FAKE_EXPORT int hipFutureLaunch(int number) {
  std::printf("runtime: hipFutureLaunch %d\n", number);
  return 0;
}
FAKE_EXPORT int hipAnotherFutureLaunch(int) { return 0; }
