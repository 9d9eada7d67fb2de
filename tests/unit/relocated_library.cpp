// relocated_library.cpp: a library with a large table of pointers, for compile_relocated_memory_test.cpp.
#include "tests/unit/relocated_library.h"

#include <cstdlib>

namespace relocated {
namespace {

constexpr int kNumbers[kEntries] = {};

struct Filled : Table {
  constexpr Filled() : Table{} {
    for (std::size_t i = 0; i < kEntries; ++i) numbers[i] = &kNumbers[i];
    for (std::size_t i = 0; i < kFunctions; ++i) functions[i] = &std::abs;
  }
};
constinit const Filled g_table;

}  // namespace

const Table& table() { return g_table; }
const int* numbers() { return kNumbers; }

}  // namespace relocated
