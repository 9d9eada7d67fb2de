#include "driver.h"

#include <dlfcn.h>

namespace cudahip::cu {
namespace {

struct Driver {
  Table table;
  Result state = kNoDevice;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
#define CUDAHIP_FIND(name, parameters) \
  if (void* found = dlsym(library, #name); found != nullptr) table.name = reinterpret_cast<decltype(table.name)>(found);
    CUDAHIP_DRIVER(CUDAHIP_FIND)
#undef CUDAHIP_FIND
    state = table.cuInit(0);
    int devices = 0;
    if (state == kSuccess) state = table.cuDeviceGetCount(&devices);
    if (state == kSuccess && devices == 0) state = kNoDevice;
    if (state == kNotSupported) state = kNoDevice;  // not a driver
  }
};

const Driver& instance() {
  static const Driver& made = *new Driver;
  return made;
}

}  // namespace

const Table& driver() { return instance().table; }
Result driver_state() { return instance().state; }

}  // namespace cudahip::cu
