// compile_entries.h: decides for the compile functions outside of HIP (shim/hip/compile_hooks.def) which function a
// call is forwarded to, and how lookups of them are answered.
//
// Why not one next function a row: a process can have several copies of LLVM, each under the same names. A call goes to
// the copy that the caller's own symbol versions name, else to the first one loaded. A caller that does not import the
// function gets the copy that a lookup found first. A second copy found by lookup is left to the program, uncounted.
// Nothing is looked for before the first call. Threads: any. Not here: permits.
#pragma once

#include <cstddef>
#include <string_view>

namespace graphpool {

enum class CompileEntry : std::size_t {
#define COMPILE_HOOK(result, name, params, args, what) name,
#include "shim/hip/compile_hooks.def"
#undef COMPILE_HOOK
  kCount
};
inline constexpr std::size_t kCompileEntries = static_cast<std::size_t>(CompileEntry::kCount);

/// kCount: not one of them. Cheap for names of other kinds.
CompileEntry find_compile_entry(std::string_view name) noexcept;

/// The function behind ours for a caller at this address; null: there is none.
void* next_compile_function(CompileEntry entry, const void* caller) noexcept;

/// Estimates the bytes of a module of LLVM, for its class of size: 64 for each instruction, and its inline assembly.
/// Calls the C functions of the copy of LLVM that `function` is in; 0 where it lacks them. No other thread may use the
/// module meanwhile, as when it is compiled.
std::uint64_t llvm_module_bytes(const void* function, void* module) noexcept;

/// Notes that a lookup found `address`. Returns whether our function may be the answer.
bool adopt_compile_function(CompileEntry entry, void* address) noexcept;

/// Our exported addresses. Defined where the exports are; absent in unit tests of the engine.
extern "C" void* const gp_compile_entries[kCompileEntries] __attribute__((visibility("hidden"), weak));

}  // namespace graphpool
