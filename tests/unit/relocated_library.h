// relocated_library.h: see relocated_library.cpp.
#pragma once

#include <cstddef>

namespace relocated {

inline constexpr std::size_t kEntries = 250'000, kFunctions = 5'000;

/// 2 MB of pointers into the library, and some to a function of another one.
struct Table {
  const int* numbers[kEntries];
  int (*functions[kFunctions])(int);
};
const Table& table();
/// Where numbers[0] points.
const int* numbers();

}  // namespace relocated
