// Addresses that no allocation has.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "shim/base/units.h"
#include "shim/hip/next.h"
#include "shim/memory/never_address.h"

namespace graphpool {
namespace {

char g_reserved;
int g_reservations = 0;

TEST(NeverAddress, of_copies_is_a_reservation_of_the_runtimes_made_once) {
  const Next saved = test_next();
  test_next().hipMemAddressReserve = [](void** address, std::size_t, std::size_t, void*, unsigned long long) {
    ++g_reservations;
    *address = &g_reserved;
    return hipSuccess;
  };
  EXPECT_EQ(&g_reserved, never_mapped_address());
  EXPECT_EQ(&g_reserved, never_mapped_address());
  EXPECT_EQ(1, g_reservations);
  test_next() = saved;
}

TEST(NeverAddress, is_one_for_all_threads_and_not_to_be_touched) {
  std::vector<void*> found(8);
  std::vector<std::thread> threads;
  for (void*& each : found) threads.emplace_back([&each] { each = never_allocated_address(); });
  for (std::thread& thread : threads) thread.join();
  for (void* const each : found) EXPECT_EQ(never_allocated_address(), each);
  EXPECT_NE(nullptr, never_allocated_address());
  EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(never_allocated_address()) % kPageBytes);
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile char*>(never_allocated_address())), "");
}

}  // namespace
}  // namespace graphpool
