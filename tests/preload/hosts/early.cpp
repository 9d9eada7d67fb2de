// HIP calls before any constructor of a preloaded library has run: from .preinit_array and from a library's
// constructor.
#include "host.h"

extern "C" int early_library_result();

namespace {
void before_all_constructors(int, char**, char**) { use_device("preinit"); }
}  // namespace

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char**, char**) = before_all_constructors;

int main() {
  say("constructor of a library", early_library_result());
  use_device("main");
}
