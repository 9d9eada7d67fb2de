// Opens a plugin in a scope of its own (RTLD_LOCAL). Arguments: the plugin.
#include <dlfcn.h>

#include <cstdio>
#include <initializer_list>

int main(int, char** arguments) {
  void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return 1;
  for (const char* name : {"hipMalloc", "amd_comgr_do_action"})
    std::printf("%s in the program's scope: %d\n", name, dlsym(RTLD_DEFAULT, name) != nullptr);
  reinterpret_cast<void (*)()>(dlsym(plugin, "look_up_in_default_scope"))();
}
