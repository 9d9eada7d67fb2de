#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "shim/kernel/registrations.h"

namespace graphpool {
namespace {

const void* address(std::uintptr_t value) { return reinterpret_cast<const void*>(value); }

struct Wrapper {
  std::uint32_t magic = 0x48495046, version = 1;
  const void* binary = address(0x5000);
  const void* unused = nullptr;
};

std::vector<std::string> drained(Registrations& registrations) {
  std::vector<std::string> names;
  registrations.drain([&](const Registration& each) { names.emplace_back(each.name()); });
  return names;
}

TEST(Registrations, ComeOldestFirstAndOnce) {
  Registrations registrations;
  void* handle = nullptr;
  EXPECT_FALSE(registrations.waiting());
  registrations.add_stub(&handle, address(0x1000), "first");
  registrations.add_stub(&handle, address(0x2000), "second");
  EXPECT_TRUE(registrations.waiting());
  EXPECT_EQ(drained(registrations), (std::vector<std::string>{"first", "second"}));
  EXPECT_FALSE(registrations.waiting());
  EXPECT_TRUE(drained(registrations).empty());
}

TEST(Registrations, WaitWhileOneIsHandedOver) {
  Registrations registrations;
  void* handle = nullptr;
  registrations.add_stub(&handle, address(0x1000), "one");
  bool waiting = false;
  registrations.drain([&](const Registration&) { waiting = registrations.waiting(); });
  EXPECT_TRUE(waiting);
}

TEST(Registrations, AddedWhileOthersAreHandedOverComeToo) {
  Registrations registrations;
  void* handle = nullptr;
  registrations.add_stub(&handle, address(0x1000), "one");
  std::vector<std::string> names;
  registrations.drain([&](const Registration& each) {
    names.emplace_back(each.name());
    if (names.size() == 1) registrations.add_stub(&handle, address(0x2000), "late");
  });
  EXPECT_EQ(names, (std::vector<std::string>{"one", "late"}));
  EXPECT_FALSE(registrations.waiting());
}

TEST(Registrations, WhatMemoryDoesNotSufficeForIsForgotten) {
  Registrations registrations;
  void* handle = nullptr;
  registrations.add_stub(&handle, address(0x1000), "first");
  registrations.add_stub(&handle, address(0x2000), "second");
  std::vector<std::string> names;
  registrations.drain([&](const Registration& each) {
    if (std::string(each.name()) == "first") throw std::bad_alloc();
    names.emplace_back(each.name());
  });
  EXPECT_EQ(names, std::vector<std::string>{"second"});
}

TEST(Registrations, OnlyAWrapperOfTheKnownKindHasAnImage) {
  Registrations registrations;
  void* handle = nullptr;
  Wrapper known, other;
  other.magic = 0x4b504948;
  registrations.add_fat_binary(&handle, &known);
  registrations.add_fat_binary(&handle, &other);
  std::vector<Registration> all;
  registrations.drain([&](const Registration& each) { all.push_back(each); });
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[0].readable);
  EXPECT_EQ(all[0].image, known.binary);
  EXPECT_FALSE(all[1].readable);
  EXPECT_EQ(all[1].image, &other);
}

TEST(Registrations, NullIsNoRegistration) {
  Registrations registrations;
  void* handle = nullptr;
  registrations.add_fat_binary(nullptr, address(0x1000));
  registrations.add_fat_binary(&handle, nullptr);
  registrations.add_stub(nullptr, address(0x1000), "name");
  registrations.add_stub(&handle, nullptr, "name");
  registrations.add_stub(&handle, address(0x1000), nullptr);
  EXPECT_FALSE(registrations.waiting());
}

TEST(Registrations, ManyThreadsLoseNone) {
  constexpr int kThreads = 4, kEach = 500;
  Registrations registrations;
  void* handle = nullptr;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) registrations.add_stub(&handle, address(0x1000), "name");
    });
  std::size_t drained_count = 0;
  for (int i = 0; i < 50; ++i) drained_count += drained(registrations).size();
  for (std::thread& thread : threads) thread.join();
  drained_count += drained(registrations).size();
  EXPECT_EQ(drained_count, std::size_t{kThreads} * kEach);
}

}  // namespace
}  // namespace graphpool
