// Exports and imports for hip_elf_image_test.cpp.
#include <unistd.h>

#define ELF_EXPORT extern "C" __attribute__((visibility("default")))

ELF_EXPORT int elf_plain() { return getppid() > 0 ? 1 : 0; }
ELF_EXPORT int elf_data;
int elf_data = 7;
extern "C" __attribute__((visibility("hidden"))) int elf_hidden() { return 3; }

__asm__(".symver elf_versioned_1, elf_versioned@ELF_1");
__asm__(".symver elf_versioned_2, elf_versioned@@ELF_2");
ELF_EXPORT int elf_versioned_1() { return 1 + elf_hidden(); }
ELF_EXPORT int elf_versioned_2() { return 2; }
