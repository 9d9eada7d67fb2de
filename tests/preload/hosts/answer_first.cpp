// A library whose function adds one to the answer of the next library's.
#include <dlfcn.h>

extern "C" int answer() {
  auto* const next = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "answer"));
  return next != nullptr ? next() + 1 : -1;
}
extern "C" int chained_answer() { return answer(); }
