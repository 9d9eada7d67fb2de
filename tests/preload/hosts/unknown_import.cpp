// Calls a function that a newer runtime exports and this version of the library does not know.
#include "host.h"

extern "C" int hipFutureLaunch(int number);

int main() {
  int count = 0;
  say("count", hipGetDeviceCount(&count));
  say("launch", hipFutureLaunch(5));
}
