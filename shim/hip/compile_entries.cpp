#include "shim/hip/compile_entries.h"

#include <algorithm>
#include <iterator>

#include "shim/hip/elf_image.h"

namespace graphpool {
namespace {

constexpr std::string_view kNames[] = {
#define COMPILE_HOOK(result, name, params, args, what) #name,
#include "shim/hip/compile_hooks.def"
#undef COMPILE_HOOK
};

/// What lookups found, by entry.
constinit void* g_looked_up[kCompileEntries] = {};

}  // namespace

CompileEntry find_compile_entry(std::string_view name) noexcept {
  // The first letters of all names.
  if (name.empty() || (name[0] != 'a' && name[0] != 'L' && name[0] != 'l' && name[0] != 't'))
    return CompileEntry::kCount;
  for (std::size_t i = 0; i < kCompileEntries; ++i)
    if (kNames[i] == name) return static_cast<CompileEntry>(i);
  return CompileEntry::kCount;
}

void* next_compile_function(CompileEntry entry, const void* caller) noexcept {
  const std::string_view name = kNames[static_cast<std::size_t>(entry)];
  std::string_view wanted_file;
  bool imported = false;
  for_each_image([&](const ElfImage& image) {
    if (!image.contains(caller)) return false;
    imported = image.imports(name, wanted_file);
    return true;
  });
  void* const looked_up = __atomic_load_n(&g_looked_up[static_cast<std::size_t>(entry)], __ATOMIC_ACQUIRE);
  if (!imported && looked_up != nullptr) return looked_up;
  void *first = nullptr, *wanted = nullptr;
  for_each_image([&](const ElfImage& image) {
    if (image.contains(reinterpret_cast<const void*>(&next_compile_function))) return false;
    void* const found = image.find_export(name);
    if (found == nullptr) return false;
    if (first == nullptr) first = found;
    if (!wanted_file.empty() && image.basename() == wanted_file) wanted = found;
    return wanted != nullptr;
  });
  if (wanted != nullptr) return wanted;
  return first != nullptr ? first : looked_up;
}

std::uint64_t llvm_module_bytes(const void* function, void* module) noexcept {
  using Next = void* (*)(void*);
  constexpr const char* kWalk[] = {"LLVMGetFirstFunction",  "LLVMGetNextFunction",     "LLVMGetFirstBasicBlock",
                                   "LLVMGetNextBasicBlock", "LLVMGetFirstInstruction", "LLVMGetNextInstruction"};
  constexpr std::uint64_t kInstructionBytes = 64;
  Next walk[std::size(kWalk)] = {};
  const char* (*assembly)(void*, std::size_t*) = nullptr;
  for_each_image([&](const ElfImage& image) {
    if (!image.contains(function)) return false;
    for (std::size_t i = 0; i < std::size(kWalk); ++i) walk[i] = reinterpret_cast<Next>(image.find_export(kWalk[i]));
    assembly = reinterpret_cast<decltype(assembly)>(image.find_export("LLVMGetModuleInlineAsm"));
    return true;
  });
  if (module == nullptr || std::find(std::begin(walk), std::end(walk), nullptr) != std::end(walk)) return 0;
  std::uint64_t bytes = 0;
  for (void* f = walk[0](module); f != nullptr; f = walk[1](f))
    for (void* block = walk[2](f); block != nullptr; block = walk[3](block))
      for (void* instruction = walk[4](block); instruction != nullptr; instruction = walk[5](instruction))
        bytes += kInstructionBytes;
  std::size_t length = 0;
  if (assembly != nullptr) assembly(module, &length);
  return bytes + length;
}

bool adopt_compile_function(CompileEntry entry, void* address) noexcept {
  void* none = nullptr;
  return __atomic_compare_exchange_n(&g_looked_up[static_cast<std::size_t>(entry)], &none, address, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
         none == address;
}

}  // namespace graphpool
