#include "tests/probes/hip.h"

#include <dlfcn.h>

namespace probes {
namespace {

void* g_runtime = nullptr;
void* g_compiler = nullptr;  ///< hipRTC; up to HIP 5 the runtime has it

void* open_first(std::initializer_list<const char*> files) {
  for (const char* file : files)
    if (void* opened = dlopen(file, RTLD_NOW | RTLD_GLOBAL)) return opened;
  return nullptr;
}

}  // namespace

void open_runtime(const char* file) {
  g_runtime = file != nullptr
                  ? open_first({file})
                  : open_first({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"});
  if (g_runtime == nullptr) throw Unknown(dlerror());
  if (dlsym(g_runtime, "hiprtcCreateProgram") == nullptr) {
    int version = 0;
    const auto ask = reinterpret_cast<hipError_t (*)(int*)>(dlsym(g_runtime, "hipRuntimeGetVersion"));
    if (ask != nullptr) static_cast<void>(ask(&version));
    g_compiler = open_first({("libhiprtc.so." + std::to_string(version / 10'000'000)).c_str(), "libhiprtc.so"});
  }
}

void* function_named(const char* name) {
  void* found = g_runtime != nullptr ? dlsym(g_runtime, name) : nullptr;
  if (found == nullptr && g_compiler != nullptr) found = dlsym(g_compiler, name);
  if (found == nullptr) throw Unknown(std::string("no ") + name);
  return found;
}

}  // namespace probes
