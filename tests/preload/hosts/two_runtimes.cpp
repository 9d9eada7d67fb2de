// Two HIP runtimes in one process: the one the program is linked to, and one it opens for itself by path.
#include <dlfcn.h>

#include "host.h"

namespace {
struct Other {
  void* object;
  explicit Other(const char* path) : object(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}
  template <typename Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(object, name));
  }
};
}  // namespace

int main(int, char** arguments) {
  use_device("first");
  const Other other(arguments[1]);
  say("opened", other.object != nullptr);
  int version = 0;
  say("first version", hipRuntimeGetVersion(&version));
  say("is", version);
  say("second version", other.get<int(int*)>("hipRuntimeGetVersion")(&version));
  say("is", version);
  void *mine = nullptr, *theirs = nullptr;
  say("first malloc", hipMalloc(&mine, 100));
  say("second malloc", other.get<int(void**, size_t)>("hipMalloc")(&theirs, 100));
  say("first frees", hipFree(mine));
  say("second frees", other.get<int(void*)>("hipFree")(theirs));
  say("second free is its own", other.get<int(void*)>("hipFree") != reinterpret_cast<int (*)(void*)>(&hipFree));
  use_device("first");
}
