// relied VERSION: what the engine relies on of a runtime of this version (hipRuntimeGetVersion's). A line each:
//     PROBE <tab> relied | never | not here <tab> lines of a policy that do without, with a ; between
#include <cstdio>
#include <cstdlib>
#include <string>

#include "shim/process/facts.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "relied VERSION\n");
    return 2;
  }
  const int version = std::atoi(arguments[1]);
  for (const graphpool::Fact& fact : graphpool::facts()) {
    std::string otherwise = fact.otherwise;
    for (char& each : otherwise)
      if (each == '\n') each = ';';
    const char* const how = otherwise.empty() ? "never" : fact.relied_on(version) ? "relied" : "not here";
    std::printf("%s\t%s\t%s\n", fact.probe, how, otherwise.c_str());
  }
  return 0;
}
