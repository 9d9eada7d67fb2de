// threads.cpp COUNT [ENTRIES]: compiles a kernel with AMD's own hipRTC in COUNT threads, beside a table of so many
// entries; prints whether all objects are the same, and a hash of the first.
#include <dlfcn.h>
#include <hip/hiprtc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

void* library = nullptr;

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string source_of(int entries) {
  std::string text = "extern \"C\" __global__ void k(float* a) { a[threadIdx.x] *= 2; }";
  for (int i = 0; i < entries; ++i)
    text += (i == 0 ? "\n__device__ const int table[] = {" : ",") + std::to_string(i * 7919LL % 1000003);
  return entries > 0 ? text + "};\n" : text;
}

std::string compile(const std::string& source) {
  const char* const option = "--offload-arch=gfx90a";
  hiprtcProgram program = nullptr;
  std::size_t size = 0;
  if (find<decltype(hiprtcCreateProgram)>("hiprtcCreateProgram")(&program, source.c_str(), "k", 0, nullptr, nullptr) ||
      find<decltype(hiprtcCompileProgram)>("hiprtcCompileProgram")(program, 1, const_cast<const char**>(&option)) ||
      find<decltype(hiprtcGetCodeSize)>("hiprtcGetCodeSize")(program, &size))
    return {};
  std::string code(size, '\0');
  find<decltype(hiprtcGetCode)>("hiprtcGetCode")(program, code.data());
  return code;
}

}  // namespace

int main(int count, char** words) {
  library = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) _exit(77);
  const int number = count > 1 ? std::atoi(words[1]) : 2;
  const std::string source = source_of(count > 2 ? std::atoi(words[2]) : 0);
  std::vector<std::string> codes(static_cast<std::size_t>(number));
  std::vector<std::thread> threads;
  for (std::string& code : codes) threads.emplace_back([&code, &source] { code = compile(source); });
  for (std::thread& thread : threads) thread.join();
  bool same = !codes[0].empty();
  for (const std::string& code : codes) same = same && code == codes[0];
  std::printf("same %d\n", same);
  std::fprintf(stderr, "hash %zx\n", std::hash<std::string>()(codes[0]));
  std::fflush(stdout);
  std::exit(same ? 0 : 1);
}
