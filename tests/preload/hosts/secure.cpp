// Linked to the library, for a program with more rights than its caller preloads none. Prints whether it is one.
#include <sys/auxv.h>

#include "host.h"

int main() {
  say("secure", getauxval(AT_SECURE) != 0);
  use_device("secure");
}
