// Which addresses of a graph are told as stale, and which are sound although they look alike.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "shim/kernel/argument_layout.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/signature_bits.h"
#include "shim/verify/stale_addresses.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr std::size_t kBytes = 1000, kPage = 4096;
constexpr std::uint64_t kGraph = 7;
/// What the runtime says that it knows, beside what the pool does.
std::set<std::uint64_t> g_known_to_runtime;
/// Of the allocations that follow.
std::uint32_t g_call_site = 0;
/// The object that is told of frees, as the process's is.
StaleAddresses* g_seen = nullptr;

/// A pointer, and a structure with one in it.
const ArgumentLayout& layout() {
  static const ArgumentLayout it({{0, 8, ArgumentKind::kGlobalBuffer}, {8, 16, ArgumentKind::kByValue}});
  return it;
}

/// A graph as an exec has it: operations, the binding, and the allocations noted when it got that.
class Graph {
 public:
  Graph() {
    of_.number = kGraph;
    of_.operations.push_back({});
    of_.kernels.push_back(nullptr);
  }
  Graph& kernel(std::uint64_t pointer, std::uint64_t in_structure = 0, int device = 0) {
    return with_arguments({pointer, in_structure, 0}, device);
  }
  /// A kernel with two addresses in its structure.
  Graph& structure(std::uint64_t first, std::uint64_t second) { return with_arguments({0, first, second}, 0); }
  Graph& copy(std::uint64_t dst, std::uint64_t src) {
    add(OperationKind::kCopy, 0);
    const CopyPayload payload{dst, src, 8, 1, 8, 8};
    std::memcpy(add_payload(binding_, sizeof payload), &payload, sizeof payload);
    return *this;
  }
  Graph& fill(std::uint64_t dst) {
    add(OperationKind::kFill, 0);
    const FillPayload payload{dst, 0, 8, 1, 8};
    std::memcpy(add_payload(binding_, sizeof payload), &payload, sizeof payload);
    return *this;
  }
  /// Its operations, in a child graph.
  Graph& child(const Graph& inner) {
    add(OperationKind::kChild, 0).child = &inner.of_.operations;
    binding_.append(inner.binding_.begin(), inner.binding_.end());
    return *this;
  }
  /// The exec gets its addresses now.
  Graph& bound() {
    named_ = StaleAddresses::allocations_of(of_.operations, binding_);
    return *this;
  }
  /// One operation gets them anew.
  Graph& set(std::uint32_t operation) {
    named_ = StaleAddresses::with_operation(of_.operations, binding_, operation, named_);
    return *this;
  }
  std::vector<StaleAddress> look(StaleAddresses& seen) const { return seen.look(of_, binding_, named_); }

 private:
  Graph& with_arguments(const std::array<std::uint64_t, 3>& arguments, int device) {
    add(OperationKind::kKernel, device).layout = &layout();
    KernelPayload shape{};
    shape.argument_bytes = sizeof arguments;
    std::memcpy(add_kernel_payload(binding_, shape), arguments.data(), sizeof arguments);
    of_.kernels.back() = "its_kernel";
    return *this;
  }
  Operation& add(OperationKind kind, int device) {
    Operation operation;
    operation.signature.kind = kind;
    operation.signature.device = packed_devices(device, device);
    operation.payload_offset = static_cast<std::uint32_t>(binding_.size());
    of_.operations.push_back(operation);
    of_.kernels.push_back(nullptr);
    return of_.operations.back();
  }

  Recording of_;
  Binding binding_;
  StaleAddresses::Allocations named_;
};

