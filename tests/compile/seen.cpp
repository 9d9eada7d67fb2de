// seen.cpp: prints the user's table of permits as JSON: granted so far, most in flight, in flight now, waits, sizes.
#include <cstdio>

#include "shim/compile/shared_memory.h"

int main() {
  using namespace graphpool;
  SharedPermits* const memory = open_permits(Scope::kUser);
  if (memory == nullptr) return 1;
  PermitTable table(*memory, machine());
  const std::uint32_t in_flight = table.in_flight();
  const ScopeCounts counts = memory->figures.counts();
  std::printf("{\"granted\": %llu, \"peak\": %u, \"in_flight\": %u, \"waited\": %llu, \"sizes\": {",
              static_cast<unsigned long long>(counts.granted), memory->figures.peak_in_flight(), in_flight,
              static_cast<unsigned long long>(counts.waited));
  SizeClass classes[kMostClasses];
  const std::uint32_t number = table.classes(classes, kMostClasses);
  for (std::uint32_t i = 0; i < number; ++i)
    std::printf("%s\"%s\": [%llu, %llu]", i == 0 ? "" : ", ", classes[i].name,
                static_cast<unsigned long long>(classes[i].peak_bytes),
                static_cast<unsigned long long>(classes[i].finished));
  std::puts("}}");
  return 0;
}
