// entries.cpp import|dlsym|dlvsym: calls every function that compiles in the calling process once, by that way of a
// program to reach it, and prints their names. Of comgr's actions also one that links, and those that compile nothing,
// by the numbers of the version in COMGR_VERSION. The library is fake_compiler.cpp's.
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
int amd_comgr_do_action(int, std::uint64_t, std::uint64_t, std::uint64_t);
void* LLVMRunPasses(void*, const char*, void*, void*);
int LLVMRunPassManager(void*, void*);
int LLVMTargetMachineEmitToFile(void*, void*, char*, int, char**);
int LLVMTargetMachineEmitToMemoryBuffer(void*, void*, int, char**, void**);
const void* lto_codegen_compile(void*, std::size_t*);
const void* lto_codegen_compile_optimized(void*, std::size_t*);
bool lto_codegen_compile_to_file(void*, const char**);
bool lto_codegen_optimize(void*);
void thinlto_codegen_process(void*);
int hiprtcCompileProgram(void*, int, const char* const*);
int hiprtcLinkComplete(void*, void**, std::size_t*);
int hipLinkComplete(void*, void**, std::size_t*);
}

namespace {

int calls = 0;
void compiles() { ++calls; }

const char* way = "";

template <typename Function>
Function* reached(Function* imported, const char* name) {
  std::puts(name);
  if (std::strcmp(way, "import") == 0) return imported;
  void* const found = std::strcmp(way, "dlsym") == 0 ? dlsym(RTLD_DEFAULT, name) : dlvsym(RTLD_DEFAULT, name, "FAKE_1");
  if (found == nullptr) std::exit(3);
  return reinterpret_cast<Function*>(found);
}
#define REACHED(function) reached(function, #function)

}  // namespace

int main(int, char** words) {
  way = words[1];
  void* const what = reinterpret_cast<void*>(&compiles);
  const auto handle = reinterpret_cast<std::uint64_t>(what);
  const auto comgr = REACHED(amd_comgr_do_action);
  // To preprocess, link, compile, disassemble (first and last) and unbundle.
  const std::array<int, 6> kinds = std::strcmp(std::getenv("COMGR_VERSION"), "3") == 0
                                       ? std::array{0, 7, 13, 9, 11, 15}
                                       : std::array{0, 9, 16, 11, 13, 18};
  for (const int kind : kinds) comgr(kind, handle, 0, 0);
  REACHED(LLVMRunPasses)(what, "", nullptr, nullptr);
  REACHED(LLVMRunPassManager)(nullptr, what);
  REACHED(LLVMTargetMachineEmitToFile)(nullptr, what, nullptr, 0, nullptr);
  REACHED(LLVMTargetMachineEmitToMemoryBuffer)(nullptr, what, 0, nullptr, nullptr);
  REACHED(lto_codegen_compile)(what, nullptr);
  REACHED(lto_codegen_compile_optimized)(what, nullptr);
  REACHED(lto_codegen_compile_to_file)(what, nullptr);
  REACHED(lto_codegen_optimize)(what);
  REACHED(thinlto_codegen_process)(what);
  REACHED(hiprtcCompileProgram)(what, 0, nullptr);
  REACHED(hiprtcLinkComplete)(what, nullptr, nullptr);
  REACHED(hipLinkComplete)(what, nullptr, nullptr);
  return calls == 18 ? 0 : 4;
}
