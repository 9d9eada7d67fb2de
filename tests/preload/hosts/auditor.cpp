// An object for the loader's LD_AUDIT, as profilers of whole processes have. It only looks on. With one the loader has
// to give every library that is there from the start its thread-local data out of a small reserve.
#include <link.h>

extern "C" __attribute__((visibility("default"))) unsigned la_version(unsigned) { return LAV_CURRENT; }
