// A plugin that brings a HIP runtime and a compiler's library into a scope of its own, and looks their functions up.
#include <dlfcn.h>

#include "host.h"

extern "C" int amd_comgr_do_action(int kind, unsigned long info, unsigned long input, unsigned long output);

extern "C" void look_up_in_default_scope() {
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"hipMalloc", "amd_comgr_do_action", "hipNobodyHasThis", "LLVMRunPasses"}) {
      const void* const found = dlsym(RTLD_DEFAULT, name);
      std::printf("%s is %s, error %s\n", name, found != nullptr ? "there" : "null",
                  dlerror() != nullptr ? "set" : "none");
    }
    int count = 0;
    say("linked", hipGetDeviceCount(&count));
    say("compiled", amd_comgr_do_action(2, 0, 0, 0));
    const auto act = reinterpret_cast<decltype(&amd_comgr_do_action)>(dlsym(RTLD_DEFAULT, "amd_comgr_do_action"));
    say("looked up", act != nullptr ? act(2, 0, 0, 0) : -1);
  }
}
