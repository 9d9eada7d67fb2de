// One thread is inside dlopen, in a constructor that is about to use HIP, while another makes HIP's first call.
// Argument: the plugin's path.
#include <dlfcn.h>
#include <unistd.h>

#include <thread>

#include "host.h"

int main(int, char** arguments) {
  std::thread opener([path = arguments[1]] { say("opened", dlopen(path, RTLD_NOW | RTLD_LOCAL) != nullptr); });
  usleep(200'000);
  std::thread caller([] {
    int count = 0;
    static_cast<void>(hipGetDeviceCount(&count));
  });
  opener.join();
  caller.join();
  use_device("main");
}