class StaleAddressesTest : public ::testing::Test {
 protected:
  StaleAddressesTest() {
    g_seen = &seen;
    g_known_to_runtime.clear();
    test_next().hipPointerGetAttributes = [](hipPointerAttribute_t* attributes, const void* address) {
      if (g_known_to_runtime.count(reinterpret_cast<std::uint64_t>(address)) == 0) return hipErrorInvalidValue;
      attributes->devicePointer = const_cast<void*>(address);
      return hipSuccess;
    };
    PoolSettings settings;
    settings.enabled = false;
    settings.leaving = [](const void* address, std::size_t) noexcept { g_seen->memory_leaves(address); };
    g_call_site = 0;
    device_memory().configure(
        settings, [](const AllocationRequest&) noexcept { return Decision{.pool = false, .call_site = g_call_site}; });
  }
  ~StaleAddressesTest() override {
    for (const std::uint64_t address : std::set<std::uint64_t>(live_)) free(address);
    g_seen = nullptr;
  }
  std::uint64_t allocate(int device = 0) {
    fake::t_device = device;
    void* memory = nullptr;
    EXPECT_EQ(device_memory().pool.allocate({AllocationFunction::kMalloc, kBytes, device, 0, nullptr}, &memory),
              hipSuccess);
    fake::t_device = 0;
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    live_.insert(address);
    return address;
  }
  void free(std::uint64_t address) {
    live_.erase(address);
    EXPECT_EQ(device_memory().frees.free(reinterpret_cast<void*>(address), next().hipFree), hipSuccess);
  }
  void expect_silent(const Graph& graph) { EXPECT_TRUE(graph.look(seen).empty()); }
  /// The one that is told.
  StaleAddress only(const Graph& graph) {
    const std::vector<StaleAddress> all = graph.look(seen);
    EXPECT_EQ(1u, all.size());
    return all.empty() ? StaleAddress{} : all.front();
  }
  void expect_only(StaleKind kind, const Graph& graph) { EXPECT_STREQ(word_of(kind), word_of(only(graph).kind)); }

  fake::Install fake;
  StaleAddresses seen;
  std::set<std::uint64_t> live_;
};

TEST_F(StaleAddressesTest, MemoryThatIsThereIsSound) {
  const std::uint64_t a = allocate(), b = allocate();
  expect_silent(Graph().kernel(a, b).copy(a + 10, b + kBytes - 1).fill(a).kernel(0, 0).bound());
  EXPECT_EQ(1u, seen.launches());
}

TEST_F(StaleAddressesTest, MemoryThatWasFreedIsToldWithItsPlace) {
  const std::uint64_t a = allocate(), b = allocate();
  Graph graph;
  graph.fill(b).kernel(a, b).bound();
  free(a);
  const StaleAddress stale = only(graph);
  EXPECT_EQ(kGraph, stale.graph);
  EXPECT_EQ(2u, stale.operation);
  EXPECT_EQ(0u, stale.argument);
  EXPECT_STREQ("kernel", stale.what);
  EXPECT_STREQ("its_kernel", stale.kernel);
  EXPECT_STREQ("freed", word_of(stale.kind));
  EXPECT_EQ(a, stale.address);
  EXPECT_FALSE(stale.hidden);
}

TEST_F(StaleAddressesTest, AWordOfAStructureIsToldAsOne) {
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(0, a + 8).bound();
  free(a);
  const StaleAddress stale = only(graph);
  EXPECT_TRUE(stale.hidden);
  EXPECT_EQ(1u, stale.argument) << "the structure, and not the word in it";
}

TEST_F(StaleAddressesTest, OperandsOfCopiesAndFillsHaveNumbers) {
  const std::uint64_t a = allocate(), b = allocate();
  Graph graph;
  graph.copy(a, b).fill(b).bound();
  free(b);
  const std::vector<StaleAddress> all = graph.look(seen);
  ASSERT_EQ(2u, all.size());
  EXPECT_STREQ("copy", all[0].what);
  EXPECT_EQ(1u, all[0].argument) << "the source";
  EXPECT_STREQ("fill", all[1].what);
  EXPECT_EQ(0u, all[1].argument);
}

TEST_F(StaleAddressesTest, MemoryOfAnotherAllocationAtTheSameAddress) {
  fake.hip->reuse_addresses = true;
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(a).bound();
  free(a);
  ASSERT_EQ(a, allocate());
  expect_only(StaleKind::kReused, graph);
  expect_silent(graph.set(1));
}

TEST_F(StaleAddressesTest, TheSitesOfALaterAllocationAreNotToldAsThoseOfTheOneThatTheExecNames) {
  fake.hip->reuse_addresses = true;
  g_call_site = 1;
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(a).bound();
  free(a);
  EXPECT_EQ(1u, only(graph).allocated_by);
  g_call_site = 2;
  ASSERT_EQ(a, allocate());
  free(a);
  EXPECT_EQ(0u, only(graph).allocated_by);
  expect_only(StaleKind::kFreed, graph);
}

