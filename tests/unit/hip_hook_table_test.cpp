// The rows themselves: types agree with the oldest supported header, names are unique, every known entry has a row.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <type_traits>

#include "shim/hip/hook_table.h"

namespace {

#if HIP_VERSION_MAJOR == 5
// HIP's C++ overloads make decltype(&hipMalloc) ambiguous: the cast picks the C function and fails where there is none
// of this type. Rows of deprecated functions are wanted all the same.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CHECK_Header(result, name, params) \
  static_assert(std::is_same_v<decltype(static_cast<result(*) params>(&::name)), result(*) params>);
#define CHECK_Newer(result, name, params)
#define HIP_HOOK(result, name, params, args, node, declared, effect) CHECK_##declared(result, name, params)
#define HIP_NEXT(result, name, params, args, node, declared, effect) CHECK_##declared(result, name, params)
#define HIP_FORWARD(name, node, effect)
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#pragma GCC diagnostic pop
#endif

const char* const kNames[] = {
#define HIP_HOOK(result, name, params, args, node, declared, effect) #name,
#define HIP_NEXT(result, name, params, args, node, declared, effect) #name,
#define HIP_FORWARD(name, node, effect) #name,
#include "shim/hip/hip_hooks.def"
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
};

TEST(HookTable, no_name_twice) {
  std::set<std::string> names;
  for (const char* name : kNames) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_EQ(names.size(), graphpool::kEntryCount);
}

TEST(HookTable, next_is_in_the_order_of_the_ids) {
  const graphpool::Next next{};
  const auto* const begin = reinterpret_cast<const char*>(&next);
  const auto* const malloc_slot = reinterpret_cast<const char*>(&next.hipMalloc);
  EXPECT_EQ(static_cast<std::size_t>(malloc_slot - begin) / sizeof(void*),
            static_cast<std::size_t>(graphpool::EntryId::hipMalloc));
}

TEST(HookTable, every_known_entry_point_has_a_row) {
  std::ifstream table(HIP_ENTRY_POINTS);
  ASSERT_TRUE(table) << HIP_ENTRY_POINTS;
  const std::set<std::string> rows(std::begin(kNames), std::end(kNames));
  int checked = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    EXPECT_TRUE(rows.count(line) == 1) << line;
    ++checked;
  }
  EXPECT_GT(checked, 500);
}

}  // namespace
