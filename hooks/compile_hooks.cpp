// compile_hooks.cpp: calls that compile or link in this process take a permit: hipRTC's, and those of
// hip/compile_hooks.def.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/compile/permits.h"
#include "shim/hip/compile_entries.h"
#include "shim/hip/elf_image.h"
#include "shim/hip/lookup.h"

namespace graphpool {
namespace {

/// The length of a program's source, by its handle: a newer program in the same place replaces an older one.
struct SourceSize {
  std::atomic<void*> program;
  std::atomic<std::uint64_t> bytes;
};
constinit SourceSize g_sources[256] = {};

SourceSize& source_of(void* program) noexcept {
  return g_sources[(reinterpret_cast<std::uintptr_t>(program) >> 4) % std::size(g_sources)];
}

std::uint64_t source_bytes(void* program) noexcept {
  const SourceSize& source = source_of(program);
  return source.program.load(std::memory_order_acquire) == program ? source.bytes.load(std::memory_order_relaxed) : 0;
}

/// From HIP 6 on hipRTC lets one thread at a time compile. The runtime is not asked for its version: it may not have
/// been started, and its answer would replace the last error.
bool one_at_a_time() noexcept {
  static constinit std::atomic<int> known{-1};
  int one = known.load(std::memory_order_relaxed);
  if (one < 0) {
    unsigned version = 0;
    for_each_image([&version](const ElfImage& image) {
      if (!image.contains(reinterpret_cast<const void*>(next().hiprtcCompileProgram))) return false;
      version = image.version();
      return true;
    });
    one = version == 0 || version >= 6;  // libraries without a number are newer ones, out of packages of Python
    known.store(one, std::memory_order_relaxed);
  }
  return one != 0;
}

/// The major version of comgr that the function is of; 0: it says none.
std::size_t comgr_version(const void* function) noexcept {
  // The function that was asked about last, and above its address the version. One word: there may be two comgr.
  constexpr unsigned kVersionShift = 48;
  static constinit std::atomic<std::uint64_t> answered{0};
  const auto address = reinterpret_cast<std::uint64_t>(function);
  const std::uint64_t last = answered.load(std::memory_order_relaxed);
  if (last << (64 - kVersionShift) >> (64 - kVersionShift) == address) return last >> kVersionShift;
  std::size_t version = 0;
  for_each_image([&](const ElfImage& image) {
    if (!image.contains(function)) return false;
    std::size_t minor = 0;
    if (void* const get = image.find_export("amd_comgr_get_version"))
      reinterpret_cast<void (*)(std::size_t*, std::size_t*)>(get)(&version, &minor);
    return true;
  });
  answered.store(address | std::uint64_t{version} << kVersionShift, std::memory_order_relaxed);
  return version;
}

/// Kinds of actions by amd_comgr.h, which numbers them anew from version 3 on. To preprocess, to disassemble and to
/// unbundle is no compilation.
Compilation comgr_action(const void* function, int kind) noexcept {
  const bool renumbered = comgr_version(function) >= 3;
  const int disassemble_first = renumbered ? 9 : 11, unbundle = renumbered ? 15 : 18;
  const std::array<int, 3> links = renumbered ? std::array{3, 6, 7} : std::array{4, 8, 9};
  if (kind <= 0 || kind == unbundle || (kind >= disassemble_first && kind <= disassemble_first + 2)) return {};
  return {"comgr", std::find(links.begin(), links.end(), kind) != links.end() ? "link" : "compile"};
}

/// LLVM's functions tell by such a parameter why they failed. The caller gives the text back to the heap.
void tell_failure(char** error) noexcept {
  if (error != nullptr) *error = strdup("the library with this function is not loaded");
}
template <typename Other>
void tell_failure(const Other&) noexcept {}

/// Answers a caller that imports the function weakly, from a library that is not loaded. Numbers and truths that are
/// not 0 say that the call has failed. (What LLVMRunPasses would have to answer only the library makes.)
template <typename Result, typename... Arguments>
Result failed(const Arguments&... arguments) noexcept {
  (tell_failure(arguments), ...);
  if constexpr (std::is_arithmetic_v<Result>)
    return Result{1};
  else if constexpr (!std::is_void_v<Result>)
    return Result{};
}

}  // namespace

namespace hooks {

hiprtcResult on_hiprtcCreateProgram(Entry&, hiprtcProgram* prog, const char* src, const char* name, int numHeaders,
                                    const char* const* headers, const char* const* includeNames) {
  const hiprtcResult result = next().hiprtcCreateProgram(prog, src, name, numHeaders, headers, includeNames);
  if (captures_open()) note_capture_doubt();
  if (result == HIPRTC_SUCCESS && prog != nullptr && src != nullptr) {
    SourceSize& source = source_of(*prog);
    source.bytes.store(std::strlen(src), std::memory_order_relaxed);
    source.program.store(*prog, std::memory_order_release);
  }
  return result;
}

hiprtcResult on_hiprtcCompileProgram(Entry&, hiprtcProgram prog, int numOptions, const char* const* options) {
  if (captures_open()) note_capture_doubt();
  const CompileScope scope({"hiprtc", "source", source_bytes(prog), one_at_a_time()});
  return next().hiprtcCompileProgram(prog, numOptions, options);
}

hiprtcResult on_hiprtcLinkComplete(Entry&, void* state, void** binary, size_t* size) {
  if (captures_open()) note_capture_doubt();
  const CompileScope scope({"hiprtc", "link", 0, one_at_a_time()});
  return next().hiprtcLinkComplete(state, binary, size);
}

hipError_t on_hipLinkComplete(Entry&, void* state, void** binary, size_t* size) {
  if (captures_open()) note_capture_doubt();
  const CompileScope scope({"hiprtc", "link", 0, one_at_a_time()});
  return next().hipLinkComplete(state, binary, size);
}

}  // namespace hooks

#define COMPILE_HOOK(result, name, params, args, what)                                                              \
  extern "C" __attribute__((visibility("default"))) result gp_compile_##name params __asm__(#name);                 \
  result gp_compile_##name params {                                                                                 \
    const auto forward =                                                                                            \
        reinterpret_cast<result(*) params>(next_compile_function(CompileEntry::name, __builtin_return_address(0))); \
    if (forward == nullptr) return [](auto... all) { return failed<result>(all...); } args;                         \
    [[maybe_unused]] const void* const function = reinterpret_cast<const void*>(forward);                           \
    const CompileScope scope(compilation_would_count() ? what : Compilation{});                                     \
    return forward args;                                                                                            \
  }
#include "shim/hip/compile_hooks.def"
#undef COMPILE_HOOK

extern "C" __attribute__((visibility("hidden"))) void* const gp_compile_entries[kCompileEntries] = {
#define COMPILE_HOOK(result, name, params, args, what) reinterpret_cast<void*>(&gp_compile_##name),
#include "shim/hip/compile_hooks.def"
#undef COMPILE_HOOK
};

}  // namespace graphpool