TEST_F(StaleAddressesTest, MemoryThatWasFreedBeforeTheExecGotItsAddresses) {
  fake.hip->reuse_addresses = true;
  const std::uint64_t a = allocate();
  free(a);
  Graph graph;
  graph.kernel(a).bound();
  expect_only(StaleKind::kFreed, graph);
  ASSERT_EQ(a, allocate());
  expect_silent(graph);
}

TEST_F(StaleAddressesTest, OnlyTheOperationThatWasSetHasItsAddressesAnew) {
  fake.hip->reuse_addresses = true;
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(a).kernel(a).bound();
  free(a);
  ASSERT_EQ(a, allocate());
  graph.set(2);
  EXPECT_EQ(1u, only(graph).operation);
}

TEST_F(StaleAddressesTest, WhatIsInAChildGraphIsToldByTheChildsPlace) {
  const std::uint64_t a = allocate(), b = allocate();
  Graph inner, graph;
  inner.kernel(b).kernel(a);
  graph.fill(b).child(inner).bound();
  expect_silent(graph);
  free(a);
  EXPECT_EQ(2u, only(graph).operation);
}

TEST_F(StaleAddressesTest, AnotherDevicesMemoryIsToldOfKernelsWithoutPeerAccess) {
  const std::uint64_t a = allocate(1);
  Graph graph, copies;
  graph.kernel(a, 0, 0).bound();
  copies.copy(a, a).fill(a).bound();
  expect_only(StaleKind::kOtherDevice, graph);
  expect_silent(copies);
  expect_silent(Graph().kernel(a, 0, 1).bound());
  seen.peer_enabled(1, 0);
  expect_only(StaleKind::kOtherDevice, graph);
  seen.peer_enabled(0, 1);
  expect_silent(graph);
}

TEST_F(StaleAddressesTest, AnybodysMemoryMayBeUsedOnceThatWasAllowed) {
  const std::uint64_t a = allocate(1);
  seen.peer_enabled(0, -1);
  expect_silent(Graph().kernel(a).bound());
}

TEST_F(StaleAddressesTest, TheEndOfAnAllocationIsSoundAndWhatLiesBeyondIsNot) {
  const std::uint64_t a = allocate();
  expect_silent(Graph().kernel(a + kBytes).bound());
  const StaleAddress stale = only(Graph().kernel(a + kBytes + 1).bound());
  EXPECT_STREQ("beyond", word_of(stale.kind));
  EXPECT_TRUE(seen.note(stale));
  expect_silent(Graph().copy(a + kBytes + 1, a).bound());
  expect_silent(Graph().kernel(a, a + kBytes + 1).bound());
}

TEST_F(StaleAddressesTest, TheEndOfAnAllocationIsSoundWhereFreedMemoryBegins) {
  const std::uint64_t a = allocate();
  seen.unmapped(reinterpret_cast<void*>(a + kBytes), kBytes);
  expect_silent(Graph().kernel(a + kBytes).bound());
  expect_silent(Graph().kernel(a, a + kBytes).bound());
  expect_only(StaleKind::kUnmapped, Graph().kernel(a + kBytes + 8).bound());
}

TEST_F(StaleAddressesTest, WhatTheRuntimeKnowsIsSound) {
  const std::uint64_t a = allocate();
  const StaleAddress stale = only(Graph().kernel(a + kBytes + 100).bound());
  g_known_to_runtime.insert(a + kBytes + 100);
  EXPECT_FALSE(seen.note(stale));
  EXPECT_TRUE(seen.found().empty());
}

TEST_F(StaleAddressesTest, AnAddressWithoutMemoryIsToldUnlessTheProcessHasSomethingThere) {
  // A sanitizer has memory of its own nearly everywhere, but not where some was until now.
  void* const gone = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(MAP_FAILED, gone);
  ASSERT_EQ(0, munmap(gone, kPage));
  const StaleAddress stale = only(Graph().kernel(reinterpret_cast<std::uint64_t>(gone)).bound());
  EXPECT_STREQ("nowhere", word_of(stale.kind));
  EXPECT_TRUE(seen.note(stale));
  int own = 0;
  const StaleAddress host = only(Graph().kernel(reinterpret_cast<std::uint64_t>(&own)).bound());
  EXPECT_STREQ("nowhere", word_of(host.kind));
  EXPECT_FALSE(seen.note(host));
}

