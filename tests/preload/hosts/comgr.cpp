// comgr's function that compiles, which compiles nothing.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) int amd_comgr_do_action(int kind, std::uint64_t, std::uint64_t,
                                                                          std::uint64_t) {
  return kind;
}
