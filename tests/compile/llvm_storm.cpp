// llvm_storm.cpp LIBRARY FOLDER MODULES LARGE INSTRUCTIONS serial|storm: compiles modules through LLVM's C functions,
// one after the other or each in a thread of its own at once, and writes FOLDER/NUMBER.o. The first LARGE of every four
// modules have so many instructions, the others a hundredth. The modules are there before the first is compiled. Prints
// the most address space it had, in KiB. Exit code 77: no such library.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Handle = void*;

/// LLVM's C functions, by the names they have there.
struct Llvm {
  void (*LLVMInitializeX86TargetInfo)();
  void (*LLVMInitializeX86Target)();
  void (*LLVMInitializeX86TargetMC)();
  void (*LLVMInitializeX86AsmPrinter)();
  int (*LLVMGetTargetFromTriple)(const char*, Handle*, char**);
  Handle (*LLVMCreateTargetMachine)(Handle, const char*, const char*, const char*, int, int, int);
  Handle (*LLVMContextCreate)();
  Handle (*LLVMModuleCreateWithNameInContext)(const char*, Handle);
  void (*LLVMSetTarget)(Handle, const char*);
  Handle (*LLVMInt64TypeInContext)(Handle);
  Handle (*LLVMFunctionType)(Handle, Handle*, unsigned, int);
  Handle (*LLVMAddFunction)(Handle, const char*, Handle);
  Handle (*LLVMAppendBasicBlockInContext)(Handle, Handle, const char*);
  Handle (*LLVMCreateBuilderInContext)(Handle);
  void (*LLVMPositionBuilderAtEnd)(Handle, Handle);
  Handle (*LLVMGetParam)(Handle, unsigned);
  Handle (*LLVMConstInt)(Handle, unsigned long long, int);
  Handle (*LLVMBuildMul)(Handle, Handle, Handle, const char*);
  Handle (*LLVMBuildXor)(Handle, Handle, Handle, const char*);
  Handle (*LLVMBuildBr)(Handle, Handle);
  Handle (*LLVMBuildRet)(Handle, Handle);
  int (*LLVMTargetMachineEmitToMemoryBuffer)(Handle, Handle, int, char**, Handle*);
  const char* (*LLVMGetBufferStart)(Handle);
  std::size_t (*LLVMGetBufferSize)(Handle);
  void (*LLVMDisposeMemoryBuffer)(Handle);
  void (*LLVMDisposeModule)(Handle);
  void (*LLVMContextDispose)(Handle);
};

bool open(Llvm& llvm, const char* name) {
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
#define FIND(function) llvm.function = reinterpret_cast<decltype(llvm.function)>(dlsym(library, #function))
  FIND(LLVMInitializeX86TargetInfo), FIND(LLVMInitializeX86Target), FIND(LLVMInitializeX86TargetMC);
  FIND(LLVMInitializeX86AsmPrinter), FIND(LLVMGetTargetFromTriple), FIND(LLVMCreateTargetMachine);
  FIND(LLVMContextCreate), FIND(LLVMModuleCreateWithNameInContext), FIND(LLVMSetTarget), FIND(LLVMInt64TypeInContext);
  FIND(LLVMFunctionType), FIND(LLVMAddFunction), FIND(LLVMAppendBasicBlockInContext), FIND(LLVMCreateBuilderInContext);
  FIND(LLVMPositionBuilderAtEnd), FIND(LLVMGetParam), FIND(LLVMConstInt), FIND(LLVMBuildMul), FIND(LLVMBuildXor);
  FIND(LLVMBuildBr), FIND(LLVMBuildRet), FIND(LLVMTargetMachineEmitToMemoryBuffer), FIND(LLVMGetBufferStart);
  FIND(LLVMGetBufferSize), FIND(LLVMDisposeMemoryBuffer), FIND(LLVMDisposeModule), FIND(LLVMContextDispose);
#undef FIND
  return llvm.LLVMTargetMachineEmitToMemoryBuffer != nullptr && llvm.LLVMInitializeX86Target != nullptr;
}

