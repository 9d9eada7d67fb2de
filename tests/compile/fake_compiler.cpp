// fake_compiler.cpp: a library with the names of LLVM's, comgr's and hipRTC's functions (of HIP 6); a compilation calls
// the function it is given.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
void call(void* function) { reinterpret_cast<void (*)()>(function)(); }
}  // namespace

EXPORTED void* LLVMRunPasses(void* module, const char*, void*, void*) {
  call(module);
  return nullptr;
}

EXPORTED int LLVMRunPassManager(void*, void* module) {
  call(module);
  return 0;
}

EXPORTED int LLVMTargetMachineEmitToFile(void*, void* module, char*, int, char**) {
  call(module);
  return 0;
}

EXPORTED int LLVMTargetMachineEmitToMemoryBuffer(void*, void* module, int, char**, void**) {
  call(module);
  return 0;
}

EXPORTED const void* lto_codegen_compile(void* code, std::size_t*) {
  call(code);
  return code;
}

EXPORTED const void* lto_codegen_compile_optimized(void* code, std::size_t*) {
  call(code);
  return code;
}

EXPORTED bool lto_codegen_compile_to_file(void* code, const char**) {
  call(code);
  return true;
}

EXPORTED bool lto_codegen_optimize(void* code) {
  call(code);
  return true;
}

EXPORTED void thinlto_codegen_process(void* code) { call(code); }

EXPORTED int hipRuntimeGetVersion(int* version) {
  *version = 60'000'000;
  return 0;
}

EXPORTED int hipMalloc(void**, std::size_t) { return 2; }

EXPORTED int hiprtcCompileProgram(void* program, int, const char* const*) {
  call(program);
  return 0;
}

EXPORTED int hiprtcLinkComplete(void* state, void**, std::size_t*) {
  call(state);
  return 0;
}

EXPORTED int hipLinkComplete(void* state, void**, std::size_t*) {
  call(state);
  return 0;
}

/// The version that COMGR_VERSION says; without it 2.
EXPORTED void amd_comgr_get_version(std::size_t* major, std::size_t* minor) {
  const char* const version = std::getenv("COMGR_VERSION");
  *major = version != nullptr ? std::strtoul(version, nullptr, 10) : 2;
  *minor = 0;
}

EXPORTED int amd_comgr_do_action(int, std::uint64_t info, std::uint64_t, std::uint64_t) {
  call(reinterpret_cast<void*>(info));
  return 0;
}
