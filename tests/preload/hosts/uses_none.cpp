// A runtime exports unknown functions, but nobody uses them.
#include "host.h"

int main() {
  int count = 0;
  say("count", hipGetDeviceCount(&count));
}
