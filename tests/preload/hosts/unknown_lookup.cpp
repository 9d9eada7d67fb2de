// Looks such a function up, before or after the first HIP call (argument: early or late).
#include <dlfcn.h>

#include "host.h"

int main(int, char** arguments) {
  const bool early = arguments[1][0] == 'e';
  int count = 0;
  if (!early) say("count", hipGetDeviceCount(&count));
  auto* const launch = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "hipFutureLaunch"));
  if (early) say("count", hipGetDeviceCount(&count));
  say("launch", launch(5));
}