TEST_F(StaleAddressesTest, MappedMemoryIsStaleWhereItWasUnmappedAndNotMappedAgain) {
  alignas(kPage) static char place[3 * kPage];
  const auto at = [](std::size_t page) { return reinterpret_cast<std::uint64_t>(place + page * kPage); };
  seen.mapped(place, sizeof place);
  seen.unmapped(place, sizeof place);
  seen.mapped(place + kPage, kPage);
  for (const std::size_t page : {0u, 2u}) expect_only(StaleKind::kUnmapped, Graph().kernel(at(page)).bound());
  expect_only(StaleKind::kNowhere, Graph().kernel(at(1)).bound());
  expect_silent(Graph().copy(at(0), at(2)).bound());  // the operand of a copy may be host memory, which this is
  seen.unmapped(place + kPage, kPage);
  expect_only(StaleKind::kUnmapped, Graph().kernel(at(1)).bound());
}

TEST_F(StaleAddressesTest, OfTooManyRangesTheLowestGo) {
  constexpr std::uint64_t kFirst = 0x6000'0000'0000;
  for (std::size_t i = 0; i <= StaleAddresses::kMostRanges; ++i)
    seen.unmapped(reinterpret_cast<void*>(kFirst + i * kPage), 1);
  expect_only(StaleKind::kNowhere, Graph().kernel(kFirst).bound());
  expect_only(StaleKind::kUnmapped, Graph().kernel(kFirst + kPage).bound());
  expect_only(StaleKind::kUnmapped, Graph().kernel(kFirst + StaleAddresses::kMostRanges * kPage).bound());
}

TEST_F(StaleAddressesTest, EachIsToldOnceAndCounted) {
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(a).bound();
  free(a);
  const StaleAddress stale = only(graph);
  EXPECT_TRUE(seen.note(stale));
  EXPECT_FALSE(seen.note(only(graph)));
  StaleAddress other = stale;
  other.argument = 1;
  EXPECT_TRUE(seen.note(other));
  const std::vector<StaleAddress> found = seen.found();
  ASSERT_EQ(2u, found.size());
  EXPECT_EQ(2u, found[0].times);
  EXPECT_EQ(1u, found[1].times);
}

TEST_F(StaleAddressesTest, TwoWordsOfOneArgumentAreOneLaunch) {
  const std::uint64_t memory = allocate();
  Graph graph;
  graph.structure(memory, memory + 8).bound();
  free(memory);
  for (int launch = 0; launch < 2; ++launch)
    for (const StaleAddress& each : graph.look(seen)) seen.note(each);
  const auto found = seen.found();
  ASSERT_EQ(1u, found.size());
  EXPECT_EQ(2u, found[0].times);
}

TEST_F(StaleAddressesTest, WhoWantsToKnowIsCalledAfterEachWarning) {
  static int calls = 0;
  say_stale({});
  g_stale_found.store([]() noexcept { ++calls; });
  say_stale({});
  say_stale({});
  g_stale_found.store(nullptr);
  say_stale({});
  EXPECT_EQ(2, calls);
}

TEST_F(StaleAddressesTest, SoManyAreKeptAndNoMore) {
  StaleAddress stale;
  for (std::uint32_t i = 0; i < StaleAddresses::kMostFound; ++i) {
    stale.argument = i;
    EXPECT_TRUE(seen.note(stale));
  }
  stale.argument = StaleAddresses::kMostFound;
  EXPECT_FALSE(seen.note(stale));
  EXPECT_EQ(StaleAddresses::kMostFound, seen.found().size());
}

TEST_F(StaleAddressesTest, ThreadsMayLookWhileOthersFree) {
  const std::uint64_t a = allocate();
  Graph graph;
  graph.kernel(a).bound();
  std::thread frees([this] {
    for (int i = 0; i < 200; ++i) {
      seen.unmapped(reinterpret_cast<void*>(0x6000'0000'0000 + i * kPage), kPage);
      seen.mapped(reinterpret_cast<void*>(0x6000'0000'0000 + i * kPage), kPage);
    }
  });
  for (int i = 0; i < 200; ++i) expect_silent(graph);
  frees.join();
  EXPECT_EQ(200u, seen.launches());
}

}  // namespace
}  // namespace graphpool