constexpr const char* kTriple = "x86_64-pc-linux-gnu";
constexpr int kObjectFile = 1, kCodegenNone = 0, kRelocPic = 2, kCodeModelDefault = 0;
constexpr int kInstructionsInBlock = 200;

struct Module {
  Handle context, module;
};

Module make_module(const Llvm& llvm, int number, long instructions) {
  const Handle context = llvm.LLVMContextCreate();
  const Handle module = llvm.LLVMModuleCreateWithNameInContext("module", context);
  llvm.LLVMSetTarget(module, kTriple);
  Handle integer = llvm.LLVMInt64TypeInContext(context);
  const Handle function = llvm.LLVMAddFunction(module, "f", llvm.LLVMFunctionType(integer, &integer, 1, 0));
  const Handle builder = llvm.LLVMCreateBuilderInContext(context);
  Handle block = llvm.LLVMAppendBasicBlockInContext(context, function, "");
  llvm.LLVMPositionBuilderAtEnd(builder, block);
  Handle value = llvm.LLVMGetParam(function, 0);
  for (long i = 0; i < instructions; i += 2) {
    if (i % kInstructionsInBlock == kInstructionsInBlock - 2) {
      block = llvm.LLVMAppendBasicBlockInContext(context, function, "");
      llvm.LLVMBuildBr(builder, block);
      llvm.LLVMPositionBuilderAtEnd(builder, block);
    }
    value =
        llvm.LLVMBuildMul(builder, value, llvm.LLVMConstInt(integer, static_cast<unsigned>(i * 3 + number) | 1, 0), "");
    value = llvm.LLVMBuildXor(builder, value, llvm.LLVMGetParam(function, 0), "");
  }
  llvm.LLVMBuildRet(builder, value);
  return {context, module};
}

void compile(const Llvm& llvm, Handle target, const Module& module, const std::string& path) {
  char* error = nullptr;
  Handle machine =
      llvm.LLVMCreateTargetMachine(target, kTriple, "x86-64", "", kCodegenNone, kRelocPic, kCodeModelDefault);
  Handle code = nullptr;
  if (llvm.LLVMTargetMachineEmitToMemoryBuffer(machine, module.module, kObjectFile, &error, &code) != 0) {
    std::fprintf(stderr, "%s\n", error);
    std::_Exit(1);
  }
  llvm.LLVMDisposeModule(module.module);
  llvm.LLVMContextDispose(module.context);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::_Exit(2);
  std::fwrite(llvm.LLVMGetBufferStart(code), 1, llvm.LLVMGetBufferSize(code), file);
  std::fclose(file);
  llvm.LLVMDisposeMemoryBuffer(code);
}

/// The most address space the process had, in KiB.
void print_peak() {
  char line[256];
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
    if (std::strncmp(line, "VmPeak:", 7) == 0) std::printf("%ld\n", std::atol(line + 7));
  if (file != nullptr) std::fclose(file);
}

}  // namespace

int main(int count, char** words) {
  Llvm llvm{};
  if (count != 7) return 2;
  if (!open(llvm, words[1])) return 77;
  llvm.LLVMInitializeX86TargetInfo();
  llvm.LLVMInitializeX86Target();
  llvm.LLVMInitializeX86TargetMC();
  llvm.LLVMInitializeX86AsmPrinter();
  Handle target = nullptr;
  char* error = nullptr;
  if (llvm.LLVMGetTargetFromTriple(kTriple, &target, &error) != 0) return 3;

  const int number = std::atoi(words[3]), large = std::atoi(words[4]);
  const long instructions = std::atol(words[5]);
  const bool storm = std::strcmp(words[6], "storm") == 0;
  std::vector<Module> modules;
  for (int i = 0; i < number; ++i)
    modules.push_back(make_module(llvm, i, i % 4 < large ? instructions : instructions / 100));
  const auto run = [&](int i) {
    compile(llvm, target, modules[static_cast<std::size_t>(i)], std::string(words[2]) + '/' + std::to_string(i) + ".o");
  };
  if (!storm) {
    for (int i = 0; i < number; ++i) run(i);
    print_peak();
    return 0;
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < number; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  print_peak();
  return 0;
}
