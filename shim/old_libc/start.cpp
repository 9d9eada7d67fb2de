// start.cpp: the start of a program that is linked to an old C library. --wrap=__libc_start_main puts it before that
// library's own.
//
// Why: up to version 2.33 the C library left a program's constructors to a function that the program brought along.
// What newer versions start a program with brings no such function, because they call constructors themselves: beside
// an older version no constructor would run.
extern "C" {

using Main = int(int, char**, char**);
using Constructor = void(int, char**, char**);

/// The program's constructors, as the linker lists them.
extern Constructor* const __init_array_start[];
extern Constructor* const __init_array_end[];

static void construct(int count, char** arguments, char** environment) {
  for (Constructor* const* each = __init_array_start; each != __init_array_end; ++each)
    (*each)(count, arguments, environment);
}

int __real___libc_start_main(Main* main, int count, char** arguments, Constructor* begin, void (*end)(),
                             void (*end_of_loader)(), void* stack);

/// A newer C library does as the old one did for a program that names such a function.
int __wrap___libc_start_main(Main* main, int count, char** arguments, Constructor*, void (*)(), void (*end_of_loader)(),
                             void* stack) {
  return __real___libc_start_main(main, count, arguments, &construct, nullptr, end_of_loader, stack);
}

}  // extern "C"
