// amd_hiprtc.cpp: runs AMD's own hipRTC, which needs no GPU, on a source from standard input:
//   amd_hiprtc OBJECT [EXPRESSION]...     writes the code object, prints the lowered names
// A process of its own: the tests have the CPU runtime under the same library name. Exit code 77: AMD's is not there.
#include <dlfcn.h>
#include <hip/hiprtc.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

namespace {

void* library = nullptr;

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

int run(int count, char** words) {
  library = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 77;
#define FIND(name) const auto name##_ = find<decltype(name)>(#name)
  FIND(hiprtcCreateProgram);
  FIND(hiprtcAddNameExpression);
  FIND(hiprtcCompileProgram);
  FIND(hiprtcGetProgramLogSize);
  FIND(hiprtcGetProgramLog);
  FIND(hiprtcGetLoweredName);
  FIND(hiprtcGetCodeSize);
  FIND(hiprtcGetCode);
  const std::string source(std::istreambuf_iterator<char>(std::cin), {});
  hiprtcProgram program = nullptr;
  if (hiprtcCreateProgram_(&program, source.c_str(), "test", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return 1;
  for (int i = 2; i < count; ++i)
    if (hiprtcAddNameExpression_(program, words[i]) != HIPRTC_SUCCESS) return 1;
  const char* option = "--offload-arch=gfx90a";
  const hiprtcResult result = hiprtcCompileProgram_(program, 1, &option);
  if (result != HIPRTC_SUCCESS) {
    std::size_t size = 0;
    hiprtcGetProgramLogSize_(program, &size);
    std::string log(size + 1, '\0');
    hiprtcGetProgramLog_(program, log.data());
    std::fprintf(stderr, "%s\n", log.c_str());
    return 1;
  }
  for (int i = 2; i < count; ++i) {
    const char* lowered = nullptr;
    if (hiprtcGetLoweredName_(program, words[i], &lowered) != HIPRTC_SUCCESS) return 1;
    std::printf("%s\n", lowered);
  }
  std::size_t size = 0;
  hiprtcGetCodeSize_(program, &size);
  std::string code(size, '\0');
  hiprtcGetCode_(program, code.data());
  std::ofstream out(words[1], std::ios::binary);
  out << code;
  out.close();
  return out ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const int result = count < 2 ? 2 : run(count, words);
  std::fflush(nullptr);
  _exit(result);  // without a GPU AMD's exit handlers are not to be trusted
}
