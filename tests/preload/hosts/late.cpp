// HIP calls after main: exit handlers, destructors of statics and of thread-locals, destructor functions.
#include <cstdlib>

#include "host.h"

namespace {
struct Late {
  const char* name;
  ~Late() { use_device(name); }
};
Late static_object{"static object"};
thread_local Late thread_object{"thread-local object"};
__attribute__((destructor)) void at_end() { use_device("destructor function"); }
}  // namespace

int main() {
  std::atexit([] { use_device("handler from before the first call"); });
  say("name", thread_object.name[0]);
  use_device("main");
  std::atexit([] { use_device("handler from after the first call"); });
  return 5;
}
