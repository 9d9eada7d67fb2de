// Another preloaded library that owns device memory: allocations are larger by a header, frees find it again.
#include <dlfcn.h>

#include <cstddef>
#include <cstdio>

namespace {
constexpr std::size_t kHeader = 4096;
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
}  // namespace

extern "C" int hipMalloc(void** pointer, std::size_t bytes) {
  const int result = next<int(void**, std::size_t)>("hipMalloc")(pointer, bytes + kHeader);
  if (result == 0) *pointer = static_cast<char*>(*pointer) + kHeader;
  std::printf("owner: hipMalloc %zu\n", bytes);
  std::fflush(stdout);
  return result;
}
extern "C" int hipFree(void* pointer) {
  std::printf("owner: hipFree %d\n", pointer != nullptr);
  std::fflush(stdout);
  return next<int(void*)>("hipFree")(pointer == nullptr ? nullptr : static_cast<char*>(pointer) - kHeader);
}
